//! Reading of case tables, and printing of values as the tables have them.

// Not every test reads a table.
#![allow(dead_code)]

use kevel_api::value::Value as Tree;
use kevel_cel::{Extension, Value};
use kevel_codec::json::{Unknown, decode_any};

/// Tree of a JSON text.
pub fn json(text: &str) -> Tree {
    decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value
}

/// Lines of a table, without headings and empty ones.
pub fn lines(table: &str) -> impl Iterator<Item = &str> {
    table.lines().filter(|line| !line.is_empty() && !line.starts_with("# "))
}

/// Value in the syntax of expressions.
pub fn show(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => format!("{value}u"),
        Value::Double(value) => format!("{value:?}"),
        Value::String(text) => format!("{:?}", &**text),
        Value::Bytes(bytes) => format!("b{:?}", String::from_utf8_lossy(bytes)),
        Value::Duration(nanos) => format!("duration({nanos})"),
        Value::Timestamp(time) => format!("timestamp({time})"),
        Value::Type(ty) => format!("type({})", ty.name()),
        Value::Optional(None) => "optional.none".to_owned(),
        Value::Optional(Some(value)) => format!("optional({})", show(value)),
        Value::List(list) => {
            let elements: Vec<_> = list.iter().map(|element| show(&element.unwrap())).collect();
            format!("[{}]", elements.join(", "))
        }
        Value::Map(map) => {
            let entries =
                map.entries().map(|(k, v)| format!("{}: {}", show(&k), show(&v.unwrap())));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Object(object) => {
            let fields =
                object.fields.iter().map(|(name, value)| format!("{name}: {}", show(value)));
            format!("{}{{{}}}", object.type_name, fields.collect::<Vec<_>>().join(", "))
        }
        Value::Extension(extension) => {
            let name = match extension {
                Extension::Quantity(_) => "quantity",
                Extension::Address(_) => "ip",
                Extension::Network(_) => "cidr",
                Extension::Url(_) => "url",
                Extension::Version(_) => "semver",
                Extension::Format(_) => "format",
                _ => "other",
            };
            format!("{name}({extension})")
        }
    }
}
