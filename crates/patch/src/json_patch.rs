//! JSON patch (RFC 6902), with what the reference's library makes of it: indexes may be negative,
//! and `replace` adds a field that an object does not have.

mod decode;
mod operation;
mod reach;
#[cfg(test)]
mod tests;

use std::fmt;

use kevel_api::value::Value;
use kevel_codec::json::open;
pub use operation::Operation;
pub use reach::Reach;

/// How many operations a patch may have.
pub const MAX_OPERATIONS: usize = 10_000;

/// How deep a patched tree may be, as for a tree that is read.
const MAX_DEPTH: usize = kevel_codec::json::MAX_DEPTH;

/// How often the depth of a tree is measured, which a patch of any use never causes once.
const MAX_MEASURES: usize = 64;

/// How many bytes of lists and maps the operations of a patch may move to make or close a gap: half a
/// second's work. Ten thousand items at the front of a list of as many take half of it; only at the
/// front of a million does it matter.
const MAX_MOVED: usize = 2 << 30;

/// A sequence of operations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patch {
    operations: Vec<Operation>,
}

/// Why a JSON patch cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// It cannot be read: 400, with this message.
    Decode(String),
    /// It has more than [`MAX_OPERATIONS`]: 413.
    TooManyOperations(usize),
    /// It does not fit the document: 422; the reference keeps this message to itself.
    Apply(String),
    /// A test of it failed, to the same effect.
    TestFailed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Decode(message) | Error::Apply(message) | Error::TestFailed(message) => {
                f.write_str(message)
            }
            Error::TooManyOperations(count) => write!(
                f,
                "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}"
            ),
        }
    }
}

impl std::error::Error for Error {}

impl Patch {
    /// A patch of these operations.
    pub fn new(operations: Vec<Operation>) -> Self {
        Patch { operations }
    }

    /// The operations, in order.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Applies the operations to an object's tree, one after the other, all or none.
    ///
    /// `copy_limit` bounds the bytes of JSON that `copy` may add; 0 sets no bound.
    ///
    /// ```
    /// use kevel_codec::json::{Unknown, decode_any, encode_any};
    /// use kevel_patch::json_patch::Patch;
    /// let patch = br#"[{"op":"add","path":"/a/-","value":2},{"op":"remove","path":"/b"}]"#;
    /// let (patch, _) = Patch::decode(patch, Unknown::Report)?;
    /// let document = decode_any(br#"{"a":[1],"b":true}"#, Unknown::Ignore)?.value;
    /// let mut out = Vec::new();
    /// encode_any(&patch.apply(document, 0)?, &mut out);
    /// assert_eq!(out, br#"{"a":[1,2]}"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn apply(&self, mut document: Value, copy_limit: usize) -> Result<Value, Error> {
        let mut limits = Limits::new(copy_limit, depth(&document));
        for operation in &self.operations {
            operation.apply(&mut document, &mut limits)?;
            if limits.depth > MAX_DEPTH {
                limits.measure(&document).map_err(Error::Apply)?;
            }
        }
        Ok(document)
    }
}

/// What a patch that applies makes of a document, both compact JSON: as the reference's library writes it,
/// which sorts the keys of what the patch went through and leaves everything else as it stood.
pub(crate) fn replayed(document: &str, patch: &str) -> Option<Value> {
    let Value::List(operations) = open(patch) else { return None };
    let mut document = open(document);
    let mut limits = Limits::new(0, 0);
    for operation in operations {
        Operation::unread(operation).replay(&mut document, &mut limits)?;
    }
    Some(document)
}

/// What the operations of one patch may use up together.
#[derive(Debug)]
struct Limits {
    copy: usize,
    copied: usize,
    /// The tree is not deeper than this; operations raise it, measuring lowers it.
    depth: usize,
    measures: usize,
    moved: usize,
}

impl Limits {
    fn new(copy: usize, depth: usize) -> Self {
        Limits { copy, copied: 0, depth, measures: 0, moved: 0 }
    }

    fn count_copy(&mut self, size: usize) -> Result<(), String> {
        self.copied += size;
        if self.copy > 0 && self.copied > self.copy {
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {}, \
                 exceeding the limit {}",
                self.copied, self.copy
            ));
        }
        Ok(())
    }

    /// Counts the elements that stand behind one that comes or goes.
    fn count_move<T>(&mut self, elements: usize) -> Result<(), String> {
        self.moved = self.moved.saturating_add(elements * size_of::<T>());
        match self.moved > MAX_MOVED {
            true => Err("the operations move too much of the document".to_owned()),
            false => Ok(()),
        }
    }

    fn put(&mut self, at: usize, depth: usize) {
        self.depth = self.depth.max(at.saturating_add(depth));
    }

    fn measure(&mut self, document: &Value) -> Result<(), String> {
        self.measures += 1;
        self.depth = depth(document);
        if self.depth > MAX_DEPTH || self.measures > MAX_MEASURES {
            return Err("exceeded max depth".to_owned());
        }
        Ok(())
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::List(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Map(map) => 1 + map.iter().map(|(_, value)| depth(value)).max().unwrap_or_default(),
        _ => 0,
    }
}
