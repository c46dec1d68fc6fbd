//! Defaults that are declared inside of an embedded resource's metadata.

use super::{Error, document};
use crate::prune::prune;
use crate::schema::{Scalar, Schema, Type};
use crate::value::{Map, Value};

/// Declared schema with only the defaults that fit the known type (upstream: PruneDefaults). `additionalProperties`
/// have none: validation forbids defaults there.
pub(super) fn known_defaults(
    declared: &Map,
    known: Schema<'_>,
    json: &dyn Fn(&str) -> Option<Value>,
) -> Result<Map, Error> {
    let mut schema = declared.clone();
    schema.remove("additionalProperties");
    if let Some(default) = schema.remove("default") {
        let mut default = document(&default, json)?;
        prune(&mut default, known);
        if fits(&default, known) && !default.is_empty() {
            schema.insert("default", default);
        }
    }
    let items = schema.remove("items");
    if let (Some(Value::Map(items)), Some(item)) = (items, known.item()) {
        schema.insert("items", known_defaults(&items, item, json)?.into());
    }
    if let Some(Value::Map(properties)) = schema.remove("properties") {
        let mut kept = Map::new();
        for (name, property) in properties.iter() {
            let known = known.field(name).map(|field| field.schema()).or(known.value());
            if let (Some(known), Some(property)) = (known, property.as_map()) {
                kept.insert(name, known_defaults(property, known, json)?.into());
            }
        }
        schema.insert("properties", kept.into());
    }
    Ok(schema)
}

/// Whether a value fits a built-in type.
fn fits(value: &Value, schema: Schema<'_>) -> bool {
    match (value, schema.ty()) {
        (Value::Map(map), Type::Struct(_)) => map.iter().all(|(name, value)| {
            schema.field(name).is_some_and(|field| value.is_null() || fits(value, field.schema()))
        }),
        (Value::Map(map), Type::Map { value: of, .. }) => {
            map.iter().all(|(_, value)| fits(value, schema.other(*of)))
        }
        (Value::List(list), Type::List { item, .. }) => {
            list.iter().all(|value| fits(value, schema.other(*item)))
        }
        (Value::String(_), Type::Scalar(Scalar::String | Scalar::Time)) => true,
        (Value::Bool(_), Type::Scalar(Scalar::Bool)) => true,
        (Value::Int(_), Type::Scalar(Scalar::Int64)) => true,
        _ => false,
    }
}
