//! Errors of expressions and searches.

use std::fmt;

/// An expression that Go's `regexp.Compile` rejects, with its message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {code}: `{expression}`")]
pub struct SyntaxError {
    /// Kind of error.
    pub code: Code,
    /// The invalid part of the expression.
    pub expression: String,
}

impl SyntaxError {
    pub(crate) fn new(code: Code, expression: &str) -> Self {
        SyntaxError { code, expression: expression.to_owned() }
    }
}

/// Kinds of errors (upstream: `syntax.ErrorCode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// A reversed range, or an unknown class name.
    InvalidCharacterRange,
    /// A backslash before a character without a meaning.
    InvalidEscape,
    /// A group name with other characters than letters, digits and underscores.
    InvalidNamedCapture,
    /// `(?` before something that is no flag.
    InvalidPerlOperator,
    /// A repetition of a repetition: `a**`.
    InvalidRepeatOperator,
    /// More than a thousand repetitions, or a reversed range of counts.
    InvalidRepeatSize,
    /// A class without its closing bracket.
    MissingBracket,
    /// A group without its closing parenthesis.
    MissingParenthesis,
    /// A repetition of nothing.
    MissingRepeatArgument,
    /// A backslash before nothing.
    TrailingBackslash,
    /// A closing parenthesis without a group.
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

/// A search that exceeded its limit of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("regular expression takes too many steps on this text")]
pub struct Exhausted;
