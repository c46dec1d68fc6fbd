//! Views of objects of known kinds as clients see them, without a copy.
//!
//! The tree of an object has the fields that were set. A client sees Go's JSON encoding of it, with zero values in some
//! fields and others omitted. These views compute the latter from the tree and the schema.

use std::sync::LazyLock;

use kevel_api::gvk::GroupVersionKind;
use kevel_api::schema::{Field, Scalar, Schema, StructSchema, Type as SchemaType};
use kevel_api::value::{Map as TreeMap, Value as Tree};

use super::{List, Map, Text, Value};

/// Tree of a struct that is absent.
static NOTHING: LazyLock<TreeMap> = LazyLock::new(TreeMap::new);

/// Struct of a built-in type, or object of a custom one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Struct<'a> {
    map: &'a TreeMap,
    schema: Schema<'a>,
    /// Kind of a whole object, which overrides the one in its tree.
    kind: Option<&'a GroupVersionKind>,
}

impl<'a> Value<'a> {
    /// Object of a kind, as clients see it.
    pub fn from_object(tree: &'a Tree, schema: Schema<'a>, kind: &'a GroupVersionKind) -> Self {
        match (tree, schema.ty()) {
            (Tree::Map(map), SchemaType::Struct(_)) => {
                Value::Map(Map::typed(Struct { map, schema, kind: Some(kind) }))
            }
            _ => Value::from_typed(tree, schema),
        }
    }

    /// Part of an object, as clients see it.
    pub(super) fn from_typed(tree: &'a Tree, schema: Schema<'a>) -> Self {
        match (schema.ty(), tree) {
            (SchemaType::Struct(_), Tree::Map(map)) => {
                Value::Map(Map::typed(Struct { map, schema, kind: None }))
            }
            (SchemaType::List { item, .. }, Tree::List(items)) => {
                Value::List(List::typed(items, schema.other(*item)))
            }
            (SchemaType::Map { value, .. }, Tree::Map(map)) => {
                Value::Map(Map::typed_map(map, schema.other(*value)))
            }
            (SchemaType::Union { object, .. }, Tree::Map(_)) => {
                Value::from_typed(tree, schema.other(object.ty))
            }
            // The reference does not distinguish an empty list from an absent one here.
            (SchemaType::Union { .. }, Tree::List(items)) if items.is_empty() => Value::Null,
            (SchemaType::Union { other, .. }, _) => Value::from_typed(tree, schema.other(other.ty)),
            _ => Value::from_tree(tree),
        }
    }

    /// Go's zero value of a type.
    fn zero(schema: Schema<'a>) -> Self {
        match schema.ty() {
            SchemaType::Struct(_) => {
                Value::Map(Map::typed(Struct { map: &NOTHING, schema, kind: None }))
            }
            SchemaType::Scalar(scalar) => match scalar {
                Scalar::String => Value::String(Text::Borrowed("")),
                Scalar::Bool => Value::Bool(false),
                Scalar::Int32 | Scalar::Int64 | Scalar::Double | Scalar::IntOrString => {
                    Value::Int(0)
                }
                Scalar::Quantity => Value::String(Text::Borrowed("0")),
                Scalar::Duration => Value::String(Text::Borrowed("0s")),
                _ => Value::Null,
            },
            SchemaType::Union { other, .. } if schema.other(other.ty).scalar().is_some() => {
                Value::Bool(false)
            }
            _ => Value::Null,
        }
    }
}

impl<'a> Struct<'a> {
    /// Field as clients see it.
    pub fn find(&self, name: &str) -> Option<Value<'a>> {
        if let Some(said) = self.type_meta(name) {
            return Some(said);
        }
        let value = self.map.get(name);
        if self.schema.is_custom() {
            let value = value?;
            return Some(match self.schema.field(name) {
                Some(field) => Value::from_typed(value, field.schema()),
                None => Value::from_tree(value),
            });
        }
        written(self.schema.field(name)?, value)
    }

    /// Names of the fields that clients see.
    pub fn names(&self) -> Vec<Value<'a>> {
        let said = |name: &str| self.kind.is_some() && matches!(name, "apiVersion" | "kind");
        let mut names: Vec<Value<'a>> = match self.structure() {
            None => {
                let names = self.map.entries().iter().map(|(name, _)| name.as_str());
                names.filter(|name| !said(name)).map(Value::from).collect()
            }
            Some(structure) => structure
                .fields()
                .filter(|field| !said(field.name()) && field.is_written(self.map.get(field.name())))
                .map(|field| Value::from(field.name()))
                .collect(),
        };
        if self.kind.is_some() {
            names.extend(["apiVersion", "kind"].map(Value::from));
            names.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
        }
        names
    }

    /// Tree of a field.
    pub fn tree(&self, name: &str) -> Option<&'a Tree> {
        self.map.get(name)
    }

    /// Fields of a built-in type.
    fn structure(&self) -> Option<StructSchema<'a>> {
        self.schema.as_struct().filter(|_| !self.schema.is_custom())
    }

    fn type_meta(&self, name: &str) -> Option<Value<'a>> {
        let kind = self.kind?;
        match name {
            "kind" => Some(Value::from(&*kind.kind)),
            "apiVersion" if kind.group.is_empty() => Some(Value::from(&*kind.version)),
            "apiVersion" => Some(Value::string(format!("{}/{}", kind.group, kind.version))),
            _ => None,
        }
    }
}

/// Field of a built-in type, if the encoder writes it.
fn written<'a>(field: Field<'a>, value: Option<&'a Tree>) -> Option<Value<'a>> {
    field.is_written(value).then(|| match value {
        Some(value) => Value::from_typed(value, field.schema()),
        None if field.pointer() => Value::Null,
        None => Value::zero(field.schema()),
    })
}
