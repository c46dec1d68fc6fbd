//! Writing: the bytes that the reference writes, without a line break at the end.

use kevel_api::json_string::write_json_string;
use kevel_api::schema::{Field, FieldEntry, FieldFlags, Scalar, Schema, StructSchema, Type};
use kevel_api::value::{Map, Value};

use super::custom::is_custom;
use super::find::is_named;
use super::float::{write_float, write_int};
use super::raw::write_raw;

/// Appends a value of the given type: a built-in struct's fields in the reference's order with
/// what it writes although empty, everything else by sorted keys.
pub fn encode(value: &Value, schema: Schema<'_>, out: &mut Vec<u8>) {
    if is_custom(schema) {
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
        (Type::Union { object, .. }, Value::Map(_)) => {
            encode(value, schema.other(object.ty), out);
        }
        // The reference does not tell an empty list from none here.
        (Type::Union { .. }, Value::List(items)) if items.is_empty() => {
            out.extend_from_slice(b"null");
        }
        (Type::Union { other, .. }, _) => encode(value, schema.other(other.ty), out),
        (Type::Scalar(Scalar::Double), Value::Int(int)) => write_float(*int as f64, out),
        _ => encode_any(value, out),
    }
}

/// Appends a value as it is, its maps by sorted keys.
pub fn encode_any(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(int) => write_int(*int, out),
        Value::Float(float) => write_float(*float, out),
        Value::String(text) => write_json_string(out, text),
        Value::List(items) => write_list(items, out, encode_any),
        Value::Map(map) => write_map(map, out, encode_any),
        Value::Raw(text) => write_raw(text, out),
    }
}

fn write_list(items: &[Value], out: &mut Vec<u8>, write: impl Fn(&Value, &mut Vec<u8>)) {
    out.push(b'[');
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
}

fn write_map(map: &Map, out: &mut Vec<u8>, write: impl Fn(&Value, &mut Vec<u8>)) {
    out.push(b'{');
    for (i, (key, value)) in map.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_json_string(out, key);
        out.push(b':');
        write(value, out);
    }
    out.push(b'}');
}

/// Structs of up to so many fields are sorted out on the stack.
const SLOTS: usize = 64;

fn write_struct(map: &Map, schema: Schema<'_>, out: &mut Vec<u8>) {
    let Some(structure) = schema.as_struct() else { return };
    let fields = structure.entries().len();
    if fields <= SLOTS {
        write_fields(map, schema, structure, &mut [Slot::EMPTY; SLOTS][..fields], out);
    } else {
        write_fields(map, schema, structure, &mut vec![Slot::EMPTY; fields], out);
    }
}

/// For one place in the written order: which field stands there, and which entry of the map it
/// has.
#[derive(Clone, Copy)]
struct Slot {
    field: u16,
    entry: u16,
}

impl Slot {
    const NONE: u16 = u16::MAX;
    const EMPTY: Slot = Slot { field: Slot::NONE, entry: Slot::NONE };
}

fn write_fields(
    map: &Map,
    schema: Schema<'_>,
    structure: StructSchema<'_>,
    slots: &mut [Slot],
    out: &mut Vec<u8>,
) {
    // Fields and entries are both sorted by name, so that it is enough to look for the next one.
    let entries = map.entries();
    let mut next = 0;
    let mut wanted = entries.first().map(|(key, _)| key.as_bytes());
    for (index, field) in structure.entries().iter().enumerate() {
        let here = wanted.is_some_and(|name| is_named(schema, field.name, name));
        if !here && !is_written_empty(field, schema) {
            continue;
        }
        let Some(slot) = slots.get_mut(usize::from(field.rank)) else { continue };
        slot.field = index as u16;
        if here {
            slot.entry = next as u16;
            next += 1;
            wanted = entries.get(next).map(|(key, _)| key.as_bytes());
        }
    }
    // An entry that has no field was in the way; no decoder makes one.
    for (entry, (key, _)) in entries.iter().enumerate().skip(next) {
        let Some(index) = structure.position(key) else { continue };
        let rank = structure.field_at(index).map_or(usize::MAX, Field::rank);
        if let Some(slot) = slots.get_mut(rank) {
            *slot = Slot { field: index as u16, entry: entry as u16 };
        }
    }
    out.push(b'{');
    let start = out.len();
    for slot in slots.iter() {
        let Some(field) = structure.field_at(slot.field.into()) else { continue };
        let value = entries.get(usize::from(slot.entry)).map(|(_, value)| value);
        write_field(field, value, start, out);
    }
    out.push(b'}');
}

/// Whether a field that the value does not have is written all the same: where the tag says so,
/// and all that is a struct in Go, as nothing of that kind is "empty" there.
#[inline]
fn is_written_empty(field: &FieldEntry, schema: Schema<'_>) -> bool {
    field.flags.has(FieldFlags::ALWAYS)
        || !field.flags.has(FieldFlags::POINTER)
            && !field.flags.has(FieldFlags::OMIT_ZERO)
            && match schema.other(field.ty).ty() {
                Type::Struct(_) => true,
                Type::Scalar(scalar) => is_go_struct(*scalar),
                _ => false,
            }
}

/// Writes a field where the reference does; `start` is where the struct's first field stands.
fn write_field(field: Field<'_>, value: Option<&Value>, start: usize, out: &mut Vec<u8>) {
    let schema = field.schema();
    let Some(value) = value else {
        write_name(field, start, out);
        return match field.pointer() {
            true => out.extend_from_slice(b"null"),
            false => write_zero(schema, out),
        };
    };
    let omitted = !field.pointer()
        && match schema.ty() {
            Type::Struct(_) => omit_zero(field) && is_zero_struct(value, schema),
            Type::Scalar(scalar) if is_go_struct(*scalar) => false,
            _ => !field.always() && value.is_empty(),
        };
    if !omitted {
        write_name(field, start, out);
        encode(value, schema, out);
    }
}

#[inline]
fn write_name(field: Field<'_>, start: usize, out: &mut Vec<u8>) {
    if out.len() > start {
        out.push(b',');
    }
    // Names of built-in fields need no escapes.
    out.push(b'"');
    out.extend_from_slice(field.name().as_bytes());
    out.extend_from_slice(b"\":");
}

fn omit_zero(field: Field<'_>) -> bool {
    field.flags().has(FieldFlags::OMIT_ZERO)
}

/// Whether a leaf is a struct in Go.
fn is_go_struct(scalar: Scalar) -> bool {
    matches!(
        scalar,
        Scalar::Time
            | Scalar::MicroTime
            | Scalar::Duration
            | Scalar::Quantity
            | Scalar::IntOrString
            | Scalar::Raw
            | Scalar::Json
            | Scalar::FieldsV1
    )
}

/// Whether a struct holds nothing but structs that hold nothing.
fn is_zero_struct(value: &Value, schema: Schema<'_>) -> bool {
    let Value::Map(map) = value else { return value.is_null() };
    map.iter().all(|(key, value)| match schema.field(key) {
        Some(field) => !field.pointer() && is_zero_struct(value, field.schema()),
        None => true,
    })
}

/// Writes Go's zero value of a type.
fn write_zero(schema: Schema<'_>, out: &mut Vec<u8>) {
    let zero: &[u8] = match schema.ty() {
        Type::Struct(_) => return write_struct(&Map::new(), schema, out),
        Type::Scalar(scalar) => match scalar {
            Scalar::String => b"\"\"",
            Scalar::Bool => b"false",
            Scalar::Int32 | Scalar::Int64 | Scalar::Double | Scalar::IntOrString => b"0",
            Scalar::Quantity => b"\"0\"",
            Scalar::Duration => b"\"0s\"",
            _ => b"null",
        },
        Type::Union { other, .. } if schema.other(other.ty).scalar().is_some() => b"false",
        _ => b"null",
    };
    out.extend_from_slice(zero);
}
