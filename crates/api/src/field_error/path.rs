//! Paths to fields.

use std::fmt;

/// Path from an object's root to a field: `spec.containers[0].ports[name]`.
///
/// A path borrows its parent, so that walking an object costs nothing until there is an error to
/// report.
///
/// ```
/// use kevel_api::field_error::Path;
/// let containers = Path::new("spec.containers");
/// let first = containers.index(0);
/// assert_eq!(first.child("image").to_string(), "spec.containers[0].image");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    element: Element<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Element<'a> {
    /// No path.
    None,
    Name(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// No path: prints `<nil>`, while its children print as roots.
    pub const NONE: Path<'static> = Path { parent: None, element: Element::None };

    /// A field at the root; dots separate several names.
    pub const fn new(name: &'a str) -> Self {
        Path { parent: None, element: Element::Name(name) }
    }

    /// A field of the struct at this path; dots separate several names.
    pub const fn child<'b>(&'b self, name: &'b str) -> Path<'b> {
        Path { parent: Some(self), element: Element::Name(name) }
    }

    /// An item of the list at this path.
    pub const fn index(&self, index: usize) -> Path<'_> {
        Path { parent: Some(self), element: Element::Index(index) }
    }

    /// An entry of the map at this path.
    pub const fn key<'b>(&'b self, key: &'b str) -> Path<'b> {
        Path { parent: Some(self), element: Element::Key(key) }
    }

    /// Folds over the path from `start`: by field names, indexes and keys.
    pub(crate) fn walk<T>(
        &self,
        start: T,
        field: impl Fn(T, &str) -> T + Copy,
        item: impl Fn(T) -> T + Copy,
        entry: impl Fn(T, &str) -> T + Copy,
    ) -> T {
        let at = match self.parent {
            Some(parent) => parent.walk(start, field, item, entry),
            None => start,
        };
        match self.element {
            Element::None => at,
            Element::Name(names) => names.split('.').fold(at, field),
            Element::Index(_) => item(at),
            Element::Key(key) => entry(at, key),
        }
    }

    const fn is_none(&self) -> bool {
        matches!(self.element, Element::None)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parent = self.parent.filter(|parent| !parent.is_none());
        if let Some(parent) = parent {
            parent.fmt(f)?;
        }
        match self.element {
            Element::None => f.write_str("<nil>"),
            Element::Name("") => f.write_str("[]"),
            Element::Name(name) if parent.is_some() => write!(f, ".{name}"),
            Element::Name(name) => f.write_str(name),
            Element::Index(index) => write!(f, "[{index}]"),
            Element::Key(key) => write!(f, "[{key}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_print() {
        let spec = Path::new("spec");
        let containers = spec.child("containers");
        let first = containers.index(0);
        let ports = first.child("ports");
        assert_eq!(ports.key("name").to_string(), "spec.containers[0].ports[name]");
        assert_eq!(Path::NONE.to_string(), "<nil>");
        assert_eq!(Path::NONE.child("key").to_string(), "key");
        assert_eq!(Path::NONE.index(3).to_string(), "[3]");
    }
}
