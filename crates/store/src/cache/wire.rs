//! Conversion of stored JSON to wire JSON: only the head is parsed, the rest is copied.
//!
//! The store holds an object without its resourceVersion (the revision of the write). The wire bytes have it, lack
//! `kind` and `apiVersion`, and come with the position of the labels. All of that is at the front of an object as
//! encoders write it; the part behind the metadata is not parsed before a field selector needs one of its fields.

mod located;
mod members;
mod ordered;

use bytes::Bytes;

pub(super) use self::located::locate_all;
use self::members::{Members, compact, is_spaced, members};
use super::{Decode, Span, Wire};
use crate::Revision;

/// Decoder of objects that are stored as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonDecode {
    /// Order of an object's keys on the wire.
    pub order: KeyOrder,
}

/// Order of the fields in an object's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOrder {
    /// As in Go's `ObjectMeta`: built-in kinds.
    Struct,
    /// By name: custom kinds.
    Sorted,
}

impl Decode for JsonDecode {
    fn decode(&self, stored: &Bytes, revision: Revision) -> Result<Wire, String> {
        wire(stored, revision, self.order, false).ok_or_else(|| "not a JSON object".into())
    }
}

impl JsonDecode {
    /// Decodes an object whose API version differs from the resource's; the wire bytes keep `apiVersion`, in front.
    pub fn decode_with_version(&self, stored: &[u8], revision: Revision) -> Result<Wire, String> {
        wire(stored, revision, self.order, true).ok_or_else(|| "not a JSON object".into())
    }
}

/// A selectable field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPath {
    /// Name in field selectors: `spec.nodeName`.
    pub name: Box<str>,
    keys: Vec<Box<str>>,
    /// Alternative path, for objects that lack the first.
    otherwise: Option<Vec<Box<str>>>,
    /// Value in objects that lack the field.
    zero: &'static str,
}

impl FieldPath {
    /// A field with its selector name and its path in the object; the two are mostly equal.
    pub fn new(name: &str, path: &str) -> Self {
        FieldPath { name: name.into(), keys: keys(path), otherwise: None, zero: "" }
    }

    /// The same field with an alternative path for objects that lack the first.
    pub fn otherwise_at(self, path: &str) -> Self {
        FieldPath { otherwise: Some(keys(path)), ..self }
    }

    /// The same field with another value than the empty string for objects that lack it: `false`, `0`.
    pub fn or(self, zero: &'static str) -> Self {
        FieldPath { zero, ..self }
    }

    /// Value in objects that lack the field.
    pub(super) fn zero(&self) -> &'static str {
        self.zero
    }

    /// Position of the field's value in wire bytes; an empty span if the object lacks it.
    pub(super) fn locate(&self, wire: &[u8]) -> Span {
        kevel_compute::charge_bytes(wire.len());
        let found = locate(wire, &self.keys, 0);
        match &self.otherwise {
            Some(keys) if found.len == 0 => locate(wire, keys, 0),
            _ => found,
        }
    }
}

fn keys(path: &str) -> Vec<Box<str>> {
    path.split('.').map(Into::into).collect()
}

/// The fields of `ObjectMeta` that Go writes before resourceVersion.
const BEFORE_REVISION: [&[u8]; 5] = [b"name", b"generateName", b"namespace", b"selfLink", b"uid"];

fn wire(stored: &[u8], revision: Revision, order: KeyOrder, version: bool) -> Option<Wire> {
    kevel_compute::charge_bytes(stored.len());
    u32::try_from(stored.len()).ok().filter(|len| *len < u32::MAX - 64)?;
    let ordered = order == KeyOrder::Struct && !version;
    let wire = ordered.then(|| ordered::wire(stored, revision)).flatten();
    let wire = wire.or_else(|| any_wire(stored, revision, order, version));
    // JSON that people and tools write may be indented.
    wire.or_else(|| any_wire(&compact(stored)?, revision, order, version))
}

/// Wire bytes of JSON with its keys in any order; `None` also if the part up to the metadata is not compact.
fn any_wire(stored: &[u8], revision: Revision, order: KeyOrder, version: bool) -> Option<Wire> {
    let mut out = Vec::with_capacity(stored.len() + 40);
    out.push(b'{');
    let mut members = members(stored)?;
    while let Some(member) = members.next() {
        let (key, value) = member?;
        if key == b"kind" || key == b"apiVersion" && !version {
            continue;
        }
        separate(&mut out);
        push_key(&mut out, key);
        if key != b"metadata" {
            out.extend_from_slice(value);
            continue;
        }
        let Metadata { revision, labels } = push_metadata(&mut out, value, revision, order)?;
        if members.spaced {
            return None;
        }
        push_rest(&mut out, members)?;
        out.push(b'}');
        out.shrink_to_fit();
        return Some(Wire { bytes: Bytes::from(out), revision, labels });
    }
    None
}

/// Copies the members behind the metadata, without kind and apiVersion, which custom objects may have there.
fn push_rest(out: &mut Vec<u8>, members: Members<'_>) -> Option<()> {
    if members.rest.is_empty() {
        return Some(());
    }
    // Encoders either sort keys or write kind and apiVersion in front; only other writers put them behind.
    let named_before = |key: &[u8]| key > b"metadata".as_slice();
    let sorted_or_front = members.rest.get(1..).is_some_and(|rest| {
        rest.iter().position(|c| *c == b'"').is_some_and(|end| named_before(&rest[..end]))
    });
    if sorted_or_front {
        out.push(b',');
        out.extend_from_slice(members.rest);
        return Some(());
    }
    for member in members {
        let (key, value) = member?;
        if !matches!(key, b"kind" | b"apiVersion") {
            separate(out);
            push_key(out, key);
            out.extend_from_slice(value);
        }
    }
    Some(())
}

/// Positions of resourceVersion and labels in the wire bytes.
#[derive(Default)]
struct Metadata {
    revision: Span,
    labels: Span,
}

/// Copies an object's metadata with its resourceVersion in place.
fn push_metadata(
    out: &mut Vec<u8>,
    metadata: &[u8],
    revision: Revision,
    order: KeyOrder,
) -> Option<Metadata> {
    let after = |key: &[u8]| match order {
        KeyOrder::Struct => !BEFORE_REVISION.contains(&key),
        KeyOrder::Sorted => key > b"resourceVersion".as_slice(),
    };
    let mut parts = Metadata::default();
    out.push(b'{');
    let mut all = members(metadata)?;
    for member in all.by_ref() {
        let (key, value) = member?;
        if key == b"resourceVersion" {
            continue;
        }
        if parts.revision.len == 0 && after(key) {
            parts.revision = push_revision(out, revision);
        }
        separate(out);
        push_key(out, key);
        if key == b"labels" {
            if is_spaced(value)? {
                return None;
            }
            parts.labels = Span { start: out.len() as u32, len: value.len() as u32 };
        }
        out.extend_from_slice(value);
    }
    if parts.revision.len == 0 {
        parts.revision = push_revision(out, revision);
    }
    out.push(b'}');
    (!all.spaced).then_some(parts)
}

fn push_revision(out: &mut Vec<u8>, revision: Revision) -> Span {
    separate(out);
    push_key(out, b"resourceVersion");
    out.push(b'"');
    let digits = revision.to_string();
    let part = Span { start: out.len() as u32, len: digits.len() as u32 };
    out.extend_from_slice(digits.as_bytes());
    out.push(b'"');
    part
}

fn push_key(out: &mut Vec<u8>, key: &[u8]) {
    out.push(b'"');
    out.extend_from_slice(key);
    out.extend_from_slice(b"\":");
}

fn separate(out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
}

/// Position of the string field at a path below a value that begins at offset `start`.
fn locate(value: &[u8], path: &[Box<str>], start: usize) -> Span {
    let Some((first, rest)) = path.split_first() else {
        // Strings without their quotes; booleans and numbers as they are.
        let quoted = value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\""));
        let (skip, text) = quoted.map_or((0, value), |text| (1, text));
        return Span { start: (start + skip) as u32, len: text.len() as u32 };
    };
    let found = members(value).and_then(|mut all| {
        all.find_map(|member| member.filter(|(key, _)| *key == first.as_bytes()))
    });
    let Some((_, inner)) = found else { return Span::default() };
    let offset = inner.as_ptr() as usize - value.as_ptr() as usize;
    locate(inner, rest, start + offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(stored: &str, order: KeyOrder) -> Result<Wire, String> {
        JsonDecode { order }.decode(&Bytes::copy_from_slice(stored.as_bytes()), Revision(7))
    }

    #[test]
    fn the_revision_goes_where_the_reference_writes_it() {
        for (stored, order, wire) in [
            (
                r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"u","labels":{"x":"y"}},"spec":{}}"#,
                KeyOrder::Struct,
                r#"{"metadata":{"name":"a","uid":"u","resourceVersion":"7","labels":{"x":"y"}},"spec":{}}"#,
            ),
            (
                r#"{"apiVersion":"e.x/v1","data":1,"kind":"X","metadata":{"labels":{},"name":"a","uid":"u"}}"#,
                KeyOrder::Sorted,
                r#"{"data":1,"metadata":{"labels":{},"name":"a","resourceVersion":"7","uid":"u"}}"#,
            ),
            (
                r#"{"kind":"A","apiVersion":"v1","metadata":{}}"#,
                KeyOrder::Struct,
                r#"{"metadata":{"resourceVersion":"7"}}"#,
            ),
            (
                r#"{"metadata":{"resourceVersion":"3","name":"a"}}"#,
                KeyOrder::Struct,
                r#"{"metadata":{"name":"a","resourceVersion":"7"}}"#,
            ),
        ] {
            let found = decode(stored, order).unwrap();
            assert_eq!(std::str::from_utf8(&found.bytes).unwrap(), wire);
        }
    }

    #[test]
    fn a_new_revision_moves_what_follows_it() {
        let stored = r#"{"metadata":{"name":"a","labels":{"x":"y"}},"spec":{"nodeName":"n1"}}"#;
        let object =
            super::super::Object::new("ns/a", Revision(7), decode(stored, KeyOrder::Struct));
        let object = object.gone(Revision(1234));
        assert_eq!(object.label("x"), Some("y"));
        let expected = r#"{"metadata":{"name":"a","resourceVersion":"1234","labels":{"x":"y"}},"spec":{"nodeName":"n1"}}"#;
        assert_eq!(object.wire().unwrap(), expected.as_bytes());
    }

    #[test]
    fn fields_are_located() {
        let stored = r#"{"kind":"Pod","metadata":{"name":"a","labels":{"l\\":"}{"}},"spec":{"x":[{"nodeName":"no"},"\"]"],"nodeName":"n1","host":true}}"#;
        let object =
            super::super::Object::new("ns/a", Revision(7), decode(stored, KeyOrder::Struct));
        let names = ["spec.nodeName", "spec.host", "spec.missing", "status.phase", "spec.x.y"];
        let paths: Vec<_> = names.iter().map(|name| FieldPath::new(name, name)).collect();
        let values: Vec<_> = (0..paths.len()).map(|i| object.field(&paths, i)).collect();
        assert_eq!(values, ["n1", "true", "", "", ""]);
    }

    #[test]
    fn indented_json_is_read_as_the_compact_one() {
        let compact = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a, b","labels":{"x":"y"},"generation":1},"spec":{"nodeName":"n1","x":[1,{"a":" }"}]}}"#;
        let pretty = "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\" : \"Pod\",\r\n\t\"metadata\": {\n\t\t\"name\": \"a, b\",\n\t\t\"labels\": \
             {\n \"x\": \"y\"\n },\n\"generation\": 1\n},\n\"spec\": {\"nodeName\": \"n1\", \"x\": [1, {\"a\": \" }\"}]}\n}\n";
        let spaced_labels = compact.replace(r#"{"x":"y"}"#, r#"{"x": "y"}"#);
        let ordered = compact
            .replace(r#""apiVersion":"v1","kind":"Pod""#, r#""kind":"Pod","apiVersion":"v1""#);
        let ordered_but_labels = ordered.replace(r#"{"x":"y"}"#, r#"{ "x":"y" }"#);
        let space_behind = ordered.replace(r#""nodeName":"n1""#, r#" "nodeName" : "n1" "#);
        let paths = [FieldPath::new("spec.nodeName", "spec.nodeName")];
        for order in [KeyOrder::Struct, KeyOrder::Sorted] {
            let expected = decode(compact, order).unwrap();
            for stored in [pretty, &spaced_labels, &ordered, &ordered_but_labels] {
                assert_eq!(decode(stored, order).as_ref(), Ok(&expected), "{stored}");
            }
            // The part behind the head is copied; field selectors find it.
            for stored in [compact, pretty, &space_behind] {
                let object = super::super::Object::new("ns/a", Revision(7), decode(stored, order));
                assert_eq!(object.field(&paths, 0), "n1", "{stored}");
                assert_eq!(object.label("x"), Some("y"), "{stored}");
            }
        }
    }

    #[test]
    fn damaged_text_is_an_error() {
        for stored in [
            "",
            "[]",
            "{",
            "{ }",
            r#"{ "a" 1}"#,
            r#"{"a"}"#,
            r#"{"a":1,}"#,
            r#"{"metadata":"b}"#,
            r#"{"a":{"b":1}"#,
        ] {
            assert!(decode(stored, KeyOrder::Struct).is_err(), "{stored}");
        }
    }
}
