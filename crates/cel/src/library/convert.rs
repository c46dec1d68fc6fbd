//! Conversions between types.

use super::operator::bytes_of;
use super::{Row, row};
use crate::error::Error;
use crate::types::Type;
use crate::value::{MAX_SECONDS, MIN_SECONDS, Timestamp, Value, shortest};

pub(super) const ROWS: &[Row] = &[
    row("type", "type", "(A) -> type(A)", |args| match args {
        [value] => Ok(Value::Type(value.runtime_type())),
        _ => Err(Error::no_such_overload()),
    }),
    row("dyn", "to_dyn", "(A) -> dyn", identity),
    row("bool", "bool_to_bool", "(bool) -> bool", identity),
    row("bool", "string_to_bool", "(string) -> bool", |args| to(args, Type::Bool)),
    row("bytes", "bytes_to_bytes", "(bytes) -> bytes", identity),
    row("bytes", "string_to_bytes", "(string) -> bytes", |args| to(args, Type::Bytes)),
    row("double", "double_to_double", "(double) -> double", identity),
    row("double", "int64_to_double", "(int) -> double", |args| to(args, Type::Double)),
    row("double", "string_to_double", "(string) -> double", |args| to(args, Type::Double)),
    row("double", "uint64_to_double", "(uint) -> double", |args| to(args, Type::Double)),
    row("duration", "duration_to_duration", "(duration) -> duration", identity),
    row("duration", "int64_to_duration", "(int) -> duration", |args| to(args, Type::Duration)),
    row("duration", "string_to_duration", "(string) -> duration", |args| to(args, Type::Duration)),
    row("int", "int64_to_int64", "(int) -> int", identity),
    row("int", "double_to_int64", "(double) -> int", |args| to(args, Type::Int)),
    row("int", "duration_to_int64", "(duration) -> int", |args| to(args, Type::Int)),
    row("int", "string_to_int64", "(string) -> int", |args| to(args, Type::Int)),
    row("int", "timestamp_to_int64", "(timestamp) -> int", |args| to(args, Type::Int)),
    row("int", "uint64_to_int64", "(uint) -> int", |args| to(args, Type::Int)),
    row("string", "string_to_string", "(string) -> string", identity),
    row("string", "bool_to_string", "(bool) -> string", |args| to(args, Type::String)),
    row("string", "bytes_to_string", "(bytes) -> string", |args| to(args, Type::String)),
    row("string", "double_to_string", "(double) -> string", |args| to(args, Type::String)),
    row("string", "duration_to_string", "(duration) -> string", |args| to(args, Type::String)),
    row("string", "int64_to_string", "(int) -> string", |args| to(args, Type::String)),
    row("string", "timestamp_to_string", "(timestamp) -> string", |args| to(args, Type::String)),
    row("string", "uint64_to_string", "(uint) -> string", |args| to(args, Type::String)),
    row("timestamp", "timestamp_to_timestamp", "(timestamp) -> timestamp", identity),
    row("timestamp", "int64_to_timestamp", "(int) -> timestamp", |args| to(args, Type::Timestamp)),
    row("timestamp", "string_to_timestamp", "(string) -> timestamp", |args| {
        to(args, Type::Timestamp)
    }),
    row("uint", "uint64_to_uint64", "(uint) -> uint", identity),
    row("uint", "double_to_uint64", "(double) -> uint", |args| to(args, Type::Uint)),
    row("uint", "int64_to_uint64", "(int) -> uint", |args| to(args, Type::Uint)),
    row("uint", "string_to_uint64", "(string) -> uint", |args| to(args, Type::Uint)),
];

fn identity<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    args.first().cloned().ok_or_else(Error::no_such_overload)
}

fn to<'a>(args: &[Value<'a>], ty: Type) -> Result<Value<'a>, Error> {
    convert(args.first().ok_or_else(Error::no_such_overload)?, &ty)
}

/// Converts a value to another type.
pub(crate) fn convert<'a>(value: &Value<'a>, ty: &Type) -> Result<Value<'a>, Error> {
    let int_overflow = || Error::new("integer overflow");
    let uint_overflow = || Error::new("unsigned integer overflow");
    let timestamp = |found: Timestamp| match found.is_in_range() {
        true => Ok(Value::Timestamp(found)),
        false => Err(Error::new("timestamp overflow")),
    };
    let converted = match (ty, value) {
        (Type::Bool, Value::String(text)) => parse_bool(text).map(Value::Bool),
        (Type::Bytes, Value::String(text)) => Some(Value::Bytes(bytes_of(text))),
        (Type::Double, Value::Int(value)) => Some(Value::Double(*value as f64)),
        (Type::Double, Value::Uint(value)) => Some(Value::Double(*value as f64)),
        (Type::Double, Value::String(text)) => parse_double(text).map(Value::Double),
        (Type::Duration, Value::String(text)) => {
            text.parse::<kevel_api::duration::Duration>().ok().map(|d| Value::Duration(d.0))
        }
        (Type::Int, Value::Double(value)) => {
            let in_range = *value > i64::MIN as f64 && *value < i64::MAX as f64;
            return in_range.then_some(Value::Int(*value as i64)).ok_or_else(int_overflow);
        }
        (Type::Int, Value::Uint(value)) => {
            return i64::try_from(*value).map(Value::Int).map_err(|_| int_overflow());
        }
        (Type::Int, Value::String(text)) => parse_int(text).map(Value::Int),
        (Type::Int, Value::Duration(nanos)) => Some(Value::Int(*nanos)),
        (Type::Int, Value::Timestamp(timestamp)) => Some(Value::Int(timestamp.seconds)),
        (Type::Uint, Value::Double(value)) => {
            let in_range = *value >= 0.0 && *value < u64::MAX as f64;
            return in_range.then_some(Value::Uint(*value as u64)).ok_or_else(uint_overflow);
        }
        (Type::Uint, Value::Int(value)) => {
            return u64::try_from(*value).map(Value::Uint).map_err(|_| uint_overflow());
        }
        (Type::Uint, Value::String(text)) => {
            let digits = text.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| text.parse().ok()).flatten().map(Value::Uint)
        }
        (Type::Timestamp, Value::Int(seconds)) => {
            if !(MIN_SECONDS..=MAX_SECONDS).contains(seconds) {
                return Err(Error::new("timestamp overflow"));
            }
            return timestamp(Timestamp { seconds: *seconds, nanos: 0, offset: 0 });
        }
        (Type::Timestamp, Value::String(text)) => match Timestamp::parse(text) {
            Some(found) => return timestamp(found),
            None => None,
        },
        (Type::String, Value::Bytes(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) => Some(Value::string(text)),
            Err(_) => return Err(Error::new("invalid UTF-8 in bytes, cannot convert to string")),
        },
        (Type::String, _) => text_of(value).map(Value::string),
        _ if value.runtime_type().name() == ty.name() => Some(value.clone()),
        _ => None,
    };
    converted.ok_or_else(|| {
        let (from, to) = (value.type_name(), ty.name());
        Error::new(format!("type conversion error from '{from}' to '{to}'"))
    })
}

/// Text of a scalar.
pub(super) fn text_of(value: &Value<'_>) -> Option<String> {
    Some(match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => shortest(*value),
        Value::String(text) => text.to_string(),
        Value::Duration(nanos) => format!("{}s", seconds(*nanos)),
        Value::Timestamp(timestamp) => timestamp.to_string(),
        Value::Type(ty) => ty.name().to_owned(),
        _ => return None,
    })
}

/// Nanoseconds as seconds.
fn seconds(nanos: i64) -> f64 {
    (nanos / 1_000_000_000) as f64 + (nanos % 1_000_000_000) as f64 / 1e9
}

fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn parse_int(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let valid = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    valid.then(|| text.parse().ok()).flatten()
}

/// Parses a number as Go does: decimal, with underscores between digits, and the names of infinities and NaN. Go's
/// hexadecimal floats are left out.
fn parse_double(text: &str) -> Option<f64> {
    let is_digit = |part: Option<&u8>| part.is_some_and(u8::is_ascii_digit);
    let mut parts = text.as_bytes().split(|b| *b == b'_').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_some_and(|next| !is_digit(part.last()) || !is_digit(next.first())) {
            return None;
        }
    }
    let text = &text.replace('_', "");
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text).to_ascii_lowercase();
    match unsigned.as_str() {
        "inf" | "infinity" => {
            return Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY });
        }
        "nan" if unsigned.len() == text.len() => return Some(f64::NAN),
        _ => {}
    }
    let numeric =
        unsigned.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'-' | b'+'));
    let value: f64 = numeric.then(|| text.parse().ok()).flatten()?;
    value.is_finite().then_some(value)
}
