//! Digests of OpenAPI documents, by which the published documents of the reference are compared.

use std::collections::BTreeMap;

use kevel_api::value::{Map, Value};
use kevel_codec::json;

/// Digests of a document's parts: `schema NAME`, `path PATH` and `info`. Parts that need not be equal are left out:
/// descriptions have other authors, a default server lists enum values and has no CBOR, and the order of parameters is
/// irrelevant.
pub fn digests(document: &Value) -> BTreeMap<String, String> {
    let shared = document.at(&["parameters"]).unwrap_or(&Value::Null);
    let document = compared(&inline(document, shared), false);
    let mut digests = BTreeMap::new();
    for (part, path) in [
        ("schema", &["components", "schemas"][..]),
        ("schema", &["definitions"]),
        ("path", &["paths"]),
    ] {
        let parts = document.at(path).and_then(Value::as_map);
        for (name, value) in parts.into_iter().flat_map(Map::iter) {
            digests.insert(format!("{part} {name}"), digest(value));
        }
    }
    digests.insert("info".to_owned(), digest(document.at(&["info"]).unwrap_or(&Value::Null)));
    digests
}

fn compared(value: &Value, of_properties: bool) -> Value {
    match value {
        Value::Map(map) => {
            let mut out = Map::new();
            for (key, value) in map.iter() {
                let masked = match value {
                    Value::String(_) => key == "description",
                    Value::List(_) => key == "enum",
                    _ => key.starts_with("application/") && key.contains("cbor"),
                };
                if !masked || of_properties {
                    out.insert(key, compared(value, key == "properties" && !of_properties));
                }
            }
            for key in ["parameters", "required"] {
                if let Some(Value::List(list)) = out.get_mut(key) {
                    list.sort_by_key(encoded);
                }
            }
            // A single `$ref` without siblings needs no `allOf`.
            match out.get("allOf").and_then(Value::as_list) {
                Some([only]) if out.len() == 1 => only.clone(),
                _ => Value::Map(out),
            }
        }
        Value::List(list) => {
            let cbor = |item: &&Value| !item.as_str().is_some_and(|text| text.contains("cbor"));
            Value::List(list.iter().filter(cbor).map(|item| compared(item, false)).collect())
        }
        other => other.clone(),
    }
}

/// Resolves references to shared parameters.
fn inline(value: &Value, parameters: &Value) -> Value {
    match value {
        Value::Map(map) => {
            let reference = map.get("$ref").and_then(Value::as_str);
            match reference.and_then(|reference| reference.strip_prefix("#/parameters/")) {
                Some(name) => parameters.at(&[name]).cloned().unwrap_or_default(),
                None => {
                    let entries =
                        map.iter().map(|(key, v)| (key.to_owned(), inline(v, parameters)));
                    Value::Map(entries.collect())
                }
            }
        }
        Value::List(list) => Value::List(list.iter().map(|v| inline(v, parameters)).collect()),
        other => other.clone(),
    }
}

/// FNV-1a of the value's JSON, folded to 32 bits: enough to detect a difference.
fn digest(value: &Value) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = encoded(value).iter().fold(0xcbf2_9ce4_8422_2325, step);
    format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}

fn encoded(value: &Value) -> Vec<u8> {
    let mut text = Vec::new();
    json::encode_any(value, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> BTreeMap<String, String> {
        digests(&json::decode_any(text.as_bytes(), json::Unknown::Report).unwrap().value)
    }

    #[test]
    fn parts_differ_by_what_is_compared() {
        let of = |schema: &str| {
            parts(&format!(
                r#"{{"components":{{"schemas":{{"A":{schema}}}}},"paths":{{"/a":{{}}}}}}"#
            ))
        };
        let one = of(
            r#"{"type":"object","description":"x","properties":{"description":{"type":"string"}}}"#,
        );
        assert_eq!(one.keys().collect::<Vec<_>>(), ["info", "path /a", "schema A"]);
        let same = of(
            r#"{"type":"object","description":"y","properties":{"description":{"type":"string"}}}"#,
        );
        assert_eq!(one, same);
        let other = of(r#"{"type":"object","properties":{"description":{"type":"integer"}}}"#);
        assert_ne!(one["schema A"], other["schema A"]);
        assert_eq!(one["path /a"], other["path /a"]);
    }
}
