//! Values as Go's messages show them.

use kevel_api::field_error::BadValue;
use kevel_api::value::Value;

/// A value as messages show it: texts quoted, numbers plain, everything else as JSON.
pub fn shown(value: Option<&Value>) -> BadValue {
    match value {
        None => BadValue::String(String::new()),
        Some(Value::String(text)) => BadValue::from(text.as_str()),
        Some(Value::Int(number)) => BadValue::from(*number),
        Some(value) => {
            let mut text = Vec::new();
            kevel_codec::json::encode_any(value, &mut text);
            BadValue::Text(String::from_utf8_lossy(&text).into_owned())
        }
    }
}
