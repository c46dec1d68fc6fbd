//! Kubernetes' list library.

use std::cmp::Ordering;

use super::operator::add;
use super::{Row, row};
use crate::error::Error;
use crate::value::{List, Value};

pub(super) const ROWS: &[Row] = &[
    row("isSorted", "list_int_is_sorted_bool", "list(int).() -> bool", is_sorted),
    row("isSorted", "list_uint_is_sorted_bool", "list(uint).() -> bool", is_sorted),
    row("isSorted", "list_double_is_sorted_bool", "list(double).() -> bool", is_sorted),
    row("isSorted", "list_bool_is_sorted_bool", "list(bool).() -> bool", is_sorted),
    row("isSorted", "list_duration_is_sorted_bool", "list(duration).() -> bool", is_sorted),
    row("isSorted", "list_timestamp_is_sorted_bool", "list(timestamp).() -> bool", is_sorted),
    row("isSorted", "list_string_is_sorted_bool", "list(string).() -> bool", is_sorted),
    row("isSorted", "list_bytes_is_sorted_bool", "list(bytes).() -> bool", is_sorted),
    row("sum", "list_int_sum_int", "list(int).() -> int", |args| sum(args, Value::Int(0))),
    row("sum", "list_uint_sum_uint", "list(uint).() -> uint", |args| sum(args, Value::Uint(0))),
    row("sum", "list_double_sum_double", "list(double).() -> double", |args| {
        sum(args, Value::Double(0.0))
    }),
    row("sum", "list_duration_sum_duration", "list(duration).() -> duration", |args| {
        sum(args, Value::Duration(0))
    }),
    row("max", "list_int_max_int", "list(int).() -> int", max),
    row("max", "list_uint_max_uint", "list(uint).() -> uint", max),
    row("max", "list_double_max_double", "list(double).() -> double", max),
    row("max", "list_bool_max_bool", "list(bool).() -> bool", max),
    row("max", "list_duration_max_duration", "list(duration).() -> duration", max),
    row("max", "list_timestamp_max_timestamp", "list(timestamp).() -> timestamp", max),
    row("max", "list_string_max_string", "list(string).() -> string", max),
    row("max", "list_bytes_max_bytes", "list(bytes).() -> bytes", max),
    row("min", "list_int_min_int", "list(int).() -> int", min),
    row("min", "list_uint_min_uint", "list(uint).() -> uint", min),
    row("min", "list_double_min_double", "list(double).() -> double", min),
    row("min", "list_bool_min_bool", "list(bool).() -> bool", min),
    row("min", "list_duration_min_duration", "list(duration).() -> duration", min),
    row("min", "list_timestamp_min_timestamp", "list(timestamp).() -> timestamp", min),
    row("min", "list_string_min_string", "list(string).() -> string", min),
    row("min", "list_bytes_min_bytes", "list(bytes).() -> bytes", min),
    row("indexOf", "list_a_index_of_int", "list(A).(A) -> int", |args| match args {
        [Value::List(list), item] => position(list, item, 0..list.len()),
        _ => Err(Error::no_such_overload()),
    }),
    row("lastIndexOf", "list_a_last_index_of_int", "list(A).(A) -> int", |args| match args {
        [Value::List(list), item] => position(list, item, (0..list.len()).rev()),
        _ => Err(Error::no_such_overload()),
    }),
];

fn list<'v, 'a>(args: &'v [Value<'a>]) -> Result<&'v List<'a>, Error> {
    args.first().and_then(Value::as_list).ok_or_else(Error::no_such_overload)
}

/// Fails for values that have no order.
fn ordered(value: &Value<'_>) -> Result<(), Error> {
    match value.compare(value) {
        Err(error) if !matches!(value, Value::Double(_)) => Err(error),
        _ => Ok(()),
    }
}

fn is_sorted<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let mut previous: Option<Value<'a>> = None;
    for element in list(args)?.iter() {
        let element = element?;
        ordered(&element)?;
        // Elements that cannot be compared count as sorted.
        if previous.is_some_and(|p| p.compare(&element) == Ok(Ordering::Greater)) {
            return Ok(Value::Bool(false));
        }
        previous = Some(element);
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(args: &[Value<'a>], zero: Value<'a>) -> Result<Value<'a>, Error> {
    list(args)?.iter().try_fold(zero, |sum, element| add(&[sum, element?]))
}

fn max<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    best(args, "max", Ordering::Less)
}

fn min<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    best(args, "min", Ordering::Greater)
}

/// Element that replaces all others: `worse` is the order of a worse element to a better one.
fn best<'a>(args: &[Value<'a>], name: &str, worse: Ordering) -> Result<Value<'a>, Error> {
    let mut best: Option<Value<'a>> = None;
    for element in list(args)?.iter() {
        let element = element?;
        ordered(&element)?;
        match &best {
            Some(known) if known.compare(&element) != Ok(worse) => {}
            _ => best = Some(element),
        }
    }
    best.ok_or_else(|| Error::new(format!("{name} called on empty list")))
}

fn position<'a>(
    list: &List<'a>,
    item: &Value<'a>,
    order: impl Iterator<Item = usize>,
) -> Result<Value<'a>, Error> {
    for i in order {
        if let Some(element) = list.get(i)
            && element?.equals(item).unwrap_or(false)
        {
            return Ok(Value::Int(i as i64));
        }
    }
    Ok(Value::Int(-1))
}
