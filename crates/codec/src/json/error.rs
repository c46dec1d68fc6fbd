//! Errors of decoding.

use std::fmt;

use kevel_api::quote::quote;

/// Error of decoding a document, in the reference's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The document is not JSON.
    Syntax(String),
    /// The document is JSON, but does not fit the type.
    Value(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Error::Syntax(message) | Error::Value(message)) = self;
        f.write_str(message)
    }
}

impl std::error::Error for Error {}

/// Limit on reported strict errors.
pub const MAX_STRICT_ERRORS: usize = 100;

/// An unknown or duplicate field.
///
/// ```
/// use kevel_codec::json::{StrictError, StrictProblem};
/// let error = StrictError { problem: StrictProblem::Unknown, path: "spec.foo".to_owned() };
/// assert_eq!(error.to_string(), r#"unknown field "spec.foo""#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrictError {
    /// Kind of the problem.
    pub problem: StrictProblem,
    /// Path to the field: `spec.containers[0].foo`
    pub path: String,
}

/// Kind of a [`StrictError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrictProblem {
    /// The type has no such field.
    Unknown,
    /// The metadata of an embedded resource has no such field.
    UnknownEmbedded,
    /// The field occurs twice.
    Duplicate,
}

impl fmt::Display for StrictError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problem = match self.problem {
            StrictProblem::Unknown | StrictProblem::UnknownEmbedded => "unknown",
            StrictProblem::Duplicate => "duplicate",
        };
        write!(f, "{problem} field {}", quote(&self.path))
    }
}

/// Message with all strict errors, as in the reference's answers.
pub fn strict_message<E: fmt::Display>(errors: &[E]) -> String {
    let each: Vec<String> = errors.iter().map(E::to_string).collect();
    format!("strict decoding error: {}", each.join(", "))
}

/// Limit on examined strict errors. Only hostile input has so many with the same text.
const MAX_LOOKED_AT: usize = 1 << 14;

/// Strict errors of a document, in its order whatever the order of discovery: duplicates in an unsorted map are found
/// at its end.
#[derive(Debug, Default)]
pub(super) struct StrictErrors {
    found: Vec<(usize, StrictError)>,
    looked_at: usize,
}

impl StrictErrors {
    /// Adds an error at a position, unless there are enough before it.
    pub(super) fn add(&mut self, at: usize, problem: StrictProblem, path: impl FnOnce() -> String) {
        let found = &mut self.found;
        if found.len() == MAX_STRICT_ERRORS && found.last().is_some_and(|last| last.0 < at)
            || self.looked_at == MAX_LOOKED_AT
        {
            return;
        }
        self.looked_at += 1;
        let error = StrictError { problem, path: path() };
        if let Some(same) = found.iter().position(|(_, known)| *known == error) {
            if found[same].0 <= at {
                return;
            }
            found.remove(same);
        }
        let place = found.partition_point(|(known, _)| *known <= at);
        found.insert(place, (at, error));
        found.truncate(MAX_STRICT_ERRORS);
    }

    pub(super) fn into_vec(self) -> Vec<StrictError> {
        self.found.into_iter().map(|(_, error)| error).collect()
    }
}
