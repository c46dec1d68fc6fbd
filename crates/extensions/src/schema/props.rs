//! View of a `JSONSchemaProps` in a definition.

use kevel_api::value::{Map, Value};
use kevel_codec::json::{Unknown, decode_any};

/// View of a `JSONSchemaProps`: absent fields read as empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Props<'s>(&'s Value);

/// Forms of `items`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Items<'s> {
    Schema(Props<'s>),
    /// A schema for each position, which is not supported.
    List(&'s [Value]),
}

/// Forms of `additionalProperties`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Additional<'s> {
    Allowed(bool),
    Schema(Props<'s>),
}

impl<'s> Props<'s> {
    pub fn new(schema: &'s Value) -> Self {
        Props(schema)
    }

    pub fn get(self, name: &str) -> Option<&'s Value> {
        self.0.as_map()?.get(name)
    }

    pub fn has(self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// All fields that are set.
    pub fn fields(self) -> impl Iterator<Item = (&'s str, &'s Value)> {
        self.0.as_map().into_iter().flat_map(Map::iter)
    }

    pub fn text(self, name: &str) -> &'s str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn flag(self, name: &str) -> bool {
        self.optional_flag(name) == Some(true)
    }

    pub fn optional_flag(self, name: &str) -> Option<bool> {
        self.get(name)?.as_bool()
    }

    pub fn int(self, name: &str) -> Option<i64> {
        match self.get(name)? {
            Value::Int(int) => Some(*int),
            Value::Float(float) => Some(*float as i64),
            _ => None,
        }
    }

    pub fn number(self, name: &str) -> Option<f64> {
        match self.get(name)? {
            Value::Int(int) => Some(*int as f64),
            Value::Float(float) => Some(*float),
            _ => None,
        }
    }

    /// Values of a list field.
    pub fn list(self, name: &str) -> &'s [Value] {
        self.get(name).and_then(Value::as_list).unwrap_or_default()
    }

    /// Strings of a list field.
    pub fn texts(self, name: &str) -> impl Iterator<Item = &'s str> {
        self.list(name).iter().filter_map(Value::as_str)
    }

    /// Schemas of a list field: `allOf` and the like.
    pub fn schemas(self, name: &str) -> impl ExactSizeIterator<Item = Props<'s>> {
        self.list(name).iter().map(Props::new)
    }

    /// Schemas of a map field: `properties` and the like.
    pub fn named(self, name: &str) -> impl Iterator<Item = (&'s str, Props<'s>)> {
        let map = self.get(name).and_then(Value::as_map);
        map.into_iter().flat_map(Map::iter).map(|(name, schema)| (name, Props::new(schema)))
    }

    pub fn properties(self) -> impl Iterator<Item = (&'s str, Props<'s>)> {
        self.named("properties")
    }

    pub fn property(self, name: &str) -> Option<Props<'s>> {
        self.get("properties")?.as_map()?.get(name).map(Props::new)
    }

    pub fn has_properties(self) -> bool {
        self.properties().next().is_some()
    }

    /// Schema in a field.
    pub fn schema(self, name: &str) -> Option<Props<'s>> {
        self.get(name).map(Props::new)
    }

    pub fn items(self) -> Option<Items<'s>> {
        Some(match self.get("items")? {
            Value::List(list) => Items::List(list),
            schema => Items::Schema(Props::new(schema)),
        })
    }

    /// Schema of all items, if there is one.
    pub fn item(self) -> Option<Props<'s>> {
        match self.items()? {
            Items::Schema(schema) => Some(schema),
            Items::List(_) => None,
        }
    }

    pub fn additional(self) -> Option<Additional<'s>> {
        Some(match self.get("additionalProperties")? {
            Value::Bool(allowed) => Additional::Allowed(*allowed),
            schema => Additional::Schema(Props::new(schema)),
        })
    }

    /// Schema of `additionalProperties`, if there is one.
    pub fn additional_schema(self) -> Option<Props<'s>> {
        match self.additional()? {
            Additional::Schema(schema) => Some(schema),
            Additional::Allowed(_) => None,
        }
    }

    pub fn kind(self) -> &'s str {
        self.text("type")
    }

    pub fn list_type(self) -> Option<&'s str> {
        self.get("x-kubernetes-list-type")?.as_str()
    }

    pub fn map_type(self) -> Option<&'s str> {
        self.get("x-kubernetes-map-type")?.as_str()
    }

    pub fn list_map_keys(self) -> impl Iterator<Item = &'s str> {
        self.texts("x-kubernetes-list-map-keys")
    }

    pub fn embedded(self) -> bool {
        self.flag("x-kubernetes-embedded-resource")
    }

    pub fn int_or_string(self) -> bool {
        self.flag("x-kubernetes-int-or-string")
    }

    pub fn preserves(self) -> bool {
        self.flag("x-kubernetes-preserve-unknown-fields")
    }

    pub fn default(self) -> Option<&'s Value> {
        self.get("default").filter(|default| !default.is_null())
    }

    pub fn rules(self) -> &'s [Value] {
        self.list("x-kubernetes-validations")
    }

    /// Whether a predicate holds for this schema or any inside it.
    pub fn any(self, holds: &mut dyn FnMut(Props<'s>) -> bool) -> bool {
        if holds(self) {
            return true;
        }
        let items = match self.items() {
            Some(Items::Schema(schema)) => schema.any(holds),
            Some(Items::List(list)) => list.iter().any(|schema| Props::new(schema).any(holds)),
            None => false,
        };
        let dependencies =
            || self.named("dependencies").filter(|(_, schema)| schema.0.as_map().is_some());
        items
            || ["allOf", "anyOf", "oneOf"]
                .iter()
                .any(|name| self.schemas(name).any(|schema| schema.any(holds)))
            || self.schema("not").is_some_and(|schema| schema.any(holds))
            || ["properties", "patternProperties", "definitions"]
                .iter()
                .any(|name| self.named(name).any(|(_, schema)| schema.any(holds)))
            || ["additionalProperties", "additionalItems"]
                .iter()
                .any(|name| self.schema(name).is_some_and(|schema| schema.any(holds)))
            || dependencies().any(|(_, schema)| schema.any(holds))
    }

    /// CEL declaration type of the schema.
    pub fn declared(self, name: &str, is_root: bool) -> Option<kevel_cel::DeclType> {
        kevel_cel::DeclType::from_json_schema(name, self.0, is_root)
    }

    /// Nesting depth.
    pub fn depth(self) -> usize {
        fn depth(value: &Value) -> usize {
            1 + match value {
                Value::Map(map) => map.iter().map(|(_, value)| depth(value)).max().unwrap_or(0),
                Value::List(list) => list.iter().map(depth).max().unwrap_or(0),
                _ => 0,
            }
        }
        depth(self.0)
    }
}

/// Schema with its embedded JSON documents (defaults, enum values) decoded.
pub(crate) fn expand(schema: &Value) -> Value {
    match schema {
        Value::Raw(text) => decode_any(text.as_bytes(), Unknown::Ignore)
            .map_or(Value::Null, |decoded| decoded.value),
        Value::List(list) => Value::List(list.iter().map(expand).collect()),
        Value::Map(map) => {
            Value::Map(map.iter().map(|(name, value)| (name, expand(value))).collect())
        }
        plain => plain.clone(),
    }
}
