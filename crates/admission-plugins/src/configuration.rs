//! Decoder of admission plug-ins' configuration files.

use kevel_api::quote::quote;
use kevel_api::value::Value;
use kevel_codec::json::{Unknown, strict_message};
use kevel_codec::yaml;
use thiserror::Error;

/// Decodes a configuration, which must have one of these API versions and kinds.
pub(super) fn decode(text: &str, kinds: &[(&str, &str)]) -> Result<Value, String> {
    let decoded = yaml::decode_any(text.as_bytes(), Unknown::Report);
    let decoded = decoded.map_err(|error| error.to_string())?;
    match (decoded.value.str_at(&["apiVersion"]), decoded.value.str_at(&["kind"])) {
        (_, "") => Err(format!("Object 'Kind' is missing in '{text}'")),
        ("", _) => Err(format!("Object 'apiVersion' is missing in '{text}'")),
        found if kinds.contains(&found) => Ok(decoded.value),
        (version, kind) => {
            Err(format!("no kind {} is registered for version {}", quote(kind), quote(version)))
        }
    }
}

/// Reason why a configuration is refused that is decoded strictly.
#[derive(Debug, Error)]
pub(super) enum StrictConfigurationError {
    /// Not a configuration of the wanted kind.
    #[error("{0}")]
    Decode(String),
    /// Duplicate and unknown fields.
    #[error("{}", strict_message(.0))]
    Strict(Vec<String>),
    /// A value that is no string.
    #[error("json: cannot unmarshal {found} into Go struct field {of}.{field} of type string")]
    NoString { found: &'static str, of: &'static str, field: String },
}

/// Decodes a configuration strictly, whose fields are strings. `go_type` is the reference's name of its type.
pub(super) fn decode_strings(
    text: &str,
    kind: (&str, &str),
    go_type: &'static str,
    fields: &[&str],
) -> Result<Value, StrictConfigurationError> {
    let value = decode(text, &[kind]).map_err(StrictConfigurationError::Decode)?;
    // Duplicates are found only in what was sent.
    let mut problems = yaml::decode_any(text.as_bytes(), Unknown::Report)
        .map(|decoded| decoded.strict)
        .unwrap_or_default();
    for (field, value) in value.as_map().into_iter().flat_map(|map| map.iter()) {
        if !fields.contains(&field) && !["apiVersion", "kind"].contains(&field) {
            problems.push(format!("unknown field {}", quote(field)));
            continue;
        }
        let found = match value {
            Value::String(_) | Value::Null => continue,
            Value::Map(_) => "object",
            Value::List(_) => "array",
            Value::Bool(_) => "bool",
            _ => "number",
        };
        return Err(StrictConfigurationError::NoString {
            found,
            of: go_type,
            field: field.to_owned(),
        });
    }
    match problems.is_empty() {
        true => Ok(value),
        false => Err(StrictConfigurationError::Strict(problems)),
    }
}
