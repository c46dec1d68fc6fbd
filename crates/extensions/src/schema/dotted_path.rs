//! Field paths as messages of OpenAPI validation print them.

use std::fmt;

/// Path from the root to a value; formatted only for a finding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DottedPath<'a> {
    parent: Option<&'a DottedPath<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Root,
    Property(&'a str),
    /// Key of `additionalProperties`: printed behind a dot even at the root.
    Additional(&'a str),
    Index(usize),
}

impl<'a> DottedPath<'a> {
    pub const ROOT: DottedPath<'static> = DottedPath { parent: None, step: Step::Root };

    pub fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
    }

    pub fn property<'b>(&'b self, name: &'b str) -> DottedPath<'b> {
        DottedPath { parent: Some(self), step: Step::Property(name) }
    }

    pub fn additional<'b>(&'b self, key: &'b str) -> DottedPath<'b> {
        DottedPath { parent: Some(self), step: Step::Additional(key) }
    }

    pub fn index(&self, index: usize) -> DottedPath<'_> {
        DottedPath { parent: Some(self), step: Step::Index(index) }
    }
}

impl fmt::Display for DottedPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Property(name) if self.parent.is_none_or(DottedPath::is_root) => {
                f.write_str(name)
            }
            Step::Property(name) | Step::Additional(name) => write!(f, ".{name}"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}
