//! Random changes of objects, by their types: fields that are set, set wrongly, removed or invented.

use kevel_api::schema::{Field, FieldFlags, Scalar, Schema, Type};
use serde_json::{Map, Value, json};

use super::source::Source;

/// Texts for fields of any meaning: valid names, invalid ones, and values of some fields.
const TEXTS: [&str; 14] = [
    "",
    "a",
    "b-1",
    "Bad_Name!",
    "x.example.com/y",
    "a/b/c",
    "10.0.0.1",
    "10.0.0.0/8",
    "::1",
    "Always",
    "True",
    "abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz-abcdefghijklmnop",
    "1Gi",
    " ",
];
const NUMBERS: [i64; 9] = [-1, 0, 1, 7, 80, 65_536, 1 << 31, -(1 << 40), 1 << 40];
const QUANTITIES: [&str; 8] = ["1", "500m", "1Gi", "-1", "1.5", "0", "x", "1e3"];
const TIMES: [&str; 4] = ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456Z", "yesterday", ""];
const DURATIONS: [&str; 4] = ["1m", "-5s", "0s", "1 hour"];
const BASE64: [&str; 3] = ["AAEC", "", "!"];

/// Limit on the depth of invented values.
const DEPTH: usize = 3;

/// Changes one place of an object.
pub fn mutate(object: &mut Value, schema: Schema<'_>, source: &mut Source) {
    match (schema.ty(), object) {
        (Type::Struct(_), Value::Object(fields)) => mutate_struct(fields, schema, source),
        (Type::List { item, .. }, Value::Array(items)) => {
            let item = schema.other(*item);
            let place = source.below(items.len());
            match source.below(6) {
                0 => items.push(made(item, None, DEPTH, source)),
                1 if !items.is_empty() => drop(items.remove(place)),
                2 if !items.is_empty() => items.push(items[place].clone()),
                _ => match items.get_mut(place) {
                    Some(item_value) => mutate(item_value, item, source),
                    None => items.push(made(item, None, DEPTH, source)),
                },
            }
        }
        (Type::Map { value, .. }, Value::Object(entries)) => {
            let key = source.one(&TEXTS).copied().unwrap_or_default().to_owned();
            entries.insert(key, made(schema.other(*value), None, DEPTH, source));
        }
        (_, value) => *value = made(schema, None, DEPTH, source),
    }
}

fn mutate_struct(fields: &mut Map<String, Value>, schema: Schema<'_>, source: &mut Source) {
    let Some(structure) = schema.as_struct() else { return };
    // Generated names differ between servers, and an object of another kind is refused early.
    let kept = |field: &Field<'_>| {
        field.name() != "generateName" && !field.flags().has(FieldFlags::TYPE_META)
    };
    let known: Vec<Field<'_>> = structure.fields().filter(kept).collect();
    let there: Vec<Field<'_>> =
        known.iter().copied().filter(|field| fields.contains_key(field.name())).collect();
    let inside = |field: &&Field<'_>| !matches!(field.schema().ty(), Type::Scalar(_));
    let inner: Vec<&Field<'_>> = there.iter().filter(inside).collect();
    // Most relevant fields are further inside.
    if let Some(field) = source.one(&inner).filter(|_| !inner.is_empty()).copied()
        && source.percent(70)
        && let Some(value) = fields.get_mut(field.name())
    {
        return mutate(value, field.schema(), source);
    }
    match source.below(10) {
        0 => drop(fields.insert("bogus".to_owned(), json!(1))),
        1 | 2 => {
            if let Some(field) = source.one(&there) {
                fields.remove(field.name());
            }
        }
        3 => {
            if let Some(field) = source.one(&there) {
                fields.insert(field.name().to_owned(), wrong(source));
            }
        }
        _ => {
            if let Some(field) = source.one(&known) {
                let value = made(field.schema(), Some(*field), DEPTH, source);
                fields.insert(field.name().to_owned(), value);
            }
        }
    }
}

/// Value of a random type, which is rarely that of the field.
fn wrong(source: &mut Source) -> Value {
    let values =
        [json!(null), json!(true), json!(-3), json!(1.5), json!("x"), json!([1]), json!({"a": 1})];
    source.one(&values).cloned().unwrap_or_default()
}

/// Value of a type, usually.
fn made(schema: Schema<'_>, field: Option<Field<'_>>, depth: usize, source: &mut Source) -> Value {
    if source.percent(6) {
        return wrong(source);
    }
    match schema.ty() {
        Type::Struct(_) if depth == 0 => json!({}),
        Type::Struct(_) => {
            let fields: Vec<Field<'_>> =
                schema.as_struct().map(|s| s.fields().collect()).unwrap_or_default();
            let chosen =
                |field: &Field<'_>, source: &mut Source| field.required() || source.percent(25);
            let mut object = Map::new();
            for field in fields {
                if chosen(&field, source) {
                    let value = made(field.schema(), Some(field), depth - 1, source);
                    object.insert(field.name().to_owned(), value);
                }
            }
            Value::Object(object)
        }
        Type::List { item, .. } => {
            let count = source.below(3).min(depth);
            let item = schema.other(*item);
            (0..count).map(|_| made(item, field, depth.saturating_sub(1), source)).collect()
        }
        Type::Map { value, .. } => {
            let key = source.one(&TEXTS).copied().unwrap_or_default();
            json!({key: made(schema.other(*value), None, depth.saturating_sub(1), source)})
        }
        Type::Scalar(scalar) => scalar_value(*scalar, field, source),
        Type::Union { other, .. } => made(schema.other(other.ty), None, depth, source),
        Type::Any => wrong(source),
    }
}

fn scalar_value(scalar: Scalar, field: Option<Field<'_>>, source: &mut Source) -> Value {
    let one = |texts: &[&str], source: &mut Source| json!(source.one(texts));
    match scalar {
        Scalar::String => {
            let known: Vec<&str> = field.map(|field| field.values().collect()).unwrap_or_default();
            match known.is_empty() || source.percent(20) {
                true => one(&TEXTS, source),
                false => one(&known, source),
            }
        }
        Scalar::Bool => json!(source.percent(50)),
        Scalar::Int32 | Scalar::Int64 | Scalar::Integer => json!(source.one(&NUMBERS)),
        Scalar::Double | Scalar::Number => json!(1.25),
        Scalar::Quantity => one(&QUANTITIES, source),
        Scalar::Time | Scalar::MicroTime => one(&TIMES, source),
        Scalar::Duration => one(&DURATIONS, source),
        Scalar::Bytes => one(&BASE64, source),
        Scalar::IntOrString => match source.percent(50) {
            true => json!(source.one(&NUMBERS)),
            false => json!("25%"),
        },
        Scalar::Raw | Scalar::Json | Scalar::FieldsV1 => json!({"b": 1, "a": [2.5, null]}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_its_changes() {
        let pod = kevel_api::builtin::schema("", "v1", "Pod").unwrap();
        let base = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}});
        let changed = |seed| {
            let mut object = base.clone();
            mutate(&mut object, pod, &mut Source::new(seed));
            object
        };
        let different = (0..100).filter(|seed| changed(*seed) != base).count();
        assert!(different > 80, "{different} of 100 changed");
        assert!((0..100).all(|seed| changed(seed) == changed(seed)));
    }
}
