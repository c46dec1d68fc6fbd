//! Custom kinds as OpenAPI schemas: whole, in place, with what their definitions say of structure.

use kevel_api::builtin;
use kevel_api::schema::{
    FieldFlags, List, Scalar, Schema, StructFlags, StructSchema, Type, TypeId,
};
use kevel_api::value::{Map, Value};

use super::component::{Component, Components, constant, list_type, plain_scalar, put, referring};
use super::tree::{list, object, strings};
use crate::resource::Resource;

impl<'r> Components<'r> {
    /// A custom kind.
    pub(super) fn custom(&mut self, row: &'r Resource) -> Value {
        let mut schema = self.inline(row.ty.schema());
        // That it is an object with a kind of its own goes without saying for a kind.
        schema.remove(EMBEDDED);
        schema.insert("x-kubernetes-group-version-kind", list([kind(row, "")]));
        Value::Map(schema)
    }

    /// A list of a custom kind.
    pub(super) fn custom_list(&mut self, row: &'r Resource) -> Value {
        let items =
            object([("type", "array".into()), ("items", self.reference(Component::Custom(row)))]);
        let metadata = builtin::schema("", "v1", "List").and_then(|list| list.field("metadata"));
        let mut properties = Map::from_iter([
            ("apiVersion", object([("type", "string".into())])),
            ("kind", object([("type", "string".into())])),
            ("items", items),
        ]);
        if let Some(metadata) = metadata {
            let reference = self.reference(Component::BuiltIn(metadata.schema()));
            properties.insert("metadata", Value::Map(referring(reference, None)));
        }
        object([
            ("type", "object".into()),
            ("required", strings(["items"])),
            ("properties", Value::Map(properties)),
            ("x-kubernetes-group-version-kind", list([kind(row, "List")])),
        ])
    }

    /// The schema of a type of a custom kind, in place.
    fn inline(&mut self, schema: Schema<'r>) -> Map {
        match schema.ty() {
            Type::Struct(_) if std::ptr::eq(schema.table(), builtin::table()) => {
                referring(self.reference(Component::BuiltIn(builtin_schema(schema.id()))), None)
            }
            Type::Struct(entry) => {
                let mut out = Map::from_iter([("type", "object".into())]);
                let mut properties = Map::new();
                let fields = schema.as_struct();
                for field in fields.into_iter().flat_map(StructSchema::fields) {
                    let mut property = self.inline(field.schema());
                    if field.flags().has(FieldFlags::NULLABLE) {
                        property.insert("nullable", true.into());
                    }
                    if let Some(default) = field.default() {
                        property.insert("default", constant(schema.table(), default.value));
                    }
                    put(&mut property, "enum", strings(field.values()));
                    properties.insert(field.key(), Value::Map(property));
                }
                put(&mut out, "properties", Value::Map(properties));
                let required = fields.into_iter().flat_map(StructSchema::fields);
                let required = required.filter(|field| field.required());
                put(&mut out, "required", strings(required.map(|field| field.name().to_owned())));
                for (flag, name) in CUSTOM_FLAGS {
                    if entry.flags.has(flag) {
                        out.insert(name, true.into());
                    }
                }
                if entry.flags.has(StructFlags::ATOMIC) {
                    out.insert("x-kubernetes-map-type", "atomic".into());
                }
                out
            }
            Type::List { item, list, .. } => {
                let items = self.inline(schema.other(*item));
                let mut out =
                    Map::from_iter([("type", "array".into()), ("items", Value::Map(items))]);
                if *list != List::Atomic {
                    list_type(&mut out, schema, *list);
                }
                out
            }
            Type::Map { value, .. } => {
                let values = Value::Map(self.inline(schema.other(*value)));
                Map::from_iter([("type", "object".into()), ("additionalProperties", values)])
            }
            Type::Scalar(Scalar::IntOrString) => {
                Map::from_iter([("x-kubernetes-int-or-string", true.into())])
            }
            Type::Scalar(scalar) => plain_scalar(*scalar),
            Type::Union { .. } | Type::Any => {
                Map::from_iter([("x-kubernetes-preserve-unknown-fields", true.into())])
            }
        }
    }
}

const EMBEDDED: &str = "x-kubernetes-embedded-resource";

const CUSTOM_FLAGS: [(u8, &str); 2] = [
    (StructFlags::PRESERVE_UNKNOWN, "x-kubernetes-preserve-unknown-fields"),
    (StructFlags::EMBEDDED, EMBEDDED),
];

fn kind(row: &Resource, suffix: &str) -> Value {
    object([
        ("group", row.kind.group.as_str().into()),
        ("version", row.kind.version.as_str().into()),
        ("kind", format!("{}{suffix}", row.kind.kind).as_str().into()),
    ])
}

fn builtin_schema(id: TypeId) -> Schema<'static> {
    Schema::new(builtin::table(), id)
}
