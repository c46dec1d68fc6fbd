//! Pretty printing (`?pretty=true`): two spaces per level.

use kevel_api::schema::Schema;
use kevel_api::value::Value;

use super::encode::{encode, encode_any};
use super::raw::string_len;

/// [`encode`] with indentation.
pub fn encode_pretty(value: &Value, schema: Schema<'_>, out: &mut Vec<u8>) {
    let mut compact = Vec::new();
    encode(value, schema, &mut compact);
    indent(&compact, out);
}

/// [`encode_any`] with indentation.
pub fn encode_any_pretty(value: &Value, out: &mut Vec<u8>) {
    let mut compact = Vec::new();
    encode_any(value, &mut compact);
    indent(&compact, out);
}

/// Appends a compact document with line breaks and two spaces per level.
///
/// ```
/// let mut out = Vec::new();
/// kevel_codec::json::indent(br#"{"a":[1,2],"b":{}}"#, &mut out);
/// assert_eq!(out, b"{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {}\n}");
/// ```
pub fn indent(document: &[u8], out: &mut Vec<u8>) {
    indent_by(2, document, out);
}

/// Appends a compact document with line breaks and `spaces` per level.
pub fn indent_by(spaces: usize, document: &[u8], out: &mut Vec<u8>) {
    out.reserve(document.len() * 2);
    let new_line = |depth: usize, out: &mut Vec<u8>| {
        out.push(b'\n');
        out.resize(out.len() + depth * spaces, b' ');
    };
    let mut depth = 0;
    let mut at = 0;
    while let Some(&byte) = document.get(at) {
        kevel_compute::charge(1);
        at += 1;
        match byte {
            b'"' => {
                let end = at - 1 + string_len(&document[at - 1..]);
                out.extend_from_slice(&document[at - 1..end]);
                at = end;
            }
            b'{' | b'[' => {
                out.push(byte);
                if let Some(close @ (b'}' | b']')) = document.get(at) {
                    out.push(*close);
                    at += 1;
                } else {
                    depth += 1;
                    new_line(depth, out);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                new_line(depth, out);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                new_line(depth, out);
            }
            b':' => out.extend_from_slice(b": "),
            _ => out.push(byte),
        }
    }
}
