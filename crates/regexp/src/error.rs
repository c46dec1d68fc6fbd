//! Reasons for which an expression is refused, or a search has no result.

use std::fmt;

/// An expression that Go's `regexp.Compile` refuses, in its words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {code}: `{expression}`")]
pub struct SyntaxError {
    /// The kind of mistake.
    pub code: Code,
    /// The part of the expression that is wrong.
    pub expression: String,
}

impl SyntaxError {
    pub(crate) fn new(code: Code, expression: &str) -> Self {
        SyntaxError { code, expression: expression.to_owned() }
    }
}

/// Kinds of mistakes (upstream: `syntax.ErrorCode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// A range that is upside down, or a class that has no such name.
    InvalidCharacterRange,
    /// A backslash before a character that means nothing.
    InvalidEscape,
    /// A name of a group with other characters than letters, digits and underscores.
    InvalidNamedCapture,
    /// `(?` before something that is no flag.
    InvalidPerlOperator,
    /// A repetition of a repetition: `a**`.
    InvalidRepeatOperator,
    /// More than a thousand repetitions, or fewer than none.
    InvalidRepeatSize,
    /// A class without its end.
    MissingBracket,
    /// A group without its end.
    MissingParenthesis,
    /// A repetition of nothing.
    MissingRepeatArgument,
    /// A backslash before nothing.
    TrailingBackslash,
    /// The end of a group that did not begin.
    UnexpectedParenthesis,
    /// More levels than [`crate::MAX_HEIGHT`].
    NestingDepth,
    /// More instructions than [`crate::MAX_SIZE`].
    Large,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Code::InvalidCharacterRange => "invalid character class range",
            Code::InvalidEscape => "invalid escape sequence",
            Code::InvalidNamedCapture => "invalid named capture",
            Code::InvalidPerlOperator => "invalid or unsupported Perl syntax",
            Code::InvalidRepeatOperator => "invalid nested repetition operator",
            Code::InvalidRepeatSize => "invalid repeat count",
            Code::MissingBracket => "missing closing ]",
            Code::MissingParenthesis => "missing closing )",
            Code::MissingRepeatArgument => "missing argument to repetition operator",
            Code::TrailingBackslash => "trailing backslash at end of expression",
            Code::UnexpectedParenthesis => "unexpected )",
            Code::NestingDepth => "expression nests too deeply",
            Code::Large => "expression too large",
        })
    }
}

/// A search that took more steps than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("regular expression takes too many steps on this text")]
pub struct Exhausted;
