//! Scalars in protobuf: plain ones are single members, others small messages.

use std::fmt::Display;

use compact_str::{CompactString, ToCompactString};
use kevel_api::duration::Duration;
use kevel_api::quantity::{self, Quantity};
use kevel_api::schema::Scalar;
use kevel_api::time::{MicroTime, Time};
use kevel_api::value::Value;

use super::Error;
use super::error::Result;
use super::wire::{self, Buffer, DELIMITED, FIXED64, Key, VARINT};
use crate::{base64, json};

/// Writes a value as a member; null as the type's zero.
pub(super) fn write(out: &mut Buffer, tag: u16, scalar: Scalar, value: &Value) {
    let end = out.len();
    match scalar {
        Scalar::String => return out.text(tag, str_of(value).as_bytes()),
        Scalar::Bool => return out.number(tag, value.as_bool().unwrap_or_default().into()),
        Scalar::Int32 | Scalar::Int64 => return out.number(tag, int_of(value) as u64),
        Scalar::Double => {
            let float = match value {
                Value::Float(float) => *float,
                other => int_of(other) as f64,
            };
            out.bytes(&float.to_le_bytes());
            return out.key(tag, FIXED64);
        }
        Scalar::Bytes => {
            if let Some(text) = value.as_str() {
                let mut bytes = Vec::new();
                // Decoders accept only valid base64; for other text the valid part counts.
                _ = base64::decode_into(text, &mut bytes);
                out.text(tag, &bytes);
            }
            return;
        }
        Scalar::Time => write_time(out, parsed::<Time>(value).map(|time| (time.seconds, 0))),
        Scalar::MicroTime => {
            let time = parsed::<MicroTime>(value);
            write_time(out, time.map(|time| (time.seconds, time.nanos / 1000 * 1000)));
        }
        Scalar::Duration => {
            out.number(1, parsed::<Duration>(value).unwrap_or(Duration(0)).0 as u64);
        }
        Scalar::Quantity => out.text(1, value.as_str().unwrap_or("0").as_bytes()),
        Scalar::IntOrString => {
            out.text(3, str_of(value).as_bytes());
            out.number(2, int_of(value) as i32 as u64);
            out.number(1, value.as_str().is_some().into());
        }
        Scalar::Raw | Scalar::Json | Scalar::FieldsV1 => {
            if let Value::Raw(document) = value {
                out.text(1, document.as_bytes());
            }
        }
        // Custom resources have no protobuf form.
        Scalar::Number | Scalar::Integer => return,
    }
    out.delimit(tag, end);
}

/// Writes seconds and nanoseconds, both always; nothing for the zero time.
fn write_time(out: &mut Buffer, time: Option<(i64, u32)>) {
    match time {
        Some((seconds, nanos)) if (seconds, nanos) != (Time::ZERO.seconds, 0) => {
            out.number(2, nanos.into());
            out.number(1, seconds as u64);
        }
        _ => {}
    }
}

fn str_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn int_of(value: &Value) -> i64 {
    value.as_int().unwrap_or_default()
}

fn parsed<T: std::str::FromStr>(value: &Value) -> Option<T> {
    value.as_str()?.parse().ok()
}

/// Wire type of a scalar.
pub(super) fn wire_type(scalar: Scalar) -> u8 {
    match scalar {
        Scalar::Bool | Scalar::Int32 | Scalar::Int64 => VARINT,
        Scalar::Double => FIXED64,
        _ => DELIMITED,
    }
}

/// Decodes a scalar whose wire type has been checked.
pub(super) fn read(scalar: Scalar, input: &mut &[u8]) -> Result<Value> {
    Ok(match scalar {
        Scalar::Bool => Value::Bool(wire::varint(input)? != 0),
        Scalar::Int32 => Value::Int((wire::varint(input)? as i32).into()),
        Scalar::Int64 => Value::Int(wire::varint(input)? as i64),
        Scalar::Double => {
            let bytes = wire::take(input, 8)?;
            Value::Float(f64::from_le_bytes(bytes.try_into().unwrap_or_default()))
        }
        _ => return read_bytes(scalar, wire::delimited(input)?),
    })
}

/// Decodes a length-delimited scalar.
pub(super) fn read_bytes(scalar: Scalar, input: &[u8]) -> Result<Value> {
    Ok(match scalar {
        Scalar::Bytes => Value::String(base64::encode(input)),
        Scalar::Time => match read_time(input)? {
            Some((seconds, _)) if seconds != Time::ZERO.seconds => {
                in_calendar(seconds, Time { seconds })?
            }
            _ => Value::Null,
        },
        Scalar::MicroTime => match read_time(input)? {
            Some((seconds, nanos)) => {
                // Fractions are cut to microseconds, then carried into the seconds, as in Go.
                let nanos = i64::from(nanos / 1000 * 1000);
                let seconds = seconds.saturating_add(nanos.div_euclid(1_000_000_000));
                let nanos = nanos.rem_euclid(1_000_000_000) as u32;
                if nanos == 0 && seconds == Time::ZERO.seconds {
                    Value::Null
                } else {
                    in_calendar(seconds, MicroTime { seconds, nanos })?
                }
            }
            None => Value::Null,
        },
        Scalar::Duration => {
            let mut nanoseconds = 0;
            wire::members(input, "Duration", |key, rest| {
                number(key, rest, [Some((1, "Duration", &mut nanoseconds)), None])
            })?;
            Value::String(Duration(nanoseconds).to_compact_string())
        }
        Scalar::Quantity => read_quantity(input)?,
        Scalar::IntOrString => read_int_or_string(input)?,
        Scalar::Raw => read_document(input, "RawExtension")?,
        Scalar::Json => read_document(input, "JSON")?,
        Scalar::FieldsV1 => read_document(input, "FieldsV1")?,
        _ => Value::String(text(input)),
    })
}

/// Whether a value that is not behind a pointer counts as absent.
pub(super) fn is_zero(scalar: Scalar, value: &Value) -> bool {
    match scalar {
        // These are printed even if zero; bytes that are present are not nil, even if empty.
        Scalar::Quantity | Scalar::Duration | Scalar::Bytes => false,
        Scalar::IntOrString => *value == Value::Int(0),
        _ => value.is_empty(),
    }
}

/// Text of bytes, with a replacement for every invalid byte of UTF-8, as in Go.
#[inline]
pub(crate) fn text(bytes: &[u8]) -> CompactString {
    match std::str::from_utf8(bytes) {
        Ok(text) => CompactString::new(text),
        Err(_) => replaced(bytes),
    }
}

#[cold]
fn replaced(bytes: &[u8]) -> CompactString {
    let mut text = CompactString::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// Decodes a numeric member into the place for its tag.
fn number<const N: usize>(
    key: Key,
    rest: &mut &[u8],
    places: [Option<(i32, &str, &mut i64)>; N],
) -> Result<bool> {
    for (tag, name, place) in places.into_iter().flatten() {
        if tag == key.tag {
            key.expect(VARINT, || name.to_owned())?;
            *place = wire::varint(rest)? as i64;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Decodes seconds and nanoseconds; `None` for the zero time.
fn read_time(input: &[u8]) -> Result<Option<(i64, i32)>> {
    let (mut seconds, mut nanos) = (0, 0);
    wire::members(input, "Timestamp", |key, rest| {
        number(key, rest, [Some((1, "Seconds", &mut seconds)), Some((2, "Nanos", &mut nanos))])
    })?;
    Ok((!input.is_empty()).then_some((seconds, nanos as i32)))
}

/// Time as text, within the years of RFC 3339: another time could not be decoded again.
fn in_calendar(seconds: i64, time: impl Display) -> Result<Value> {
    /// The last second of the year 9999.
    const LAST: i64 = 253_402_300_799;
    if (Time::ZERO.seconds..=LAST).contains(&seconds) {
        Ok(Value::String(time.to_compact_string()))
    } else {
        let why = format!("proto: Timestamp: {seconds} seconds out of range");
        Err(Error::Invalid(why).into())
    }
}

fn read_quantity(input: &[u8]) -> Result<Value> {
    let mut string = None;
    wire::members(input, "Quantity", |key, rest| {
        if key.tag != 1 {
            return Ok(false);
        }
        string = Some(text(key.delimited(rest, || "String_".to_owned())?));
        Ok(true)
    })?;
    let Some(string) = string else { return Ok(Value::from("0")) };
    let canonical = if string.trim().len() == string.len() {
        quantity::canonicalize_json(&string)
    } else {
        // White space is an error here, though not in JSON.
        string.parse::<Quantity>().map(|quantity| quantity.to_string().into())
    };
    match canonical {
        Ok(canonical) if canonical == string.as_str() => Ok(Value::String(string)),
        Ok(canonical) => Ok(Value::String(canonical.into())),
        Err(error) => Err(Error::Invalid(error.to_string()).into()),
    }
}

fn read_int_or_string(input: &[u8]) -> Result<Value> {
    let (mut kind, mut int, mut string) = (0, 0, CompactString::default());
    wire::members(input, "IntOrString", |key, rest| {
        if key.tag == 3 {
            string = text(key.delimited(rest, || "StrVal".to_owned())?);
            return Ok(true);
        }
        number(key, rest, [Some((1, "Type", &mut kind)), Some((2, "IntVal", &mut int))])
    })?;
    match kind {
        0 => Ok(Value::Int((int as i32).into())),
        1 => Ok(Value::String(string)),
        _ => Err(Error::Invalid("impossible IntOrString.Type".to_owned()).into()),
    }
}

fn read_document(input: &[u8], message: &str) -> Result<Value> {
    let mut raw: &[u8] = &[];
    wire::members(input, message, |key, rest| {
        if key.tag != 1 {
            return Ok(false);
        }
        raw = key.delimited(rest, || "Raw".to_owned())?;
        Ok(true)
    })?;
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    match json::check(raw) {
        Ok(document) => Ok(Value::Raw(document.into())),
        Err(error) => Err(Error::Invalid(error.to_string()).into()),
    }
}
