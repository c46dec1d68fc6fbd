//! Leaves whose Go types read themselves, and bytes.

use std::fmt::Display;

use compact_str::{CompactString, ToCompactString};
use kevel_api::duration::Duration;
use kevel_api::quantity::canonicalize_json;
use kevel_api::schema::Scalar;
use kevel_api::time::{MicroTime, Time};
use kevel_api::value::Value;

use super::any::{integer, read_any, simple};
use super::decode::number;
use super::error::{Error, Major, Result, TypeError};
use super::reader::{CborReader, keep_first};
use crate::{base64, json};

/// The one byte that null is.
const NULL: &[u8] = b"\xf6";

impl CborReader<'_> {
    /// Reads a value whose type has its own parser, normalised to its printed form.
    pub(super) fn own_reader(&mut self, scalar: Scalar) -> Result<Value> {
        self.pass_self_described()?;
        self.check_tags()?;
        self.inside(true, |reader| match scalar {
            Scalar::Time => reader.parsed(|text: Time| (!text.is_zero()).then_some(text)),
            Scalar::MicroTime => reader.parsed(|text: MicroTime| (!text.is_zero()).then_some(text)),
            Scalar::Quantity => match reader.string_or_null()? {
                Some(text) => accept(canonicalize_json(&text)),
                None => Ok(Value::Null),
            },
            Scalar::IntOrString => reader.int_or_string(),
            Scalar::Duration => duration(reader.raw()?),
            Scalar::Json => match reader.raw()? {
                [0xf6, ..] => Ok(Value::Null),
                raw => document(raw),
            },
            Scalar::Raw => Ok(reader.raw_extension()?),
            _ => Ok(reader.fields_v1()?),
        })
    }

    /// A text in a syntax of its own.
    fn parsed<T, P: Display>(&mut self, normal: impl FnOnce(T) -> Option<P>) -> Result<Value>
    where
        T: std::str::FromStr,
        T::Err: Display,
    {
        let Some(text) = self.string_or_null()? else { return Ok(Value::Null) };
        let parsed = text.parse().map_err(|error: T::Err| invalid(&error))?;
        let print = |normal: P| Value::String(normal.to_compact_string());
        Ok(normal(parsed).map_or(Value::Null, print))
    }

    /// A string; `None` for null, and for undefined, as it is a pointer that is read into.
    fn string_or_null(&mut self) -> Result<Option<CompactString>> {
        if self.at_null() {
            return self.skip().map(|()| None);
        }
        self.string_of("string")
    }

    /// A string behind tags; `None` for null.
    pub(super) fn string_of(&mut self, go: &str) -> Result<Option<CompactString>> {
        self.tagged(|reader| match Major::of(reader.peek()) {
            Major::Bytes | Major::Text => reader.text().map(Some),
            Major::Other => {
                let head = reader.head()?;
                match simple(head)? {
                    Value::Null => Ok(None),
                    _ => Err(TypeError::boxed(head.major, go)),
                }
            }
            Major::Unsigned | Major::Negative => {
                let head = reader.head()?;
                number(head, None, || go.to_owned()).map(|_| None)
            }
            major => Err(reader.other_type(major, go)?),
        })
    }

    /// A text or a number of 32 bits. Null is a text without letters.
    fn int_or_string(&mut self) -> Result<Value> {
        let before = self.rest;
        if let Ok(text) = self.string_of("string") {
            return Ok(Value::String(text.unwrap_or_default()));
        }
        self.rest = before;
        self.tagged(|reader| match Major::of(reader.peek()) {
            Major::Unsigned | Major::Negative => {
                let head = reader.head()?;
                number(head, Some(Scalar::Int32), || "int32".to_owned())
            }
            Major::Other => {
                let head = reader.head()?;
                simple(head)?;
                Err(TypeError::boxed(head.major, "int32"))
            }
            major => Err(reader.other_type(major, "int32")?),
        })
    }

    /// Bytes: their base64, unless a tag says that they are to become that or something of the kind.
    pub(super) fn base64(&mut self) -> Result<Value> {
        let bytes = self.bytes()?;
        if self.later.is_some() {
            return Ok(Value::String(base64::encode(&bytes)));
        }
        let mut decoded = Vec::new();
        match base64::decode_bytes_into(&bytes, &mut decoded) {
            Ok(()) => Ok(Value::String(base64::encode(&decoded))),
            Err(at) => Err(Error::Base64(at).into()),
        }
    }

    /// Bytes as a list of numbers.
    pub(super) fn byte_list(&mut self) -> Result<Value> {
        let (mut bytes, mut first) = (Vec::new(), None);
        let mut items = self.items()?;
        while self.next(&mut items).is_some() {
            let byte = self.tagged(CborReader::byte);
            bytes.extend(keep_first(&mut first, byte));
        }
        first.map_or_else(|| Ok(Value::String(base64::encode(&bytes))), Err)
    }

    fn byte(&mut self) -> Result<u8> {
        const GO: &str = "uint8";
        match Major::of(self.peek()) {
            major @ (Major::Unsigned | Major::Negative) => {
                let number = integer(self.head()?);
                u8::try_from(number).map_err(|_| match (major, i64::try_from(number)) {
                    (Major::Unsigned, _) => {
                        TypeError::with_note(major, GO, format!("{number} overflows {GO}"))
                    }
                    (_, Ok(_)) => TypeError::boxed(major, GO),
                    (_, Err(_)) => {
                        TypeError::with_note(major, GO, format!("{number} overflows Go's int64"))
                    }
                })
            }
            Major::Other => {
                let head = self.head()?;
                match simple(head)? {
                    Value::Null => Ok(0),
                    _ => Err(TypeError::boxed(head.major, GO)),
                }
            }
            major => Err(self.other_type(major, GO)?),
        }
    }

    /// A `runtime.RawExtension`, whose JSON form is looked for when all is read.
    fn raw_extension(&mut self) -> Result<Value> {
        let raw = self.raw()?;
        if raw == NULL {
            return Ok(Value::Null);
        }
        Ok(self.noted(document(raw), |error| {
            format!(
                "failed to transcode RawExtension to JSON: failed to parse RawExtension bytes as CBOR: {error}"
            )
        }))
    }

    /// A `metav1.FieldsV1`, the same. What is no object is nothing that fields could be read of, here as there.
    fn fields_v1(&mut self) -> Result<Value> {
        let raw = self.raw()?;
        match raw.first() {
            _ if raw == NULL => Ok(Value::Null),
            Some(0xa0..=0xbf | 0xc6..=0xdb) => {
                let object = super::decode_object(raw).map_err(Box::new);
                let object = object.map(|map| Value::Raw(text_of(&Value::Map(map))));
                Ok(self.noted(object, |error| {
                    format!("failed to transcode FieldsV1 to JSON: metav1.FieldsV1 cbor invalid: {error}")
                }))
            }
            _ => Ok(Value::Raw("\"\"".into())),
        }
    }

    /// Document, or null with a recorded error.
    fn noted(&mut self, document: Result<Value>, why: impl FnOnce(&Error) -> String) -> Value {
        document.unwrap_or_else(|error| {
            if self.document.is_none() {
                self.document = Some(Error::Invalid(why(&error)).into());
            }
            Value::Null
        })
    }
}

/// A document inside the document, as JSON.
fn document(raw: &[u8]) -> Result<Value> {
    read_any(raw).map(|value| Value::Raw(text_of(&value)))
}

fn text_of(value: &Value) -> Box<str> {
    let mut text = Vec::new();
    json::encode_any(value, &mut text);
    String::from_utf8(text).unwrap_or_default().into()
}

/// A duration, which Go reads of JSON alone.
fn duration(raw: &[u8]) -> Result<Value> {
    let value = read_any(raw).map_err(|error| {
        invalid(&format_args!("cbor: cannot transcode from cbor to json: {error}"))
    })?;
    let text = match &value {
        Value::Null => "",
        Value::String(text) => text,
        other => {
            let found = match other {
                Value::Bool(_) => "bool",
                Value::List(_) => "array",
                Value::Map(_) => "object",
                _ => "number",
            };
            let why = format!("json: cannot unmarshal {found} into Go value of type string");
            return Err(Error::Invalid(why).into());
        }
    };
    accept(text.parse::<Duration>().map(|duration| duration.to_string()))
}

/// Result of a type's own reader of its text.
fn accept<T: Into<CompactString>, E: Display>(read: std::result::Result<T, E>) -> Result<Value> {
    read.map(|text| Value::String(text.into())).map_err(|error| invalid(&error))
}

fn invalid(error: &dyn Display) -> Box<Error> {
    Box::new(Error::Invalid(error.to_string()))
}
