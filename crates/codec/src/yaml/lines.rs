//! Lines of fields in a document.

use super::document::{Document, Id, View};
use super::{parser, reader};

/// Line of a field in the first document of a stream, counted from 1. The path is written as in error messages:
/// `spec.containers[0].image`, `metadata.labels[app]`; of a list without an index the first item that has the field is
/// taken. Of a field that is missing it is the line of what would contain it; `None` if the document cannot be read.
///
/// ```
/// use kevel_codec::yaml::line_of;
/// let document = b"spec:\n  containers:\n  - name: a\n    image: b\n";
/// assert_eq!(line_of(document, "spec.containers[0].image"), Some(4));
/// assert_eq!(line_of(document, "spec.containers[0].ports[1].name"), Some(3));
/// ```
pub fn line_of(input: &[u8], path: &str) -> Option<usize> {
    lines_of(input, [path]).pop().flatten()
}

/// Lines of several fields; the document is read once. See [`line_of`].
pub fn lines_of<'p>(input: &[u8], paths: impl IntoIterator<Item = &'p str>) -> Vec<Option<usize>> {
    let paths = paths.into_iter();
    let input = reader::read(input.get(..super::MAX_INPUT).unwrap_or(input));
    let Ok(document) = parser::parse(&input) else { return paths.map(|_| None).collect() };
    let mut walk = LineWalk { document: &document, budget: MAX_STEPS };
    let line = |path| {
        let mut found = FoundLine { line: document.line(0), steps: 0 };
        walk.follow(0, path, 0, &mut found);
        usize::try_from(found.line).ok()?.checked_add(1)
    };
    paths.map(line).collect()
}

/// Limit on the nodes that are looked at for all paths together. Fields that are not found within it are at what would
/// contain them.
const MAX_STEPS: usize = 1 << 26;
/// Limit on the steps of a path, which the walk descends by recursion.
const MAX_PATH: usize = 128;

/// The deepest node that was found.
struct FoundLine {
    line: u32,
    steps: usize,
}

struct LineWalk<'d> {
    document: &'d Document<'d>,
    budget: usize,
}

impl LineWalk<'_> {
    /// Follows the path from a node; whether it led to its end.
    fn follow(&mut self, id: Id, path: &str, steps: usize, found: &mut FoundLine) -> bool {
        let path = path.strip_prefix('.').unwrap_or(path);
        if path.is_empty() || steps == MAX_PATH {
            return path.is_empty();
        }
        let id = self.document.resolve(id);
        match self.document.view(id) {
            View::Mapping(end) => {
                let Some((key, rest)) = self.entry(id + 1, end, path) else { return false };
                self.reach(key, steps, found);
                self.follow(self.document.after(key), rest, steps + 1, found)
            }
            View::Sequence(end) => match index(path) {
                Some((index, rest)) => {
                    self.budget = self.budget.saturating_sub(index.min(end as usize));
                    if self.budget == 0 {
                        return false;
                    }
                    let Some(item) = self.items(id + 1, end).nth(index) else { return false };
                    self.reach(item, steps, found);
                    self.follow(item, rest, steps + 1, found)
                }
                None => {
                    let items: Vec<Id> = self.items(id + 1, end).take(self.budget).collect();
                    items
                        .into_iter()
                        .any(|item| self.budget > 0 && self.follow(item, path, steps + 1, found))
                }
            },
            _ => false,
        }
    }

    fn reach(&self, id: Id, steps: usize, found: &mut FoundLine) {
        if steps >= found.steps {
            *found = FoundLine { line: self.document.line(id), steps: steps + 1 };
        }
    }

    /// The key that a path begins with, the longest if there are several, and the rest of the path.
    fn entry<'p>(&mut self, mut next: Id, end: Id, path: &'p str) -> Option<(Id, &'p str)> {
        let mut longest: Option<(Id, &str)> = None;
        while next < end && self.budget > 0 {
            self.budget -= 1;
            let key = next;
            next = self.document.after(self.document.after(key));
            let View::Str(name) = self.document.view(self.document.resolve(key)) else { continue };
            let Some(rest) = after(path, name) else { continue };
            if longest.is_none_or(|(_, other)| rest.len() < other.len()) {
                longest = Some((key, rest));
            }
        }
        longest
    }

    fn items(&self, next: Id, end: Id) -> impl Iterator<Item = Id> {
        let inside = move |id: Id| (id < end).then_some(id);
        std::iter::successors(inside(next), move |id| inside(self.document.after(*id)))
    }
}

/// The rest of a path that begins with a key, as a field or in brackets.
fn after<'p>(path: &'p str, key: &str) -> Option<&'p str> {
    if let Some(inner) = path.strip_prefix('[') {
        return inner.strip_prefix(key)?.strip_prefix(']');
    }
    let rest = path.strip_prefix(key)?;
    (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
}

/// An index in brackets, and the rest of the path.
fn index(path: &str) -> Option<(usize, &str)> {
    let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
    Some((index.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &[u8] = b"\
# comment
kind: Pod
metadata:
  labels:
    app: a
    app.kubernetes.io/name: b
spec:
  containers:
  - name: a
  - name: b
    ports:
    - {name: x,
       containerPort: 1}
  other: &x
    deep: 1
  alias: *x
";

    #[test]
    fn fields_are_found_as_messages_name_them() {
        for (path, line) in [
            ("kind", 2),
            ("metadata.labels[app]", 5),
            ("metadata.labels[app.kubernetes.io/name]", 6),
            ("metadata.labels.app.kubernetes.io/name", 6),
            ("metadata.labels", 4),
            ("spec.containers[1].ports[0].containerPort", 13),
            ("spec.containers.ports.containerPort", 13),
            ("spec.containers[1]", 10),
            ("spec.alias.deep", 15),
        ] {
            assert_eq!(line_of(DOCUMENT, path), Some(line), "{path}");
        }
    }

    #[test]
    fn missing_fields_are_at_what_would_contain_them() {
        for (path, line) in [
            ("spec.containers[0].image", 9),
            ("spec.containers[7].image", 8),
            ("metadata.name", 3),
            ("status", 2),
            ("", 2),
            ("spec.containers[x]", 8),
        ] {
            assert_eq!(line_of(DOCUMENT, path), Some(line), "{path}");
        }
        assert_eq!(line_of(b"a: [", "a"), None);
    }
}
