//! Conflicts of server-side apply: fields that other managers own with other values.

use std::fmt;
use std::ops::ControlFlow;

use kevel_api::field_error::{MAX_ERROR_BYTES, MAX_ERRORS, MAX_PATH_BYTES, print_up_to};

use super::entry::ManagerId;
use super::set::{PathText, Set};

/// A conflicting field, and its manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Manager, as messages name it.
    pub manager: String,
    /// Field, as the cause in the Status names it.
    pub field: String,
}

impl Conflict {
    /// Message of the cause in the Status.
    pub fn message(&self) -> String {
        format!("conflict with {}", self.manager)
    }
}

/// Conflicts of an apply: 409, with a cause for each field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts {
    /// Conflicting fields by manager, in the order of the reference.
    managers: Vec<(ManagerId, Set)>,
}

impl Conflicts {
    /// Takes the conflicting fields of each manager.
    pub(super) fn new(mut managers: Vec<(ManagerId, Set)>) -> Conflicts {
        managers.sort_by_cached_key(|(manager, _)| manager.identifier());
        Conflicts { managers }
    }

    /// Conflicts without some fields; `None` if none is left.
    pub(super) fn without(mut self, fields: &Set) -> Option<Conflicts> {
        self.managers.iter_mut().for_each(|(_, set)| set.subtract(fields));
        self.managers.retain(|(_, set)| !set.is_empty());
        (!self.managers.is_empty()).then_some(self)
    }

    /// Number of conflicting fields.
    pub fn count(&self) -> usize {
        self.managers.iter().map(|(_, set)| set.count()).sum()
    }

    /// Conflicts to report, within the limits of an answer.
    pub fn told(&self) -> Vec<Conflict> {
        let (mut told, mut bytes) = (Vec::new(), 0);
        for (manager, set) in &self.managers {
            let manager = print_up_to(MAX_PATH_BYTES, manager);
            let walked = set.try_for_each(|path| {
                if told.len() == MAX_ERRORS || bytes > MAX_ERROR_BYTES {
                    return ControlFlow::Break(());
                }
                let field = print_up_to(MAX_PATH_BYTES, PathText(path));
                bytes += manager.len() + field.len();
                told.push(Conflict { manager: manager.clone(), field });
                ControlFlow::Continue(())
            });
            if walked.is_break() {
                break;
            }
        }
        told
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, told) = (self.count(), self.told());
        if let ([only], 1) = (&told[..], count) {
            return write!(f, "Apply failed with 1 conflict: {}: {}", only.message(), only.field);
        }
        write!(f, "Apply failed with {count} conflicts: ")?;
        for (i, group) in told.chunk_by(|a, b| a.manager == b.manager).enumerate() {
            let Some(first) = group.first() else { continue };
            let line = if i > 0 { "\n" } else { "" };
            write!(f, "{line}conflicts with {}:", first.manager)?;
            group.iter().try_for_each(|conflict| write!(f, "\n- {}", conflict.field))?;
        }
        match count - told.len() {
            0 => Ok(()),
            untold => write!(f, "\nand {untold} more"),
        }
    }
}

impl std::error::Error for Conflicts {}
