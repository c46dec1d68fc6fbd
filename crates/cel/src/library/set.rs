//! CEL's sets extension: lists as sets.

use super::{Row, contains, row};
use crate::error::Error;
use crate::value::{List, Value};

pub(super) const ROWS: &[Row] = &[
    row("sets.contains", "list_sets_contains_list", "(list(T), list(T)) -> bool", |args| {
        with(args, |a, b| has_all(a, b))
    }),
    row("sets.equivalent", "list_sets_equivalent_list", "(list(T), list(T)) -> bool", |args| {
        with(args, |a, b| Ok(has_all(a, b)? && has_all(b, a)?))
    }),
    row("sets.intersects", "list_sets_intersects_list", "(list(T), list(T)) -> bool", |args| {
        with(args, |a, b| {
            for element in a.iter() {
                if contains(b, &element?)? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }),
];

/// Limit on pairs of elements to compare; more cost more than any expression may.
const MAX_COMPARED: usize = 10_000_000;

fn with<'a>(
    args: &[Value<'a>],
    test: impl Fn(&List<'a>, &List<'a>) -> Result<bool, Error>,
) -> Result<Value<'a>, Error> {
    match args {
        // The cost would be charged only afterwards.
        [Value::List(a), Value::List(b)] if a.len().saturating_mul(b.len()) > MAX_COMPARED => {
            Err(Error::cost_limit())
        }
        [Value::List(a), Value::List(b)] => Ok(Value::Bool(test(a, b)?)),
        _ => Err(Error::no_such_overload()),
    }
}

fn has_all<'a>(list: &List<'a>, elements: &List<'a>) -> Result<bool, Error> {
    for element in elements.iter() {
        if !contains(list, &element?)? {
            return Ok(false);
        }
    }
    Ok(true)
}
