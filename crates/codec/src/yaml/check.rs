//! Errors that the reference finds when it walks a document node by node, in its order.

use super::Error;
use super::document::{Document, Id, View};
use super::go_syntax::go_syntax;

/// Limit on the text that aliases add to a document. The reference counts nodes only, and would write a long text for
/// each alias.
const MAX_ALIASED_TEXT: usize = 4 << 20;

/// Checks that all nodes are valid, that keys are scalars, that merged values are mappings, and that aliases do not
/// expand a small document to a large one.
pub(super) fn check(document: &Document<'_>) -> Result<(), Error> {
    let mut check = Check {
        document,
        open: Vec::new(),
        visits: 1,
        alias_depth: 0,
        alias_visits: 0,
        alias_text: 0,
        key_error: None,
    };
    check.visit(0)?;
    while let Some(Open { next, end, mapping, aliased, key }) = check.open.last_mut() {
        if next == end {
            if let Some(key) = *key {
                let syntax = go_syntax(document, key);
                return Err(Error::new(format!("invalid map key: {syntax}")));
            }
            check.alias_depth -= usize::from(*aliased);
            check.open.pop();
            continue;
        }
        let id = *next;
        *next = document.after(id);
        if !*mapping {
            check.visit(id)?;
        } else {
            let value = *next;
            *next = document.after(value);
            check.entry(id, value)?;
        }
    }
    check.key_error.map_or(Ok(()), Err)
}

struct Check<'d> {
    document: &'d Document<'d>,
    /// Collections that enclose the current node.
    open: Vec<Open>,
    visits: usize,
    /// Number of aliases that led to the current node.
    alias_depth: usize,
    alias_visits: usize,
    alias_text: usize,
    /// First key that is valid in YAML and not in JSON: the reference finds it later.
    key_error: Option<Error>,
}

struct Open {
    next: Id,
    end: Id,
    mapping: bool,
    aliased: bool,
    /// Key that is a collection, which is an error after its content is checked.
    key: Option<Id>,
}

impl Check<'_> {
    fn visit(&mut self, id: Id) -> Result<(), Error> {
        self.count(0)?;
        let target = self.document.resolve(id);
        let aliased = target != id;
        if aliased {
            self.alias_depth += 1;
            self.count(match self.document.view(target) {
                View::Str(text) => text.len(),
                _ => 0,
            })?;
        }
        let (end, mapping) = match self.document.view(target) {
            View::Sequence(end) => (end, false),
            View::Mapping(end) => (end, true),
            View::Fault(fault) | View::Cycle(fault) => return Err(Error::new(fault)),
            View::Str(text) if self.alias_depth > 0 && !aliased => {
                self.alias_text += text.len();
                (0, false)
            }
            _ => (0, false),
        };
        if end > 0 {
            self.open.push(Open { next: target + 1, end, mapping, aliased, key: None });
        } else {
            self.alias_depth -= usize::from(aliased);
        }
        Ok(())
    }

    fn entry(&mut self, key: Id, value: Id) -> Result<(), Error> {
        if self.document.is_merge(key) {
            return self.merge(value);
        }
        let kind = match self.document.view(self.document.resolve(key)) {
            View::Sequence(_) | View::Mapping(_) => {
                self.visit(key)?;
                if let Some(open) = self.open.last_mut() {
                    open.key = Some(key);
                }
                return Ok(());
            }
            View::Null => Some("%!s(<nil>)"),
            View::Uint(_) => Some("uint64"),
            _ => None,
        };
        self.visit(key)?;
        if let Some(kind) = kind
            && self.key_error.is_none()
        {
            let key = go_syntax(self.document, key).replace("interface {}(nil)", "<nil>");
            let value = go_syntax(self.document, value);
            let value = if value == "interface {}(nil)" { "<nil>" } else { &value };
            let error = format!("unsupported map key of type: {kind}, key: {key}, value: {value}");
            self.key_error = Some(Error::bare(error));
        }
        self.visit(value)
    }

    fn merge(&mut self, value: Id) -> Result<(), Error> {
        let document = self.document;
        let is_mapping = |id| matches!(document.view(document.resolve(id)), View::Mapping(_));
        match document.view(value) {
            View::Cycle(fault) => return Err(Error::new(fault)),
            View::Sequence(end) => {
                let mut id = value + 1;
                while id < end {
                    if !is_mapping(id) {
                        return Err(want_map());
                    }
                    self.visit(id)?;
                    id = document.after(id);
                }
            }
            _ if is_mapping(value) => self.visit(value)?,
            _ => return Err(want_map()),
        }
        Ok(())
    }

    /// Counts a visited node, and the text that an alias adds.
    fn count(&mut self, alias_text: usize) -> Result<(), Error> {
        self.visits += 1;
        self.alias_visits += usize::from(self.alias_depth > 0);
        self.alias_text += alias_text;
        let excessive = self.alias_visits > 100
            && self.visits > 1000
            && self.alias_visits as f64 / self.visits as f64 > allowed_alias_share(self.visits);
        if excessive || self.alias_text > MAX_ALIASED_TEXT {
            return Err(Error::new("document contains excessive aliasing"));
        }
        Ok(())
    }
}

/// Share of nodes that may come from aliases: nearly all in a small document, few in a large one.
fn allowed_alias_share(visits: usize) -> f64 {
    const SMALL: f64 = 400_000.0;
    const LARGE: f64 = 4_000_000.0;
    let visits = visits as f64;
    if visits <= SMALL {
        0.99
    } else if visits >= LARGE {
        0.10
    } else {
        0.99 - 0.89 * ((visits - SMALL) / (LARGE - SMALL))
    }
}

fn want_map() -> Error {
    Error::new("map merge requires map or sequence of maps as the value")
}
