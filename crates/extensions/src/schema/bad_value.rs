//! Values as error messages print them.

use kevel_api::field_error::BadValue;
use kevel_api::value::Value;

pub(crate) use kevel_codec::json::bad_value;

/// Value as JSON.
pub(crate) fn json(value: &Value) -> String {
    let mut text = Vec::new();
    kevel_codec::json::encode_any(value, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Number as Go's `%v` prints it.
pub(crate) fn float(value: f64) -> String {
    match BadValue::from(value) {
        BadValue::Text(text) => text,
        _ => String::new(),
    }
}
