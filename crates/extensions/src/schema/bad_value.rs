//! How values stand in messages.

use kevel_api::field_error::BadValue;
use kevel_api::value::Value;

/// A part of an object, as an error about it shows it.
pub(crate) fn bad_value(value: &Value) -> BadValue {
    match value {
        Value::Bool(value) => BadValue::from(*value),
        Value::Int(value) => BadValue::from(*value),
        Value::Float(value) => BadValue::from(*value),
        Value::String(text) => BadValue::from(text.as_str()),
        value => BadValue::Text(kevel_codec::json::message_text(value)),
    }
}

/// A value as JSON.
pub(crate) fn json(value: &Value) -> String {
    let mut text = Vec::new();
    kevel_codec::json::encode_any(value, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// A number as `%v` prints it.
pub(crate) fn float(value: f64) -> String {
    match BadValue::from(value) {
        BadValue::Text(text) => text,
        _ => String::new(),
    }
}
