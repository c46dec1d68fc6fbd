//! Evaluation errors.

use std::fmt;

/// Evaluation error; prints as in the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
    message: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Error that CEL treats as a value: the other side of `||` may decide.
    Failed,
    /// The cost limit is exceeded; evaluation ends.
    CostLimit,
    Interrupted,
}

impl Error {
    /// Error within the evaluation: the other side of `||` may decide.
    pub fn new(message: impl Into<String>) -> Self {
        Error { kind: Kind::Failed, message: message.into().into() }
    }

    pub(crate) fn no_such_overload() -> Self {
        Error::new("no such overload")
    }

    pub(crate) fn cost_limit() -> Self {
        let message = "operation cancelled: actual cost limit exceeded";
        Error { kind: Kind::CostLimit, message: message.into() }
    }

    pub(crate) fn interrupted() -> Self {
        Error { kind: Kind::Interrupted, message: "operation interrupted".into() }
    }

    /// Whether the cost limit was exceeded.
    pub fn is_cost_limit(&self) -> bool {
        self.kind == Kind::CostLimit
    }

    /// Whether evaluation was interrupted from outside, or because an authorization check has to wait.
    pub fn is_interrupted(&self) -> bool {
        self.kind == Kind::Interrupted
    }

    /// Whether evaluation was ended by the cost limit or an interruption.
    pub fn is_cancelled(&self) -> bool {
        self.kind != Kind::Failed
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
