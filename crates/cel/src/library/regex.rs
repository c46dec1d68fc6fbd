//! Regular expressions.

use kevel_regexp::{Exhausted, Regexp};

use super::{MAX_LENGTH, Row, declared, ordered, row};
use crate::error::Error;
use crate::value::Value;

pub(super) const ROWS: &[Row] = &[
    declared("matches", "matches", "(string, string) -> bool"),
    declared("matches", "matches_string", "string.(string) -> bool"),
    row("find", "string_find_string", "string.(string) -> string", |args| {
        illegal(RegexFunction::Find, args)
    }),
    row("findAll", "string_find_all_string", "string.(string) -> list(string)", |args| {
        illegal(RegexFunction::FindAll, args)
    }),
    ordered(
        "findAll",
        "string_find_all_string_int",
        "string.(string, int) -> list(string)",
        |args| illegal(RegexFunction::FindAll, args),
    ),
];

/// Longest text, in bytes, that is searched with a non-constant expression without building an automaton first:
/// building one takes as long as reading this much.
const SHORT: usize = 16 << 10;

/// A function whose second argument is a regular expression, which is compiled once if it is constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegexFunction {
    Matches,
    Find,
    FindAll,
}

impl RegexFunction {
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "matches" => Some(RegexFunction::Matches),
            "find" => Some(RegexFunction::Find),
            "findAll" => Some(RegexFunction::FindAll),
            _ => None,
        }
    }

    pub fn call<'a>(self, regexp: &Regexp, args: &[Value<'a>]) -> Result<Value<'a>, Error> {
        let (text, limit) = match args {
            [Value::String(text), _] => (text, -1),
            [Value::String(text), _, Value::Int(limit)] => (text, *limit),
            _ => return Err(Error::no_such_overload()),
        };
        Ok(match self {
            RegexFunction::Matches => Value::Bool(regexp.is_match(text).map_err(exhausted)?),
            RegexFunction::Find => {
                Value::string(regexp.find(text).map_err(exhausted)?.unwrap_or_default())
            }
            RegexFunction::FindAll => {
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                let found = regexp.find_all(text, limit.min(MAX_LENGTH + 1)).map_err(exhausted)?;
                if found.len() > MAX_LENGTH {
                    return Err(Error::cost_limit());
                }
                let part = |(start, end): &(usize, usize)| Value::String(text.slice(*start, *end));
                Value::list(found.iter().map(part).collect())
            }
        })
    }
}

/// Error of a search that was given up: it cost more than any expression may.
fn exhausted(_: Exhausted) -> Error {
    Error::cost_limit()
}

pub(super) fn matches<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    with_pattern(RegexFunction::Matches, args).map_err(|problem| match problem {
        Problem::Pattern(message) => Error::new(message),
        Problem::Call(error) => error,
    })
}

fn illegal<'a>(function: RegexFunction, args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    with_pattern(function, args).map_err(|problem| match problem {
        Problem::Pattern(message) => Error::new(format!("Illegal regex: {message}")),
        Problem::Call(error) => error,
    })
}

enum Problem {
    Pattern(String),
    Call(Error),
}

fn with_pattern<'a>(function: RegexFunction, args: &[Value<'a>]) -> Result<Value<'a>, Problem> {
    let Some(Value::String(pattern)) = args.get(1) else {
        return Err(Problem::Call(Error::no_such_overload()));
    };
    let mut regexp = Regexp::new(pattern).map_err(|error| Problem::Pattern(error.to_string()))?;
    if matches!(args.first(), Some(Value::String(text)) if text.len() <= SHORT) {
        regexp = regexp.for_one_search();
    }
    function.call(&regexp, args).map_err(Problem::Call)
}
