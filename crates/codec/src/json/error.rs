//! What can be wrong with a document.

use std::fmt;

use kevel_api::quote::quote;

/// Why a document could not be read, in the reference's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// It is not JSON.
    Syntax(String),
    /// It is JSON, but not of this type.
    Value(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Error::Syntax(message) | Error::Value(message)) = self;
        f.write_str(message)
    }
}

impl std::error::Error for Error {}

/// How many strict errors are reported at most.
pub const MAX_STRICT_ERRORS: usize = 100;

/// A field that is not there to be set, or is set twice.
///
/// ```
/// use kevel_codec::json::{StrictError, StrictProblem};
/// let error = StrictError { problem: StrictProblem::Unknown, path: "spec.foo".to_owned() };
/// assert_eq!(error.to_string(), r#"unknown field "spec.foo""#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrictError {
    /// What is wrong with the field.
    pub problem: StrictProblem,
    /// `spec.containers[0].foo`
    pub path: String,
}

/// What a [`StrictError`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrictProblem {
    /// The type has no such field.
    Unknown,
    /// The metadata of an embedded resource has no such field.
    UnknownEmbedded,
    /// The field is there twice.
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

/// All strict errors in one line, as the reference answers them.
pub fn strict_message<E: fmt::Display>(errors: &[E]) -> String {
    let each: Vec<String> = errors.iter().map(E::to_string).collect();
    format!("strict decoding error: {}", each.join(", "))
}

/// How many strict errors are looked at. Only input made to cost time has so many that say the
/// same.
const MAX_LOOKED_AT: usize = 1 << 14;

/// The strict errors of a document, in its order, whatever the order they are found in: an
/// unsorted map's duplicates are seen when it ends.
#[derive(Debug, Default)]
pub(super) struct StrictErrors {
    found: Vec<(usize, StrictError)>,
    looked_at: usize,
}

impl StrictErrors {
    /// Adds what is wrong at a position, unless enough is wrong before it.
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
