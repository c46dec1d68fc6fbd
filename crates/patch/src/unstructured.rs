//! JSON trees of objects: the encoder's output as a value (upstream: ToUnstructured).

use compact_str::CompactString;
use kevel_api::schema::{Field, List, Scalar, Schema, Type};
use kevel_api::value::{Map, Value};
use kevel_codec::json::{Unknown, decode_any};
use thin_vec::ThinVec;

use crate::zip::zip;

/// Tree of an object as clients see it: with the zero values that the encoder writes, and with embedded documents as
/// trees. Patches and field ownership use this tree.
///
/// ```
/// use kevel_api::{builtin, value::{Map, Value}};
/// let pod = builtin::schema("", "v1", "Pod").unwrap();
/// let tree = kevel_patch::unstructured(&Value::Map(Map::new()), pod);
/// assert_eq!(tree.at(&["spec", "containers"]), Some(&Value::Null));
/// ```
pub fn unstructured(value: &Value, schema: Schema<'_>) -> Value {
    build(value, schema, Fields::Tree)
}

/// Tree of an object in which the field sets of `managedFields` stay text, which suffices for field ownership, merge
/// patches and strategic merge patches.
pub fn unstructured_but_fields(value: &Value, schema: Schema<'_>) -> Value {
    build(value, schema, Fields::Text)
}

/// Treatment of FieldsV1, the largest documents inside objects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fields {
    Tree,
    Text,
    /// As text; atomic lists stay typed values, because the reference distinguishes empty and nil lists in comparisons,
    /// which a tree does not.
    Compared,
}

fn build(value: &Value, schema: Schema<'_>, fields: Fields) -> Value {
    match (schema.ty(), value) {
        (Type::Scalar(Scalar::FieldsV1), _) if fields != Fields::Tree => value.clone(),
        (Type::List { list: List::Atomic, .. }, Value::List(_)) if fields == Fields::Compared => {
            value.clone()
        }
        (_, Value::Raw(text)) => {
            decode_any(text.as_bytes(), Unknown::Ignore).map_or(Value::Null, |read| read.value)
        }
        (Type::Struct(_), Value::Map(map)) if schema.is_custom() => {
            let entries = map.iter().map(|(key, value)| {
                let value = match schema.field(key) {
                    Some(field) => build(value, field.schema(), fields),
                    None => value.clone(),
                };
                (CompactString::new(key), value)
            });
            Value::Map(Map::from_sorted(entries.collect()))
        }
        (Type::Struct(_), Value::Map(map)) => Value::Map(structure(map, schema, fields)),
        (Type::List { item, .. }, Value::List(items)) => {
            let item = schema.other(*item);
            Value::List(items.iter().map(|value| build(value, item, fields)).collect())
        }
        (Type::Map { value: element, .. }, Value::Map(map)) => {
            let element = schema.other(*element);
            let entries = map.entries().iter();
            let entries = entries.map(|(key, value)| (key.clone(), build(value, element, fields)));
            Value::Map(Map::from_sorted(entries.collect()))
        }
        (Type::Union { object, .. }, Value::Map(_)) => {
            build(value, schema.other(object.ty), fields)
        }
        // The reference does not distinguish an empty list from an absent one here.
        (Type::Union { .. }, Value::List(items)) if items.is_empty() => Value::Null,
        (Type::Union { other, .. }, _) => build(value, schema.other(other.ty), fields),
        _ => value.clone(),
    }
}

/// Trees of two objects of a built-in type, without fields that are equal in both: a comparison need not build the
/// parts that most writes leave alone.
pub(crate) fn unstructured_differences(
    old: &Value,
    new: &Value,
    schema: Schema<'_>,
) -> (Value, Value) {
    differences(old, new, schema, MAX_COMPARED)
}

/// Limit on the levels of structs that are compared: each level compares everything below it again.
const MAX_COMPARED: usize = 8;

fn differences(old: &Value, new: &Value, schema: Schema<'_>, levels: usize) -> (Value, Value) {
    let (Value::Map(a), Value::Map(b), Some(structure)) = (old, new, schema.as_struct()) else {
        return (build(old, schema, Fields::Compared), build(new, schema, Fields::Compared));
    };
    let (mut before, mut after) = (ThinVec::new(), ThinVec::new());
    for (key, old, new) in zip(Some(a), Some(b)) {
        if old == new {
            continue;
        }
        let Some(field) = structure.field(key) else { continue };
        let inside = matches!(field.schema().ty(), Type::Struct(_)) && !field.omit_zero();
        let (old, new) = match (old, new) {
            (Some(old), Some(new)) if inside && levels > 0 => {
                let (old, new) = differences(old, new, field.schema(), levels - 1);
                (Some(old), Some(new))
            }
            _ => (written(field, old, Fields::Compared), written(field, new, Fields::Compared)),
        };
        before.extend(old.map(|value| (field.key(), value)));
        after.extend(new.map(|value| (field.key(), value)));
    }
    (Value::Map(Map::from_sorted(before)), Value::Map(Map::from_sorted(after)))
}

fn structure(map: &Map, schema: Schema<'_>, fields: Fields) -> Map {
    let Some(structure) = schema.as_struct() else { return Map::new() };
    let entries = map.entries();
    let mut tree = ThinVec::with_capacity(map.len() + 4);
    structure.for_each_field(entries, |index, _, entry| {
        let Some(field) = structure.field_at(index) else { return };
        let value = entry.and_then(|entry| entries.get(entry)).map(|(_, value)| value);
        tree.extend(written(field, value, fields).map(|value| (field.key(), value)));
    });
    Map::from_sorted(tree)
}

/// Written form of a field, if the encoder writes it.
fn written(field: Field<'_>, value: Option<&Value>, fields: Fields) -> Option<Value> {
    field.is_written(value).then(|| match value {
        Some(value) => build(value, field.schema(), fields),
        None if field.pointer() => Value::Null,
        None => zero(field.schema()),
    })
}

/// Go's zero value of a type, as the encoder writes it.
pub(crate) fn zero(schema: Schema<'_>) -> Value {
    match schema.ty() {
        Type::Struct(_) => Value::Map(structure(&Map::new(), schema, Fields::Text)),
        Type::Scalar(scalar) => match scalar {
            Scalar::String => Value::from(""),
            Scalar::Bool => Value::Bool(false),
            Scalar::Int32 | Scalar::Int64 | Scalar::Double | Scalar::IntOrString => Value::Int(0),
            Scalar::Quantity => Value::from("0"),
            Scalar::Duration => Value::from("0s"),
            _ => Value::Null,
        },
        Type::Union { other, .. } if schema.other(other.ty).scalar().is_some() => {
            Value::Bool(false)
        }
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevel_api::builtin;
    use kevel_codec::json;

    /// The tree and the encoder agree on every kind.
    #[test]
    fn is_what_the_encoder_writes() {
        for kind in builtin::kinds() {
            let schema = kind.schema();
            let empty = Value::Map(Map::new());
            let (mut wire, mut tree) = (Vec::new(), Vec::new());
            json::encode(&empty, schema, &mut wire);
            let read = json::decode_any(&wire, Unknown::Ignore).unwrap().value;
            wire.clear();
            json::encode_any(&read, &mut wire);
            json::encode_any(&unstructured(&empty, schema), &mut tree);
            assert_eq!(String::from_utf8(tree), String::from_utf8(wire), "{}", kind.name);
        }
    }
}
