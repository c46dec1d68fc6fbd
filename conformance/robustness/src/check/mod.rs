//! Holds what was recorded against what is promised.

pub mod linear;
mod reads;
mod reference;
mod register;
#[cfg(test)]
mod tests;
mod watch;

use crate::history::History;

pub use reference::Reference;

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which promise.
    pub promise: &'static str,
    /// What was seen instead.
    pub what: String,
}

impl Violation {
    /// A promise, and what was seen instead.
    pub fn new(promise: &'static str, what: impl Into<String>) -> Violation {
        Violation { promise, what: what.into() }
    }
}

/// How much was held against the promises: a check of nothing proves nothing.
#[derive(Debug, Default, Clone)]
pub struct Checked {
    /// Operations that were put in an order.
    pub ordered: usize,
    /// Lists that were compared with the history at their revision.
    pub lists: usize,
    /// Watch events that were compared with the history.
    pub events: usize,
    /// Comparisons that could not be made because nobody had seen that part of the history.
    pub unclear: usize,
    /// Revisions known of.
    pub revisions: usize,
}

/// All violations, the one that explains most first.
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
