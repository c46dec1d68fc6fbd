//! Values as Go's messages show them.

use kevel_api::field_error::BadValue;
use kevel_api::value::Value;

/// A value as messages show it: texts quoted, numbers plain, everything else as JSON.
pub fn bad_value(value: Option<&Value>) -> BadValue {
    match value {
        None => BadValue::String(String::new()),
        Some(Value::String(text)) => BadValue::from(text.as_str()),
        Some(Value::Int(number)) => BadValue::from(*number),
        Some(value) => BadValue::Text(kevel_codec::json::message_text(value)),
    }
}

/// A struct of the reference that has no names for JSON: its fields' own names are shown.
pub fn record(fields: &[(&str, Option<&Value>)]) -> BadValue {
    let fields = fields.iter().map(|(name, value)| {
        let value = match bad_value(*value) {
            BadValue::String(text) => match BadValue::named_string(&text) {
                BadValue::Text(text) => text,
                _ => text,
            },
            BadValue::Text(text) => text,
            BadValue::Omitted => String::new(),
        };
        format!("{name:?}:{value}")
    });
    BadValue::Text(format!("{{{}}}", fields.collect::<Vec<_>>().join(",")))
}
