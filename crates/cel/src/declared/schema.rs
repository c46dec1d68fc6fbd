//! Declared types from schema tables, above all of built-in kinds.

use std::sync::Arc;

use kevel_api::schema::{Scalar, Schema, StructFlags};

use super::{DeclKind, DeclType, ListKind, MAX_REQUEST_SIZE, ObjectType, escape};
use crate::types::Type;

/// Limit on the nesting of types; `JSONSchemaProps` contains itself.
const MAX_DEPTH: usize = 32;

impl DeclType {
    /// Declared type of a kind. `name` is the name of its object type; inner types are named by their fields:
    /// `name.spec`, `name.spec.containers.@idx`.
    pub fn from_schema(name: &str, schema: Schema<'_>) -> DeclType {
        declare(name, schema, 0)
    }
}

fn declare(name: &str, schema: Schema<'_>, depth: usize) -> DeclType {
    let dynamic = || DeclType::simple(Type::Dyn);
    if depth > MAX_DEPTH {
        return dynamic();
    }
    if let Some(item) = schema.item() {
        let element = declare(&format!("{name}.@idx"), item, depth + 1);
        let list = match schema.list_keys() {
            Some(keys) => ListKind::Map(keys.map(str::to_owned).collect()),
            None => ListKind::Atomic,
        };
        let max = (MAX_REQUEST_SIZE - 2) / (element.min_size + 1);
        return DeclType::of(DeclKind::List { element: element.into(), list }, 2)
            .with_max_elements(max);
    }
    if let Some(value) = schema.value() {
        let value = declare(&format!("{name}.@elem"), value, depth + 1);
        let max = (MAX_REQUEST_SIZE - 2) / (value.min_size + 6);
        return DeclType::map(value).with_max_elements(max);
    }
    if let Some(scalar) = schema.scalar() {
        return of_scalar(scalar);
    }
    let Some(object) = schema.as_struct() else { return dynamic() };
    if object.flags().has(StructFlags::PRESERVE_UNKNOWN) && object.entries().is_empty() {
        return dynamic();
    }
    let mut min_size = 2;
    let fields = object.fields().filter_map(|field| {
        let escaped = escape(field.name())?;
        let ty = declare(&format!("{name}.{escaped}"), field.schema(), depth + 1);
        if field.required() && field.default().is_none() {
            min_size += field.name().len() as u64 + ty.min_size + 4;
        }
        Some((escaped.into(), Arc::new(ty)))
    });
    let fields = fields.collect();
    let object = ObjectType { name: name.into(), fields, open: false };
    DeclType::of(DeclKind::Object(Arc::new(object)), min_size)
}

fn of_scalar(scalar: Scalar) -> DeclType {
    let longest = MAX_REQUEST_SIZE - 2;
    match scalar {
        Scalar::String | Scalar::Quantity => DeclType::string().with_max_elements(longest),
        Scalar::Bool => DeclType::simple(Type::Bool),
        Scalar::Int32 | Scalar::Int64 | Scalar::Integer => DeclType::simple(Type::Int),
        Scalar::Double | Scalar::Number => DeclType::simple(Type::Double),
        Scalar::Bytes => DeclType::simple(Type::Bytes).with_max_elements(longest),
        Scalar::Time | Scalar::MicroTime => DeclType::simple(Type::Timestamp).with_max_elements(32),
        Scalar::Duration => DeclType::string().with_max_elements(longest),
        Scalar::IntOrString => DeclType::of(DeclKind::IntOrString, 1).with_max_elements(longest),
        Scalar::Raw | Scalar::Json | Scalar::FieldsV1 => DeclType::simple(Type::Dyn),
    }
}
