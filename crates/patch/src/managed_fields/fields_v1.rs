//! `FieldsV1`, the JSON form of a set: `{"f:spec":{"f:ports":{".":{},"k:{\"port\":80}":{}}}}`.

mod quick;

use std::fmt;

use kevel_api::json_string::write_json_string;
use kevel_api::value::Value;
use kevel_codec::json::{Unknown, decode_any, encode_any};

use super::path::PathElement;
use super::set::{Node, Set};

/// Error of a document that is not FieldsV1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldsError(String);

impl fmt::Display for FieldsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FieldsError {}

impl Set {
    /// Decodes FieldsV1. Path elements of unknown kinds are dropped.
    pub fn from_fields(json: &str) -> Result<Set, FieldsError> {
        if let Some(set) = quick::set(json) {
            return Ok(set);
        }
        let read = decode_any(json.as_bytes(), Unknown::Ignore);
        let tree = read.map_err(|error| FieldsError(error.to_string()))?.value;
        Set::from_tree(&tree)
    }

    /// Reads FieldsV1 from a decoded document.
    pub(super) fn from_tree(tree: &Value) -> Result<Set, FieldsError> {
        Ok(read(tree)?.0)
    }

    /// FieldsV1 text, byte for byte as the reference writes it.
    pub fn to_fields(&self) -> String {
        let mut out = String::with_capacity(1024);
        out.push('{');
        write_nodes(self, &mut out);
        out.push('}');
        out
    }
}

/// A set, and whether its holder is a member of the enclosing set, which it is if the set is empty.
fn read(tree: &Value) -> Result<(Set, bool), FieldsError> {
    let map = match tree {
        Value::Null => return Ok((Set::new(), true)),
        Value::Map(map) => map,
        _ => return Err(FieldsError("expect { or n".to_owned())),
    };
    let mut nodes = Vec::with_capacity(map.len());
    let mut member = false;
    for (key, value) in map.iter() {
        if key == "." {
            member = true;
        } else if let Some(element) = read_element(key)? {
            let (children, member) = read(value)?;
            nodes.push(Node { element, member, children });
        }
    }
    let set = Set::from_nodes(nodes);
    member |= set.is_empty();
    Ok((set, member))
}

pub(super) fn read_element(key: &str) -> Result<Option<PathElement>, FieldsError> {
    if key.len() < 2 {
        return Err(FieldsError("key must be 2 characters long:".to_owned()));
    }
    let Some((kind, rest)) = key.split_once(':').filter(|(kind, _)| kind.len() == 1) else {
        return Err(FieldsError(format!("missing colon: {key}")));
    };
    let json = || {
        if let Some(value) = quick::value(rest) {
            return Ok(value);
        }
        let read = decode_any(rest.as_bytes(), Unknown::Ignore);
        read.map(|read| read.value).map_err(|error| FieldsError(error.to_string()))
    };
    Ok(match kind {
        "f" => Some(PathElement::field(rest)),
        "v" => Some(PathElement::Value(json()?)),
        "i" => {
            let index = rest.parse().map_err(|_| FieldsError(format!("invalid index: {rest}")))?;
            Some(PathElement::Index(index))
        }
        "k" => match json()? {
            Value::Map(map) => Some(PathElement::Key(map.into_entries().into_iter().collect())),
            Value::Null => Some(PathElement::Key(Vec::new())),
            _ => return Err(FieldsError("expect { or n".to_owned())),
        },
        _ => None,
    })
}

fn write_nodes(set: &Set, out: &mut String) {
    for (i, node) in set.nodes().iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write_element(&node.element, out);
        out.push_str(":{");
        if !node.children.is_empty() {
            if node.member {
                out.push_str("\".\":{},");
            }
            write_nodes(&node.children, out);
        }
        out.push('}');
    }
}

pub(super) fn write_element(element: &PathElement, out: &mut String) {
    match element {
        PathElement::Field(name) => write_key(out, "f:", name),
        PathElement::Index(index) => write_key(out, "i:", &index.to_string()),
        PathElement::Value(value) => write_key(out, "v:", &json_text(value)),
        PathElement::Key(fields) => {
            let mut key = Vec::with_capacity(32);
            key.push(b'{');
            for (i, (name, value)) in fields.iter().enumerate() {
                if i > 0 {
                    key.push(b',');
                }
                write_json_string(&mut key, name);
                key.push(b':');
                encode_any(value, &mut key);
            }
            key.push(b'}');
            write_key(out, "k:", str::from_utf8(&key).unwrap_or_default());
        }
    }
}

fn json_text(value: &Value) -> String {
    let mut json = Vec::new();
    encode_any(value, &mut json);
    String::from_utf8_lossy(&json).into_owned()
}

/// Writes a key of the document: a JSON string without HTML escapes.
pub(super) fn write_key(out: &mut String, kind: &str, text: &str) {
    out.push('"');
    out.push_str(kind);
    let mut run = 0;
    for (at, byte) in text.bytes().enumerate() {
        if !matches!(byte, b'"' | b'\\' | 0..0x20) {
            continue;
        }
        out.push_str(text.get(run..at).unwrap_or_default());
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            other => out.push_str(&format!("\\u{other:04x}")),
        }
        run = at + 1;
    }
    out.push_str(text.get(run..).unwrap_or_default());
    out.push('"');
}
