//! Error of a reconciliation.

use kevel_api::status::{StatusError, reason};

/// Error of a reconciliation, in the words of Events and conditions.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReconcileError {
    /// A request failed.
    #[error(transparent)]
    Request(#[from] StatusError),
    /// A request of a larger step failed.
    #[error("{step}: {source}")]
    Step {
        /// The step, as messages name it.
        step: String,
        /// Failure of the request.
        source: StatusError,
    },
    /// The objects do not fit.
    #[error("{0}")]
    Objects(String),
}

impl ReconcileError {
    /// Error of a request that a step needs.
    pub fn step(step: impl Into<String>, source: StatusError) -> Self {
        ReconcileError::Step { step: step.into(), source }
    }

    /// Whether an object was changed meanwhile.
    pub fn is_conflict(&self) -> bool {
        matches!(self, ReconcileError::Request(error) if error.reason() == reason::CONFLICT)
    }
}
