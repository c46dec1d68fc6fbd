//! OpenAPI schemas of custom resources, from their CustomResourceDefinitions.

use kevel_api::builtin;
use kevel_api::value::{Map, Value};
use kevel_codec::json;

use super::component::{Component, Components, put, referring};
use super::tree::{list, object, strings};
use kevel_registry::resource::Resource;

/// A kind whose field descriptions hold for all kinds.
const TYPICAL: &str = "io.k8s.api.core.v1.Pod";
const TYPICAL_LIST: &str = "io.k8s.api.core.v1.PodList";

const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const PRESERVE_UNKNOWN: &str = "x-kubernetes-preserve-unknown-fields";

/// Keywords that are published as they are. Others are descended into, or left out.
const SCALARS: [&str; 25] = [
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "maxProperties",
    "minProperties",
    "required",
    "externalDocs",
    EMBEDDED,
    INT_OR_STRING,
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];
const DOCUMENTS: [&str; 2] = ["default", "example"];
const ALTERNATIVES: [&str; 3] = ["allOf", "anyOf", "oneOf"];

impl<'r> Components<'r> {
    /// Schema of a custom resource.
    pub(super) fn defined(&mut self, row: &'r Resource) -> Value {
        let said = row.conventions.published.definition().map(AsRef::as_ref).unwrap_or_default();
        let said = json::decode_any(said, json::Unknown::Ignore).map(|read| read.value);
        let empty = Map::new();
        let said = said.as_ref().ok().and_then(Value::as_map).unwrap_or(&empty);
        // A client of OpenAPI 2 would reject fields that are not in the schema.
        let open = said.is_empty()
            || self.is_v2() && (flag(said, PRESERVE_UNKNOWN) || row.strategy.preserves_unknown())
            || !row.strategy.is_structural();
        let mut out = match open {
            true => Map::from_iter([("type", "object".into())]),
            false => {
                let mut out = self.published(said);
                self.add_object_fields(&mut out, true);
                out
            }
        };
        out.insert("x-kubernetes-group-version-kind", list([kind(row, &row.kind.kind)]));
        put(&mut out, "x-kubernetes-selectable-fields", selectable_fields(row));
        Value::Map(out)
    }

    /// Schema of a custom resource's list.
    pub(super) fn defined_list(&mut self, row: &'r Resource) -> Value {
        let list_kind = &row.list_kind;
        let items = object([
            (
                "description",
                format!("List of {}. More info: {CONVENTIONS}", row.plural).as_str().into(),
            ),
            ("type", "array".into()),
            ("items", self.reference(Component::Defined(row))),
        ]);
        let mut properties = Map::from_iter([("items", items)]);
        for field in ["apiVersion", "kind"] {
            properties.insert(field, self.text_field(field));
        }
        let metadata = builtin::schema("", "v1", "List").and_then(|list| list.field("metadata"));
        if let Some(metadata) = metadata {
            let reference = self.reference(Component::BuiltIn(metadata.schema()));
            let mut property = referring(reference, None);
            self.describe_as(&mut property, TYPICAL_LIST, "metadata");
            properties.insert("metadata", Value::Map(property));
        }
        let description = format!("{list_kind} is a list of {}", row.kind.kind);
        let mut out = Map::from_iter([
            ("description", description.as_str().into()),
            ("type", "object".into()),
            ("required", strings(["items"])),
            ("properties", Value::Map(properties)),
            ("x-kubernetes-group-version-kind", list([kind(row, list_kind)])),
        ]);
        put(&mut out, "x-kubernetes-selectable-fields", selectable_fields(row));
        Value::Map(out)
    }

    /// The published part of a schema.
    fn published(&mut self, said: &Map) -> Map {
        let v2 = self.is_v2();
        let nullable = flag(said, "nullable");
        let preserves = flag(said, PRESERVE_UNKNOWN);
        // Clients of OpenAPI 2 support neither together with other keywords.
        let bare = v2 && (nullable || preserves);
        let mut out = Map::new();
        for (key, value) in said.iter() {
            let told = match (key, value) {
                ("type", Value::String(ty)) => {
                    let open = nullable || preserves && ty == "object";
                    let list = ty == "array" && (bare || !said.contains_key("items"));
                    (!v2 || !open && !list).then(|| value.clone())
                }
                ("nullable", _) if v2 => None,
                ("required", _) if v2 => self.required(said),
                (PRESERVE_UNKNOWN, _) => preserves.then_some(Value::Bool(true)),
                ("properties" | "items", _) if bare => None,
                ("properties", Value::Map(fields)) => {
                    let fields = fields.iter().map(|(name, field)| (name, self.schema_of(field)));
                    Some(Value::Map(fields.collect()))
                }
                ("items" | "additionalProperties", Value::Map(_)) => Some(self.schema_of(value)),
                ("additionalProperties", Value::Bool(_)) => Some(value.clone()),
                ("enum", Value::List(values)) => Some(list(values.iter().map(document))),
                ("x-kubernetes-validations", _) => Some(value.clone()),
                ("not", _) if !v2 => Some(self.schema_of(value)),
                (key, Value::List(schemas)) if ALTERNATIVES.contains(&key) => {
                    (!v2).then(|| list(schemas.iter().map(|schema| self.schema_of(schema))))
                }
                (key, value) if DOCUMENTS.contains(&key) => Some(document(value)),
                (key, value) if SCALARS.contains(&key) => Some(value.clone()),
                _ => None,
            };
            if let Some(told) = told {
                out.insert(key, told);
            }
        }
        if !v2 && flag(said, INT_OR_STRING) && !said.contains_key("anyOf") {
            let types = ["integer", "string"].map(|ty| object([("type", ty.into())]));
            out.insert("anyOf", list(types));
        }
        if flag(said, EMBEDDED) && !(v2 && preserves) {
            self.add_object_fields(&mut out, false);
        }
        out
    }

    fn schema_of(&mut self, said: &Value) -> Value {
        said.as_map().map_or(Value::Null, |said| Value::Map(self.published(said)))
    }

    /// Required fields, without nullable ones.
    fn required(&self, said: &Map) -> Option<Value> {
        let property = |name: &str| said.get("properties")?.as_map()?.get(name)?.as_map();
        let names = said.get("required").and_then(Value::as_list).unwrap_or_default();
        let named = names.iter().filter(|name| {
            let property = name.as_str().and_then(property);
            !property.is_some_and(|property| flag(property, "nullable"))
        });
        Some(list(named.cloned())).filter(|names| !names.is_empty())
    }

    /// Adds the fields that every object has: apiVersion, kind and metadata.
    fn add_object_fields(&mut self, schema: &mut Map, root: bool) {
        let mut added: Vec<(&str, Value)> = Vec::new();
        for field in ["apiVersion", "kind"] {
            added.push((field, self.text_field(field)));
        }
        let metadata = builtin::schema("", "v1", "Pod").and_then(|pod| pod.field("metadata"));
        if let Some(metadata) = metadata {
            let reference = self.reference(Component::BuiltIn(metadata.schema()));
            let mut property = referring(reference, None);
            self.describe_as(&mut property, TYPICAL, "metadata");
            added.push(("metadata", Value::Map(property)));
        }
        let properties = schema.entry_or_insert_with("properties", || Map::new().into());
        if let Some(properties) = properties.as_map_mut() {
            added.into_iter().for_each(|(name, property)| {
                properties.insert(name, property);
            });
        }
        if root {
            return;
        }
        let required = schema.entry_or_insert_with("required", || list([]));
        for field in ["kind", "apiVersion"].map(Value::from) {
            if let Some(required) = required.as_list_mut().filter(|names| !names.contains(&field)) {
                required.push(field);
            }
        }
    }

    fn text_field(&self, field: &str) -> Value {
        let mut property = Map::from_iter([("type", "string".into())]);
        self.describe_as(&mut property, TYPICAL, field);
        Value::Map(property)
    }
}

/// Parses a document that is kept as raw text.
fn document(value: &Value) -> Value {
    match value {
        Value::Raw(text) => {
            let read = json::decode_any(text.as_bytes(), json::Unknown::Ignore);
            read.map(|read| read.value).unwrap_or_default()
        }
        value => value.clone(),
    }
}

fn flag(schema: &Map, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool) == Some(true)
}

fn kind(row: &Resource, kind: &str) -> Value {
    object([
        ("group", row.kind.group.as_str().into()),
        ("version", row.kind.version.as_str().into()),
        ("kind", kind.into()),
    ])
}

fn selectable_fields(row: &Resource) -> Value {
    let fields = row.strategy.selectable_fields().iter();
    list(fields.map(|field| object([("fieldPath", field.as_str().into())])))
}
