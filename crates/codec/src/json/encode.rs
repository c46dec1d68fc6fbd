//! JSON encoder: the bytes that the reference writes, without a line break at the end.

use kevel_api::json_string::write_json_string;
use kevel_api::schema::{Field, FieldFlags, MAX_FIELDS, Scalar, Schema, Type};
use kevel_api::value::{Map, Value};

use super::float::{write_float, write_int};
use super::raw::write_raw;

/// Appends a value of the given type: a built-in struct's fields in the reference's order, with the empty fields that
/// it writes; everything else with sorted keys.
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
        (Type::Union { object, .. }, Value::Map(_)) => {
            encode(value, schema.other(object.ty), out);
        }
        // The reference does not distinguish an empty list from an absent one here.
        (Type::Union { .. }, Value::List(items)) if items.is_empty() => {
            out.extend_from_slice(b"null");
        }
        (Type::Union { other, .. }, _) => encode(value, schema.other(other.ty), out),
        (Type::Scalar(Scalar::Double), Value::Int(int)) => write_float(*int as f64, out),
        _ => encode_any(value, out),
    }
}

/// Appends an untyped value, its maps with sorted keys.
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
        kevel_compute::charge(1);
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
        kevel_compute::charge(1);
        if i > 0 {
            out.push(b',');
        }
        write_json_string(out, key);
        out.push(b':');
        write(value, out);
    }
    out.push(b'}');
}

/// Slot in the written order: the field there, and its entry in the map.
#[derive(Clone, Copy)]
struct Slot {
    field: u16,
    entry: u16,
}

impl Slot {
    const EMPTY: Slot = Slot { field: 0, entry: u16::MAX };
}

fn write_struct(map: &Map, schema: Schema<'_>, out: &mut Vec<u8>) {
    let Some(structure) = schema.as_struct() else { return };
    kevel_compute::charge(1);
    let entries = map.entries();
    let mut slots = [Slot::EMPTY; MAX_FIELDS];
    // A bit for each slot that is written.
    let mut written = 0u64;
    structure.for_each_field(entries, |index, field, entry| {
        if entry.is_none() && !field.flags.has(FieldFlags::WRITTEN_EMPTY) {
            return;
        }
        let rank = usize::from(field.rank);
        if let Some(slot) = slots.get_mut(rank) {
            slot.field = index as u16;
            slot.entry = entry.map_or(u16::MAX, |entry| entry as u16);
            written |= 1 << rank;
        }
    });
    out.push(b'{');
    let start = out.len();
    while written != 0 {
        let slot = slots[written.trailing_zeros() as usize];
        written &= written - 1;
        let Some(field) = structure.field_at(slot.field.into()) else { continue };
        let value = entries.get(usize::from(slot.entry)).map(|(_, value)| value);
        write_field(field, value, start, out);
    }
    out.push(b'}');
}

/// Writes a field if the reference does; `start` is the position of the struct's first field.
fn write_field(field: Field<'_>, value: Option<&Value>, start: usize, out: &mut Vec<u8>) {
    let schema = field.schema();
    let Some(value) = value else {
        write_name(field, start, out);
        return match field.pointer() {
            true => out.extend_from_slice(b"null"),
            false => write_zero(schema, out),
        };
    };
    if !is_written(field, value) {
        return;
    }
    write_name(field, start, out);
    match (schema.ty(), value) {
        // Most fields are strings.
        (Type::Scalar(_), Value::String(text)) => write_json_string(out, text),
        (Type::Struct(_), Value::Map(map)) => write_struct(map, schema, out),
        _ => encode(value, schema, out),
    }
}

/// Whether the reference writes a field with this value.
#[inline]
pub(crate) fn is_written(field: Field<'_>, value: &Value) -> bool {
    let schema = field.schema();
    field.pointer()
        || match schema.ty() {
            Type::Struct(_) => !(field.omit_zero() && schema.is_zero_struct(value)),
            Type::Scalar(scalar) if (*scalar).is_go_struct() => true,
            _ => field.always() || !value.is_empty(),
        }
}

#[inline]
fn write_name(field: Field<'_>, start: usize, out: &mut Vec<u8>) {
    let first = out.len() == start;
    // Names of built-in fields need no escapes.
    match field.json_name() {
        Some(name) => out.extend_from_slice(if first { &name[1..] } else { name }),
        None => {
            out.extend_from_slice(if first { b"\"" } else { b",\"" });
            out.extend_from_slice(field.name().as_bytes());
            out.extend_from_slice(b"\":");
        }
    }
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
