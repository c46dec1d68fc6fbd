//! Declared types of custom resources, from their OpenAPI schemas.

use std::sync::Arc;

use kevel_api::value::Value as Tree;

use super::{DeclKind, DeclType, ListKind, MAX_REQUEST_SIZE, ObjectType, escape};
use crate::types::Type;

impl DeclType {
    /// Type of a structural OpenAPI schema (the tree of a `JSONSchemaProps`); `None` if expressions cannot access its
    /// values. With `is_root` the schema is that of a resource, which always has `apiVersion`, `kind` and `metadata`.
    pub fn from_json_schema(name: &str, schema: &Tree, is_root: bool) -> Option<DeclType> {
        let max_length = number(schema, "maxLength");
        if flag(schema, "x-kubernetes-int-or-string") {
            let max = max_length.map_or(MAX_REQUEST_SIZE - 2, |max| max * 4);
            return Some(nullable(
                DeclType::of(DeclKind::IntOrString, 1).with_max_elements(max),
                schema,
            ));
        }
        let declared = match schema.str_at(&["type"]) {
            "array" => list(name, schema)?,
            "object" => object(name, schema, is_root)?,
            "string" => string(schema, max_length),
            "boolean" => DeclType::simple(Type::Bool).with_max_elements(0),
            "number" => DeclType::simple(Type::Double).with_max_elements(0),
            "integer" => DeclType::simple(Type::Int).with_max_elements(0),
            _ => return None,
        };
        Some(nullable(declared, schema))
    }
}

fn nullable(mut declared: DeclType, schema: &Tree) -> DeclType {
    declared.nullable = flag(schema, "nullable");
    declared
}

fn flag(schema: &Tree, name: &str) -> bool {
    schema.at(&[name]).and_then(Tree::as_bool).unwrap_or(false)
}

/// Numeric bound; negative ones count as zero.
fn number(schema: &Tree, name: &str) -> Option<u64> {
    schema.at(&[name])?.as_int().map(|max| u64::try_from(max).unwrap_or(0))
}

fn list(name: &str, schema: &Tree) -> Option<DeclType> {
    let items = schema.at(&["items"])?;
    let embedded = flag(items, "x-kubernetes-embedded-resource");
    let element = DeclType::from_json_schema(&format!("{name}.@idx"), items, embedded)?;
    let max = number(schema, "maxItems");
    let max = max.unwrap_or((MAX_REQUEST_SIZE - 2) / (element.min_size + 1));
    let list = match schema.str_at(&["x-kubernetes-list-type"]) {
        "set" => ListKind::Set,
        "map" => {
            let keys = schema.at(&["x-kubernetes-list-map-keys"]).and_then(Tree::as_list);
            let keys = keys.unwrap_or_default().iter().filter_map(Tree::as_str);
            ListKind::Map(keys.map(str::to_owned).collect())
        }
        _ => ListKind::Atomic,
    };
    Some(DeclType::of(DeclKind::List { element: element.into(), list }, 2).with_max_elements(max))
}

fn object(name: &str, schema: &Tree, is_root: bool) -> Option<DeclType> {
    if let Some(values @ Tree::Map(_)) = schema.at(&["additionalProperties"]) {
        let embedded = flag(values, "x-kubernetes-embedded-resource");
        let value = DeclType::from_json_schema(&format!("{name}.@elem"), values, embedded)?;
        let max = number(schema, "maxProperties");
        let max = max.unwrap_or((MAX_REQUEST_SIZE - 2) / (value.min_size + 6));
        // The size of keys is unknown, which counts as zero in the reference.
        let key = Arc::new(DeclType::string().with_max_elements(0));
        let kind = DeclKind::Map { key, value: value.into() };
        return Some(DeclType::of(kind, 2).with_max_elements(max));
    }
    let required = schema.at(&["required"]).and_then(Tree::as_list).unwrap_or_default();
    let mut object = ObjectType { name: name.into(), fields: Default::default(), open: false };
    let mut min_size = 2;
    let properties = schema.at(&["properties"]).and_then(Tree::as_map);
    for (field, property) in properties.into_iter().flat_map(|map| map.iter()) {
        let escaped = escape(field);
        let path = format!("{name}.{}", escaped.as_deref().unwrap_or(field));
        let embedded = flag(property, "x-kubernetes-embedded-resource");
        let Some(ty) = DeclType::from_json_schema(&path, property, embedded) else { continue };
        let is_required = required.iter().any(|name| name.as_str() == Some(field));
        if is_required && property.at(&["default"]).is_none() {
            min_size += field.len() as u64 + ty.min_size + 4;
        }
        if let Some(escaped) = escaped {
            object.fields.insert(escaped.into(), Arc::new(ty));
        }
    }
    if is_root {
        add_type_and_object_meta(&mut object);
    }
    Some(DeclType::of(DeclKind::Object(object.into()), min_size).with_max_elements(0))
}

/// Adds the fields of every resource: `apiVersion`, `kind` and parts of `metadata`.
fn add_type_and_object_meta(object: &mut ObjectType) {
    let text = || DeclType::string().with_max_elements(MAX_REQUEST_SIZE - 2);
    let metadata = DeclType::object(
        &format!("{}.metadata", object.name),
        [("name", text()), ("generateName", text())],
    );
    for (name, ty) in [("kind", text()), ("apiVersion", text()), ("metadata", metadata)] {
        object.fields.insert(name.into(), ty.into());
    }
}

fn string(schema: &Tree, max_length: Option<u64>) -> DeclType {
    let longest = MAX_REQUEST_SIZE - 2;
    match schema.str_at(&["format"]) {
        "byte" => DeclType::simple(Type::Bytes).with_max_elements(max_length.unwrap_or(longest)),
        "duration" => DeclType::simple(Type::Duration).with_max_elements(32),
        "date" => DeclType::of(DeclKind::Date, 12).with_max_elements(12),
        "date-time" => DeclType::of(DeclKind::Simple(Type::Timestamp), 21).with_max_elements(32),
        _ => {
            let values = schema.at(&["enum"]).and_then(Tree::as_list).unwrap_or_default();
            let longest_value =
                values.iter().filter_map(Tree::as_str).map(|v| v.len() as u64).max();
            let max = max_length.map(|max| max.saturating_mul(4)).or(longest_value);
            DeclType::string().with_max_elements(max.unwrap_or(longest))
        }
    }
}
