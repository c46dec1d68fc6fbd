//! JSON merge patch (RFC 7386), as the reference applies it.

mod typed;

use std::fmt;

use kevel_api::value::{Map, Value};
use kevel_codec::json::{StrictError, Unknown, decode_any, open, open_all};
use thin_vec::ThinVec;

pub use typed::apply_typed;

/// Error of a merge patch: 400.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The patch cannot be decoded.
    Decode(String),
    /// The patch is neither an object nor a list.
    Patch,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Decode(message) => write!(f, "error decoding patch: {message}"),
            Error::Patch => f.write_str("Invalid JSON Patch"),
        }
    }
}

impl std::error::Error for Error {}

/// Decodes a patch; with [`Unknown::Report`], its duplicate fields are returned too.
pub fn decode(patch: &[u8], fields: Unknown) -> Result<(Value, Vec<StrictError>), Error> {
    let read = match (decode_any(patch, fields), fields) {
        (Ok(read), _) => read,
        (Err(error), Unknown::Report) => return Err(Error::Decode(error.to_string())),
        (Err(_), Unknown::Ignore) => return Err(Error::Patch),
    };
    match (&read.value, fields) {
        (Value::Map(_), _) | (Value::List(_), Unknown::Ignore) => Ok((read.value, read.strict)),
        (Value::Null, _) | (_, Unknown::Ignore) => Err(Error::Patch),
        (other, Unknown::Report) => Err(Error::Decode(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_kind(other)
        ))),
    }
}

/// Name of a JSON value's kind in Go's errors.
pub(crate) fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) => "number",
        Value::String(_) | Value::Raw(_) => "string",
        Value::List(_) => "array",
        Value::Map(_) => "object",
    }
}

/// Applies a patch to an object's tree.
///
/// ```
/// use kevel_codec::json::{Unknown, decode_any, encode_any};
/// use kevel_patch::merge_patch;
/// let document = decode_any(br#"{"a":1,"b":{"c":2}}"#, Unknown::Ignore)?.value;
/// let (patch, _) = merge_patch::decode(br#"{"a":null,"b":{"d":3}}"#, Unknown::Ignore)?;
/// let mut out = Vec::new();
/// encode_any(&merge_patch::apply(document, patch), &mut out);
/// assert_eq!(out, br#"{"b":{"c":2,"d":3}}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Parts of either may be undecoded text ([`Value::Raw`]): they are decoded where the patch touches them.
pub fn apply(document: Value, patch: Value) -> Value {
    match (opened(document), opened(patch)) {
        (Value::Map(document), Value::Map(patch)) => Value::Map(merge_maps(document, patch)),
        (_, mut patch) => {
            prune_nulls(&mut patch);
            patch
        }
    }
}

/// Decodes a part of a document by one level.
pub(crate) fn opened(value: Value) -> Value {
    match value {
        Value::Raw(text) => open(&text),
        value => value,
    }
}

/// Merges two maps in one pass: both are sorted by key.
fn merge_maps(document: Map, patch: Map) -> Map {
    let mut merged = ThinVec::with_capacity(document.len() + patch.len());
    let mut document = document.into_entries().into_iter().peekable();
    for (key, value) in patch.into_entries() {
        while let Some(entry) = document.next_if(|(other, _)| *other < key) {
            merged.push(entry);
        }
        let current = document.next_if(|(other, _)| *other == key).map(|(_, value)| value);
        if let Some(value) = merge(current, value) {
            merged.push((key, value));
        }
    }
    merged.extend(document);
    Map::from_sorted(merged)
}

fn merge(current: Option<Value>, mut patch: Value) -> Option<Value> {
    if patch.is_null() {
        return None;
    }
    let Some(Value::Map(current)) = current.map(opened) else {
        prune_nulls(&mut patch);
        return Some(patch);
    };
    match patch {
        Value::Map(patch) => Some(Value::Map(merge_maps(current, patch))),
        Value::Raw(text) if text.starts_with('{') => merge(Some(Value::Map(current)), open(&text)),
        // The reference keeps the nulls in a list that replaces an object.
        patch => Some(patch),
    }
}

/// Drops `null` fields everywhere below; elements of lists stay.
fn prune_nulls(value: &mut Value) {
    match value {
        Value::Map(map) => map.retain(|_, value| {
            prune_nulls(value);
            !value.is_null()
        }),
        Value::List(items) => items.iter_mut().for_each(prune_nulls),
        Value::Raw(text) if text.starts_with(['{', '[']) => {
            *value = open_all(text);
            // Text that does not decode stays text.
            if !matches!(value, Value::Raw(_)) {
                prune_nulls(value);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevel_codec::json::encode_any;

    fn tree(json: &str) -> Value {
        decode_any(json.as_bytes(), Unknown::Ignore).unwrap().value
    }

    #[test]
    fn documents_patches_and_results() {
        let cases = [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1,null]}"#, r#"{"a":[1,null]}"#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1,"e":null}"#),
            (r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
            // Nulls inside lists: dropped if the list replaces a list or nothing, kept if it replaces an object.
            (r#"{"a":[1]}"#, r#"{"a":[{"b":null,"c":1}]}"#, r#"{"a":[{"c":1}]}"#),
            (r#"{}"#, r#"{"a":[{"b":null,"c":1}]}"#, r#"{"a":[{"c":1}]}"#),
            (r#"{"a":{}}"#, r#"{"a":[{"b":null,"c":1}]}"#, r#"{"a":[{"b":null,"c":1}]}"#),
            (r#"{"a":1}"#, r#"[{"b":null},null]"#, r#"[{},null]"#),
        ];
        for (document, patch, expected) in cases {
            let mut out = Vec::new();
            encode_any(&apply(tree(document), tree(patch)), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{document} + {patch}");
        }
    }

    #[test]
    fn what_is_no_patch() {
        let type_error = "error decoding patch: json: cannot unmarshal array into Go value of \
                          type map[string]interface {}";
        let cases = [
            (r#"{"a""#, Unknown::Report, "error decoding patch: unexpected end of JSON input"),
            (r#"{"a""#, Unknown::Ignore, "Invalid JSON Patch"),
            ("[]", Unknown::Report, type_error),
            ("null", Unknown::Report, "Invalid JSON Patch"),
            ("3", Unknown::Ignore, "Invalid JSON Patch"),
        ];
        for (patch, fields, message) in cases {
            assert_eq!(decode(patch.as_bytes(), fields).unwrap_err().to_string(), message);
        }
        let (_, strict) = decode(br#"{"a":{"b":1,"b":2}}"#, Unknown::Report).unwrap();
        assert_eq!(strict[0].to_string(), r#"duplicate field "a.b""#);
    }

    #[test]
    fn large_maps_merge_in_one_pass() {
        let entries = |from: i64| (0..200_000).map(move |i| (format!("k{:07}", 2 * i + from), i));
        let map = |from| Map::from_iter(entries(from).map(|(k, i)| (k, Value::Int(i))));
        let merged = apply(Value::Map(map(0)), Value::Map(map(1)));
        assert_eq!(merged.as_map().unwrap().len(), 400_000);
    }
}
