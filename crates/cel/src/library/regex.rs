//! Regular expressions.

use regex::Regex;

use super::{MAX_LENGTH, Row, compile_regex, declared, ordered, row};
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

    pub fn call<'a>(self, regex: &Regex, args: &[Value<'a>]) -> Result<Value<'a>, Error> {
        let (text, limit) = match args {
            [Value::String(text), _] => (text, -1),
            [Value::String(text), _, Value::Int(limit)] => (text, *limit),
            _ => return Err(Error::no_such_overload()),
        };
        Ok(match self {
            RegexFunction::Matches => Value::Bool(regex.is_match(text)),
            RegexFunction::Find => {
                Value::string(regex.find(text).map_or("", |found| found.as_str()))
            }
            RegexFunction::FindAll => {
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                let mut all = Vec::new();
                for found in regex.find_iter(text).take(limit) {
                    if all.len() == MAX_LENGTH {
                        return Err(Error::cost_limit());
                    }
                    all.push(Value::String(text.slice(found.start(), found.end())));
                }
                Value::list(all)
            }
        })
    }
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
    let regex = compile_regex(pattern).map_err(Problem::Pattern)?;
    function.call(&regex, args).map_err(Problem::Call)
}
