//! Decoding of untyped values, as in Go's `map[string]interface{}`.

use kevel_api::value::Value;

use super::decode::Decoder;
use super::path::Frame;
use super::scan::Stop;

impl Decoder<'_, '_> {
    pub(super) fn any(&mut self, frame: &Frame<'_>) -> Result<Value, Stop> {
        match self.scan.peek() {
            b'"' => self.scan.compact_string().map(Value::String),
            b'{' => {
                let map = self.entries(frame, |decoder, _, frame| decoder.any(frame).map(Some))?;
                Ok(Value::Map(map))
            }
            b'[' => {
                let items = self.items(frame, |decoder, _, frame| {
                    let value = decoder.any(frame)?;
                    decoder.push(value);
                    Ok(())
                })?;
                Ok(Value::List(items))
            }
            b't' => self.scan.literal("true").map(|()| Value::Bool(true)),
            b'f' => self.scan.literal("false").map(|()| Value::Bool(false)),
            b'n' => self.scan.literal("null").map(|()| Value::Null),
            b'-' | b'0'..=b'9' => {
                let text = self.scan.number()?;
                // Go's rule: a number without a point is an integer if it fits.
                if !text.contains('.')
                    && let Ok(int) = text.parse()
                {
                    return Ok(Value::Int(int));
                }
                match text.parse::<f64>() {
                    Ok(float) if float.is_finite() => Ok(Value::Float(float)),
                    _ => {
                        self.mismatch(&format!("number {text}"), || "float64".to_owned(), frame);
                        Ok(Value::Null)
                    }
                }
            }
            _ => Err(self.scan.no_value()),
        }
    }
}
