//! Checks of a recorded history against the guarantees of the API.

pub mod linear;
mod reads;
mod reference;
mod register;
#[cfg(test)]
mod tests;
mod watch;

use crate::history::History;

pub use reference::Reference;

/// A violated guarantee.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The guarantee.
    pub promise: &'static str,
    /// The observation that violates it.
    pub what: String,
}

impl Violation {
    /// Makes a violation.
    pub fn new(promise: &'static str, what: impl Into<String>) -> Violation {
        Violation { promise, what: what.into() }
    }
}

/// Numbers of checks: a check of nothing proves nothing.
#[derive(Debug, Default, Clone)]
pub struct Checked {
    /// Linearized operations.
    pub ordered: usize,
    /// Lists that were compared with the history at their revision.
    pub lists: usize,
    /// Watch events that were compared with the history.
    pub events: usize,
    /// Comparisons that were impossible because that part of the history was not observed.
    pub unclear: usize,
    /// Known revisions.
    pub revisions: usize,
}

/// All violations, the most significant first.
pub fn all(history: &History) -> (Vec<Violation>, Checked) {
    let mut violations = Vec::new();
    let mut checked = Checked::default();
    let reference = Reference::of(history, &mut violations);
    checked.revisions = reference.len();
    register::check(history, &reference, &mut violations, &mut checked);
    reads::check(history, &reference, &mut violations, &mut checked);
    watch::check(history, &reference, &mut violations, &mut checked);
    (violations, checked)
}
