//! Fields that an applier wants otherwise than somebody else left them.

use std::fmt;

use super::entry::ManagerId;
use super::path::PathElement;
use super::set::path_text;

/// A field, and who owns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub manager: ManagerId,
    pub path: Vec<PathElement>,
}

impl Conflict {
    /// The field, as the status' cause names it.
    pub fn field(&self) -> String {
        path_text(&self.path)
    }

    /// The message of the status' cause.
    pub fn message(&self) -> String {
        format!("conflict with {}", self.manager)
    }
}

/// Why an apply was refused: 409, with a cause for each field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

impl Conflicts {
    /// Takes conflicts whose fields are in order, and puts their managers in order.
    pub(super) fn sorted(mut conflicts: Vec<Conflict>) -> Conflicts {
        conflicts.sort_by_cached_key(|conflict| conflict.manager.identifier());
        Conflicts(conflicts)
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = &self.0[..] {
            return write!(f, "Apply failed with 1 conflict: {}: {}", only.message(), only.field());
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        for (i, group) in self.0.chunk_by(|a, b| a.manager == b.manager).enumerate() {
            let Some(first) = group.first() else { continue };
            let line = if i > 0 { "\n" } else { "" };
            write!(f, "{line}conflicts with {}:", first.manager)?;
            group.iter().try_for_each(|conflict| write!(f, "\n- {}", conflict.field()))?;
        }
        Ok(())
    }
}

impl std::error::Error for Conflicts {}
