//! Why an evaluation has no result.

use std::fmt;

/// Why an evaluation has no result; prints as the reference does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
    message: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Like a value, one side of `||` may be this and the other decide.
    Failed,
    /// Nothing more is evaluated.
    CostLimit,
    Interrupted,
}

impl Error {
    /// An error that is part of the evaluation: `||` may make up for it.
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

    /// Whether the evaluation took more than its budget.
    pub fn is_cost_limit(&self) -> bool {
        self.kind == Kind::CostLimit
    }

    /// Whether evaluation was stopped from outside, or for want of an answer.
    pub fn is_interrupted(&self) -> bool {
        self.kind == Kind::Interrupted
    }

    /// Whether evaluation was stopped, for its cost or from outside.
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
