//! Decoding of scalars, each as its Go type decodes itself, normalized to its written form.

use std::fmt::Display;

use compact_str::{CompactString, ToCompactString};
use kevel_api::duration::Duration;
use kevel_api::quantity::canonicalize_json;
use kevel_api::schema::{Scalar, Schema};
use kevel_api::time::{MicroTime, Time};
use kevel_api::value::Value;

use super::decode::Decoder;
use super::path::Frame;
use super::raw::compacted;
use super::scan::Stop;
use crate::base64;

impl<'t> Decoder<'_, 't> {
    pub(super) fn scalar(
        &mut self,
        scalar: Scalar,
        schema: Schema<'t>,
        frame: &Frame<'_>,
    ) -> Result<Value, Stop> {
        match (scalar, self.scan.peek()) {
            (Scalar::String, b'"') => self.scan.compact_string().map(Value::String),
            (Scalar::Bool, b't') => self.scan.literal("true").map(|()| Value::Bool(true)),
            (Scalar::Bool, b'f') => self.scan.literal("false").map(|()| Value::Bool(false)),
            (Scalar::Int32, b'-' | b'0'..=b'9') => {
                let fits = |int: &i64| i32::try_from(*int).is_ok();
                self.int(fits, || frame.go_type(schema), frame)
            }
            (Scalar::Int64, b'-' | b'0'..=b'9') => {
                self.int(|_| true, || frame.go_type(schema), frame)
            }
            (Scalar::Double, b'-' | b'0'..=b'9') => self.double(schema, frame),
            (Scalar::Bytes, b'"') => self.bytes(),
            (Scalar::Bytes, b'[') => self.byte_list(frame),
            (Scalar::Time | Scalar::MicroTime | Scalar::Duration, _) => self.clock(scalar, frame),
            (Scalar::Quantity, _) => self.quantity(),
            (Scalar::IntOrString, _) => self.int_or_string(frame),
            // Changes of a raw document are detected by its bytes.
            (Scalar::Raw, _) => self.document(|text| text.into()),
            (Scalar::Json | Scalar::FieldsV1, _) => self.document(compacted),
            (Scalar::Number | Scalar::Integer, _) => self.any(frame),
            _ => self.other_or_null(schema, frame),
        }
    }

    fn int(
        &mut self,
        fits: impl FnOnce(&i64) -> bool,
        go: impl FnOnce() -> String,
        frame: &Frame<'_>,
    ) -> Result<Value, Stop> {
        let text = self.scan.number()?;
        if let Some(int) = text.parse().ok().filter(fits) {
            return Ok(Value::Int(int));
        }
        self.mismatch(&format!("number {text}"), go, frame);
        Ok(Value::Null)
    }

    fn double(&mut self, schema: Schema<'t>, frame: &Frame<'_>) -> Result<Value, Stop> {
        let text = self.scan.number()?;
        if let Some(float) = text.parse().ok().filter(|float: &f64| float.is_finite()) {
            return Ok(Value::Float(float));
        }
        self.mismatch(&format!("number {text}"), || frame.go_type(schema), frame);
        Ok(Value::Null)
    }

    fn bytes(&mut self) -> Result<Value, Stop> {
        let text = self.scan.string()?;
        let mut bytes = Vec::new();
        match base64::decode_into(&text, &mut bytes) {
            Ok(()) => Ok(Value::String(base64::encode(&bytes))),
            Err(at) => {
                self.save(format!("illegal base64 data at input byte {at}"));
                Ok(Value::Null)
            }
        }
    }

    /// Decodes bytes given as a list of numbers, which Go accepts too.
    fn byte_list(&mut self, frame: &Frame<'_>) -> Result<Value, Stop> {
        let numbers = self.items(frame, |decoder, _, frame| {
            let go = || "uint8".to_owned();
            let value = match decoder.scan.peek() {
                b'-' | b'0'..=b'9' => decoder.int(|int| u8::try_from(*int).is_ok(), go, frame)?,
                b'n' => decoder.scan.literal("null").map(|()| Value::Null)?,
                _ => {
                    let found = decoder.scan.describe();
                    decoder.scan.skip_value()?;
                    decoder.mismatch(found, go, frame);
                    Value::Null
                }
            };
            decoder.push(value);
            Ok(())
        })?;
        let byte = |number: &Value| number.as_int().and_then(|int| u8::try_from(int).ok());
        let bytes: Vec<u8> = numbers.iter().map(|number| byte(number).unwrap_or(0)).collect();
        Ok(Value::String(base64::encode(&bytes)))
    }

    /// Decodes a time or duration: a string with its own syntax.
    fn clock(&mut self, scalar: Scalar, frame: &Frame<'_>) -> Result<Value, Stop> {
        let text = match self.scan.peek() {
            b'"' => self.scan.string()?,
            b'n' => {
                self.scan.literal("null")?;
                if scalar != Scalar::Duration {
                    return Ok(Value::Null);
                }
                "".into()
            }
            _ => {
                let found = self.scan.describe();
                self.scan.skip_value()?;
                self.reject(frame.type_error(found, "string"));
                return Ok(Value::Null);
            }
        };
        let read = match scalar {
            Scalar::Time => text.parse().map(|time: Time| (!time.is_zero()).then(|| print(time))),
            Scalar::MicroTime => {
                text.parse().map(|time: MicroTime| (!time.is_zero()).then(|| print(time)))
            }
            _ => {
                return Ok(
                    self.accept(text.parse().map(|duration: Duration| Some(print(duration))))
                );
            }
        };
        Ok(self.accept(read))
    }

    /// Result of a type's own decoder: a normal form, null, or an error.
    fn accept<E: Display>(&mut self, read: Result<Option<CompactString>, E>) -> Value {
        match read {
            Ok(text) => text.map_or(Value::Null, Value::String),
            Err(error) => {
                self.reject(error.to_string());
                Value::Null
            }
        }
    }

    fn quantity(&mut self) -> Result<Value, Stop> {
        let start = self.scan.at();
        let string = self.scan.peek() == b'"';
        self.scan.skip_value()?;
        let mut text = self.scan.since(start);
        if text == "null" {
            return Ok(Value::Null);
        }
        // Not unescaped: Go's decoder takes the text between the quotes.
        if string {
            text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
        }
        Ok(self.accept(canonicalize_json(text).map(|text| Some(text.into()))))
    }

    fn int_or_string(&mut self, frame: &Frame<'_>) -> Result<Value, Stop> {
        match self.scan.peek() {
            b'"' => self.scan.compact_string().map(Value::String),
            b'n' => self.scan.literal("null").map(|()| Value::Null),
            b'-' | b'0'..=b'9' => {
                let text = self.scan.number()?;
                if let Ok(int) = text.parse::<i32>() {
                    return Ok(Value::Int(int.into()));
                }
                self.reject(frame.type_error(&format!("number {text}"), "int32"));
                Ok(Value::Null)
            }
            _ => {
                let found = self.scan.describe();
                self.scan.skip_value()?;
                self.reject(frame.type_error(found, "int32"));
                Ok(Value::Null)
            }
        }
    }

    /// Decodes an embedded document; `null` is none.
    fn document(&mut self, keep: fn(&str) -> Box<str>) -> Result<Value, Stop> {
        let start = self.scan.at();
        self.scan.skip_value()?;
        Ok(match self.scan.since(start) {
            "null" => Value::Null,
            text => Value::Raw(keep(text)),
        })
    }
}

fn print(normal: impl Display) -> CompactString {
    normal.to_compact_string()
}
