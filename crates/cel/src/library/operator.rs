//! Operators: arithmetic, comparison, containment.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Call, Row, Singleton, declared, row};
use crate::error::Error;
use crate::value::{List, Text, Timestamp, Value};

pub(super) const ROWS: &[Row] = &[
    declared("_?_:_", "conditional", "(bool, A, A) -> A"),
    declared("_&&_", "logical_and", "(bool, bool) -> bool"),
    declared("_||_", "logical_or", "(bool, bool) -> bool"),
    declared("!_", "logical_not", "(bool) -> bool"),
    declared("@not_strictly_false", "not_strictly_false", "(bool) -> bool"),
    declared("_==_", "equals", "(A, A) -> bool"),
    declared("_!=_", "not_equals", "(A, A) -> bool"),
    declared("_+_", "add_bytes", "(bytes, bytes) -> bytes"),
    declared("_+_", "add_double", "(double, double) -> double"),
    declared("_+_", "add_duration_duration", "(duration, duration) -> duration"),
    declared("_+_", "add_duration_timestamp", "(duration, timestamp) -> timestamp"),
    declared("_+_", "add_timestamp_duration", "(timestamp, duration) -> timestamp"),
    declared("_+_", "add_int64", "(int, int) -> int"),
    declared("_+_", "add_list", "(list(A), list(A)) -> list(A)"),
    declared("_+_", "add_string", "(string, string) -> string"),
    declared("_+_", "add_uint64", "(uint, uint) -> uint"),
    declared("_/_", "divide_double", "(double, double) -> double"),
    declared("_/_", "divide_int64", "(int, int) -> int"),
    declared("_/_", "divide_uint64", "(uint, uint) -> uint"),
    declared("_%_", "modulo_int64", "(int, int) -> int"),
    declared("_%_", "modulo_uint64", "(uint, uint) -> uint"),
    declared("_*_", "multiply_double", "(double, double) -> double"),
    declared("_*_", "multiply_int64", "(int, int) -> int"),
    declared("_*_", "multiply_uint64", "(uint, uint) -> uint"),
    declared("-_", "negate_double", "(double) -> double"),
    declared("-_", "negate_int64", "(int) -> int"),
    declared("_-_", "subtract_double", "(double, double) -> double"),
    declared("_-_", "subtract_duration_duration", "(duration, duration) -> duration"),
    declared("_-_", "subtract_int64", "(int, int) -> int"),
    declared("_-_", "subtract_timestamp_duration", "(timestamp, duration) -> timestamp"),
    declared("_-_", "subtract_timestamp_timestamp", "(timestamp, timestamp) -> duration"),
    declared("_-_", "subtract_uint64", "(uint, uint) -> uint"),
    declared("_<_", "less_bool", "(bool, bool) -> bool"),
    declared("_<_", "less_int64", "(int, int) -> bool"),
    declared("_<_", "less_int64_double", "(int, double) -> bool"),
    declared("_<_", "less_int64_uint64", "(int, uint) -> bool"),
    declared("_<_", "less_uint64", "(uint, uint) -> bool"),
    declared("_<_", "less_uint64_double", "(uint, double) -> bool"),
    declared("_<_", "less_uint64_int64", "(uint, int) -> bool"),
    declared("_<_", "less_double", "(double, double) -> bool"),
    declared("_<_", "less_double_int64", "(double, int) -> bool"),
    declared("_<_", "less_double_uint64", "(double, uint) -> bool"),
    declared("_<_", "less_string", "(string, string) -> bool"),
    declared("_<_", "less_bytes", "(bytes, bytes) -> bool"),
    declared("_<_", "less_timestamp", "(timestamp, timestamp) -> bool"),
    declared("_<_", "less_duration", "(duration, duration) -> bool"),
    declared("_<=_", "less_equals_bool", "(bool, bool) -> bool"),
    declared("_<=_", "less_equals_int64", "(int, int) -> bool"),
    declared("_<=_", "less_equals_int64_double", "(int, double) -> bool"),
    declared("_<=_", "less_equals_int64_uint64", "(int, uint) -> bool"),
    declared("_<=_", "less_equals_uint64", "(uint, uint) -> bool"),
    declared("_<=_", "less_equals_uint64_double", "(uint, double) -> bool"),
    declared("_<=_", "less_equals_uint64_int64", "(uint, int) -> bool"),
    declared("_<=_", "less_equals_double", "(double, double) -> bool"),
    declared("_<=_", "less_equals_double_int64", "(double, int) -> bool"),
    declared("_<=_", "less_equals_double_uint64", "(double, uint) -> bool"),
    declared("_<=_", "less_equals_string", "(string, string) -> bool"),
    declared("_<=_", "less_equals_bytes", "(bytes, bytes) -> bool"),
    declared("_<=_", "less_equals_timestamp", "(timestamp, timestamp) -> bool"),
    declared("_<=_", "less_equals_duration", "(duration, duration) -> bool"),
    declared("_>_", "greater_bool", "(bool, bool) -> bool"),
    declared("_>_", "greater_int64", "(int, int) -> bool"),
    declared("_>_", "greater_int64_double", "(int, double) -> bool"),
    declared("_>_", "greater_int64_uint64", "(int, uint) -> bool"),
    declared("_>_", "greater_uint64", "(uint, uint) -> bool"),
    declared("_>_", "greater_uint64_double", "(uint, double) -> bool"),
    declared("_>_", "greater_uint64_int64", "(uint, int) -> bool"),
    declared("_>_", "greater_double", "(double, double) -> bool"),
    declared("_>_", "greater_double_int64", "(double, int) -> bool"),
    declared("_>_", "greater_double_uint64", "(double, uint) -> bool"),
    declared("_>_", "greater_string", "(string, string) -> bool"),
    declared("_>_", "greater_bytes", "(bytes, bytes) -> bool"),
    declared("_>_", "greater_timestamp", "(timestamp, timestamp) -> bool"),
    declared("_>_", "greater_duration", "(duration, duration) -> bool"),
    declared("_>=_", "greater_equals_bool", "(bool, bool) -> bool"),
    declared("_>=_", "greater_equals_int64", "(int, int) -> bool"),
    declared("_>=_", "greater_equals_int64_double", "(int, double) -> bool"),
    declared("_>=_", "greater_equals_int64_uint64", "(int, uint) -> bool"),
    declared("_>=_", "greater_equals_uint64", "(uint, uint) -> bool"),
    declared("_>=_", "greater_equals_uint64_double", "(uint, double) -> bool"),
    declared("_>=_", "greater_equals_uint64_int64", "(uint, int) -> bool"),
    declared("_>=_", "greater_equals_double", "(double, double) -> bool"),
    declared("_>=_", "greater_equals_double_int64", "(double, int) -> bool"),
    declared("_>=_", "greater_equals_double_uint64", "(double, uint) -> bool"),
    declared("_>=_", "greater_equals_string", "(string, string) -> bool"),
    declared("_>=_", "greater_equals_bytes", "(bytes, bytes) -> bool"),
    declared("_>=_", "greater_equals_timestamp", "(timestamp, timestamp) -> bool"),
    declared("_>=_", "greater_equals_duration", "(duration, duration) -> bool"),
    declared("_[_]", "index_list", "(list(A), int) -> A"),
    declared("_[_]", "index_map", "(map(A, B), A) -> B"),
    declared("_[_]", "optional_list_index_int", "(optional(list(V)), int) -> optional(V)"),
    declared("_[_]", "optional_map_index_value", "(optional(map(K, V)), K) -> optional(V)"),
    declared("@in", "in_list", "(A, list(A)) -> bool"),
    declared("@in", "in_map", "(A, map(A, B)) -> bool"),
    declared("size", "size_bytes", "(bytes) -> int"),
    declared("size", "bytes_size", "bytes.() -> int"),
    declared("size", "size_list", "(list(A)) -> int"),
    declared("size", "list_size", "list(A).() -> int"),
    declared("size", "size_map", "(map(A, B)) -> int"),
    declared("size", "map_size", "map(A, B).() -> int"),
    declared("size", "size_string", "(string) -> int"),
    declared("size", "string_size", "string.() -> int"),
    row("contains", "contains_string", "string.(string) -> bool", |args| {
        strings(args, |text, part| text.contains(part))
    }),
    row("endsWith", "ends_with_string", "string.(string) -> bool", |args| {
        strings(args, |text, part| text.ends_with(part))
    }),
    row("startsWith", "starts_with_string", "string.(string) -> bool", |args| {
        strings(args, |text, part| text.starts_with(part))
    }),
];

/// Implementations of operators, with the left operands that they take.
pub(super) fn singleton(function: &str) -> Option<Singleton> {
    use Value::{Bool, Bytes, Double, Duration, Int, List, Map, String, Timestamp, Uint};
    let any: fn(&Value<'_>) -> bool = |_| true;
    let ordered: fn(&Value<'_>) -> bool = |v| {
        matches!(
            v,
            Bool(_)
                | Bytes(_)
                | Double(_)
                | Duration(_)
                | Int(_)
                | String(_)
                | Timestamp(_)
                | Uint(_)
        )
    };
    let numbers: fn(&Value<'_>) -> bool = |v| matches!(v, Double(_) | Int(_) | Uint(_));
    let (call, takes): (Call, fn(&Value<'_>) -> bool) = match function {
        "!_" => (not, any),
        "_+_" => (add, |v| {
            matches!(
                v,
                Bytes(_)
                    | Double(_)
                    | Duration(_)
                    | Int(_)
                    | List(_)
                    | String(_)
                    | Timestamp(_)
                    | Uint(_)
            )
        }),
        "_-_" => {
            (subtract, |v| matches!(v, Double(_) | Duration(_) | Int(_) | Timestamp(_) | Uint(_)))
        }
        "_*_" => (multiply, numbers),
        "_/_" => (divide, numbers),
        "_%_" => (modulo, |v| matches!(v, Int(_) | Uint(_))),
        "-_" => (negate, |v| matches!(v, Bool(_) | Double(_) | Duration(_) | Int(_))),
        "_<_" => (|args| order(args, Ordering::is_lt), ordered),
        "_<=_" => (|args| order(args, Ordering::is_le), ordered),
        "_>_" => (|args| order(args, Ordering::is_gt), ordered),
        "_>=_" => (|args| order(args, Ordering::is_ge), ordered),
        "@in" => (is_in, any),
        "size" => (size, |v| matches!(v, Bytes(_) | List(_) | Map(_) | String(_))),
        "matches" => (super::regex::matches, |v| matches!(v, String(_))),
        _ => return None,
    };
    Some(Singleton { call, takes })
}

fn not<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(!value)),
        _ => Err(Error::no_such_overload()),
    }
}

fn order<'a>(args: &[Value<'a>], is: fn(Ordering) -> bool) -> Result<Value<'a>, Error> {
    match args {
        [a, b] => Ok(Value::Bool(is(a.compare(b)?))),
        _ => Err(Error::no_such_overload()),
    }
}

fn strings<'a>(args: &[Value<'a>], test: fn(&str, &str) -> bool) -> Result<Value<'a>, Error> {
    match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(test(text, part))),
        _ => Err(Error::no_such_overload()),
    }
}

fn size<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let size = args.first().and_then(Value::size).ok_or_else(Error::no_such_overload)?;
    Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

fn int<'a>(value: Option<i64>) -> Result<Value<'a>, Error> {
    value.map(Value::Int).ok_or_else(|| Error::new("integer overflow"))
}

fn uint<'a>(value: Option<u64>) -> Result<Value<'a>, Error> {
    value.map(Value::Uint).ok_or_else(|| Error::new("unsigned integer overflow"))
}

fn duration<'a>(value: Option<i64>) -> Result<Value<'a>, Error> {
    value.map(Value::Duration).ok_or_else(|| Error::new("integer overflow"))
}

pub(crate) fn add<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [Value::Int(a), Value::Int(b)] => int(a.checked_add(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_add(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a + b)),
        [Value::String(a), Value::String(b)] => {
            let mut joined = String::with_capacity(a.len() + b.len());
            joined.push_str(a);
            joined.push_str(b);
            Ok(Value::String(Text::from(joined)))
        }
        [Value::Bytes(a), Value::Bytes(b)] => Ok(Value::Bytes([&**a, &**b].concat().into())),
        [Value::List(a), Value::List(b)] => Ok(Value::List(a.clone().join(b)?)),
        [Value::Duration(a), Value::Duration(b)] => duration(a.checked_add(*b)),
        [Value::Timestamp(time), Value::Duration(nanos)]
        | [Value::Duration(nanos), Value::Timestamp(time)] => shift(time, i128::from(*nanos)),
        _ => Err(Error::no_such_overload()),
    }
}

/// Appends to a list that has no other reference.
pub(crate) fn append<'a>(list: List<'a>, other: &Value<'a>) -> Result<Value<'a>, Error> {
    match other {
        Value::List(other) => Ok(Value::List(list.join(other)?)),
        _ => Err(Error::no_such_overload()),
    }
}

fn subtract<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [Value::Int(a), Value::Int(b)] => int(a.checked_sub(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_sub(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a - b)),
        [Value::Duration(a), Value::Duration(b)] => duration(a.checked_sub(*b)),
        [Value::Timestamp(time), Value::Duration(nanos)] => match nanos.checked_neg() {
            Some(nanos) => shift(time, i128::from(nanos)),
            None => Err(Error::new("integer overflow")),
        },
        [Value::Timestamp(a), Value::Timestamp(b)] => {
            let seconds = i128::from(a.seconds) - i128::from(b.seconds);
            let nanos = seconds * 1_000_000_000 + i128::from(a.nanos) - i128::from(b.nanos);
            duration(i64::try_from(nanos).ok())
        }
        _ => Err(Error::no_such_overload()),
    }
}

fn shift<'a>(time: &Timestamp, nanos: i128) -> Result<Value<'a>, Error> {
    const SECOND: i128 = 1_000_000_000;
    let total = i128::from(time.seconds) * SECOND + i128::from(time.nanos) + nanos;
    let shifted = Timestamp {
        seconds: total.div_euclid(SECOND) as i64,
        nanos: total.rem_euclid(SECOND) as u32,
        offset: time.offset,
    };
    match shifted.is_in_range() {
        true => Ok(Value::Timestamp(shifted)),
        false => Err(Error::new("timestamp overflow")),
    }
}

fn multiply<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [Value::Int(a), Value::Int(b)] => int(a.checked_mul(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_mul(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a * b)),
        _ => Err(Error::no_such_overload()),
    }
}

fn divide<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            Err(Error::new("division by zero"))
        }
        [Value::Int(a), Value::Int(b)] => int(a.checked_div(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_div(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a / b)),
        _ => Err(Error::no_such_overload()),
    }
}

fn modulo<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            Err(Error::new("modulus by zero"))
        }
        [Value::Int(a), Value::Int(b)] => int(a.checked_rem(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_rem(*b)),
        _ => Err(Error::no_such_overload()),
    }
}

fn negate<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [Value::Int(value)] => int(value.checked_neg()),
        [Value::Double(value)] => Ok(Value::Double(-value)),
        [Value::Duration(nanos)] => duration(nanos.checked_neg()),
        _ => Err(Error::no_such_overload()),
    }
}

fn is_in<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [element, Value::List(list)] => Ok(Value::Bool(contains(list, element)?)),
        [key, Value::Map(map)] => match map.find(key) {
            Some(Err(error)) => Err(error),
            found => Ok(Value::Bool(found.is_some())),
        },
        _ => Err(Error::no_such_overload()),
    }
}

/// Whether a list contains an equal element.
pub(crate) fn contains<'a>(list: &List<'a>, element: &Value<'a>) -> Result<bool, Error> {
    for other in list.iter() {
        if element.equals(&other?).unwrap_or(false) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Bytes of a text.
pub(super) fn bytes_of(text: &str) -> Arc<[u8]> {
    text.as_bytes().into()
}
