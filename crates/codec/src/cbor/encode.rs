//! Writing: what the reference writes, in its deterministic mode.

use kevel_api::schema::{Field, FieldFlags, MAX_FIELDS, Scalar, Schema, Type};
use kevel_api::value::{Map, Value};

use super::float;
use super::head::ItemHead;
use crate::{base64, json};

const UNSIGNED: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const ARRAY: u8 = 4;
const MAP: u8 = 5;
const FALSE: u8 = 0xf4;
const TRUE: u8 = 0xf5;
const NULL: u8 = 0xf6;
/// The tag of bytes that are base64 where a text is wanted.
const TAG_BASE64: u8 = 0xd6;

/// Appends a value of the given type, without the tag before it ([`super::SELF_DESCRIBED`]). Of structs there is what is in their
/// JSON form.
pub fn encode(value: &Value, schema: Schema<'_>, out: &mut Vec<u8>) {
    if schema.is_custom() {
        return encode_any(value, out);
    }
    match (schema.ty(), value) {
        (Type::Struct(_), Value::Map(map)) => write_struct(map, schema, out),
        (Type::List { item, .. }, Value::List(items)) => {
            let item = schema.other(*item);
            write_list(items, out, |value, out| encode(value, item, out));
        }
        (Type::Map { value, .. }, Value::Map(map)) => {
            let schema = schema.other(*value);
            write_map(map, out, |value, out| encode(value, schema, out));
        }
        (Type::Union { object, .. }, Value::Map(_)) => encode(value, schema.other(object.ty), out),
        // The reference does not tell an empty list from none here.
        (Type::Union { .. }, Value::List(items)) if items.is_empty() => out.push(NULL),
        (Type::Union { other, .. }, _) => encode(value, schema.other(other.ty), out),
        (Type::Scalar(Scalar::Double), Value::Int(int)) => float::write(*int as f64, out),
        (Type::Scalar(Scalar::Bytes), Value::String(text)) => write_bytes(text, out),
        _ => encode_any(value, out),
    }
}

/// Appends a value as it is. A document inside it is read as JSON, as its numbers and keys have another form here.
pub fn encode_any(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(NULL),
        Value::Bool(true) => out.push(TRUE),
        Value::Bool(false) => out.push(FALSE),
        Value::Int(int) if *int < 0 => ItemHead::write(NEGATIVE, !int.cast_unsigned(), out),
        Value::Int(int) => ItemHead::write(UNSIGNED, int.cast_unsigned(), out),
        Value::Float(float) => float::write(*float, out),
        Value::String(text) => write_string(text.as_bytes(), out),
        Value::List(items) => write_list(items, out, encode_any),
        Value::Map(map) => write_map(map, out, encode_any),
        Value::Raw(text) => match json::decode_any(text.as_bytes(), json::Unknown::Ignore) {
            Ok(document) => encode_any(&document.value, out),
            // No decoder lets anything else through.
            Err(_) => out.push(NULL),
        },
    }
}

/// Appends the head of a list with this many elements.
pub fn encode_array_head(elements: usize, out: &mut Vec<u8>) {
    ItemHead::write(ARRAY, elements as u64, out);
}

/// Appends the head of a map with this many entries.
pub fn encode_map_head(entries: usize, out: &mut Vec<u8>) {
    ItemHead::write(MAP, entries as u64, out);
}

fn write_string(bytes: &[u8], out: &mut Vec<u8>) {
    ItemHead::write(BYTES, bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Bytes, whose JSON form is base64.
fn write_bytes(text: &str, out: &mut Vec<u8>) {
    let mut bytes = Vec::new();
    // Decoders let no other text through; of one made otherwise the good part counts.
    _ = base64::decode_into(text, &mut bytes);
    out.push(TAG_BASE64);
    write_string(&bytes, out);
}

fn write_list(items: &[Value], out: &mut Vec<u8>, write: impl Fn(&Value, &mut Vec<u8>)) {
    kevel_compute::charge(1 + items.len());
    encode_array_head(items.len(), out);
    items.iter().for_each(|item| write(item, out));
}

/// Keys are in the order of their bytes with the length before them: shorter ones first.
fn write_map(map: &Map, out: &mut Vec<u8>, write: impl Fn(&Value, &mut Vec<u8>)) {
    kevel_compute::charge(1 + map.len());
    encode_map_head(map.len(), out);
    let mut entry = |key: &str, value: &Value| {
        write_string(key.as_bytes(), out);
        write(value, out);
    };
    if map.iter().is_sorted_by_key(|(key, _)| key.len()) {
        return map.iter().for_each(|(key, value)| entry(key, value));
    }
    let mut entries: Vec<(&str, &Value)> = map.iter().collect();
    // Those of one length stay in their order.
    entries.sort_by_key(|(key, _)| key.len());
    entries.into_iter().for_each(|(key, value)| entry(key, value));
}

/// A field that is written, and the index of its entry in the map.
#[derive(Clone, Copy)]
struct PresentField {
    name: u16,
    field: u16,
    entry: u16,
}

impl PresentField {
    const NONE: PresentField = PresentField { name: 0, field: 0, entry: u16::MAX };
}

fn write_struct(map: &Map, schema: Schema<'_>, out: &mut Vec<u8>) {
    let Some(structure) = schema.as_struct() else { return out.push(NULL) };
    kevel_compute::charge(1);
    let entries = map.entries();
    let (mut fields, mut count) = ([PresentField::NONE; MAX_FIELDS], 0);
    structure.for_each_field(entries, |index, field, entry| {
        if entry.is_none() && !field.flags.has(FieldFlags::WRITTEN_EMPTY) {
            return;
        }
        let value = entry.and_then(|entry| entries.get(entry));
        let is_written = |(_, value): &(_, Value)| {
            structure.field_at(index).is_some_and(|field| json::is_written(field, value))
        };
        if !value.is_none_or(is_written) {
            return;
        }
        if let Some(place) = fields.get_mut(count) {
            let entry = entry.map_or(u16::MAX, |entry| entry as u16);
            *place = PresentField { name: field.name.1, field: index as u16, entry };
            count += 1;
        }
    });
    let fields = fields.get_mut(..count).unwrap_or_default();
    // Fields come in the order of their names.
    fields.sort_unstable_by_key(|field| (field.name, field.field));
    encode_map_head(fields.len(), out);
    for written in fields {
        let Some(field) = structure.field_at(written.field.into()) else { continue };
        let value = entries.get(usize::from(written.entry)).map(|(_, value)| value);
        write_string(field.name().as_bytes(), out);
        write_field(field, value, out);
    }
}

fn write_field(field: Field<'_>, value: Option<&Value>, out: &mut Vec<u8>) {
    match value {
        Some(value) => encode(value, field.schema(), out),
        None if field.pointer() => out.push(NULL),
        None => write_zero(field.schema(), out),
    }
}

/// Writes Go's zero value of a type.
fn write_zero(schema: Schema<'_>, out: &mut Vec<u8>) {
    match schema.ty() {
        Type::Struct(_) => write_struct(&Map::new(), schema, out),
        Type::Scalar(scalar) => match scalar {
            Scalar::String => write_string(b"", out),
            Scalar::Bool => out.push(FALSE),
            Scalar::Int32 | Scalar::Int64 | Scalar::IntOrString => {
                ItemHead::write(UNSIGNED, 0, out)
            }
            Scalar::Double => float::write(0.0, out),
            Scalar::Quantity => write_string(b"0", out),
            Scalar::Duration => write_string(b"0s", out),
            _ => out.push(NULL),
        },
        Type::Union { other, .. } if schema.other(other.ty).scalar().is_some() => out.push(FALSE),
        _ => out.push(NULL),
    }
}
