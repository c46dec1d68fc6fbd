//! Conversion between CEL values and object trees.

use std::sync::Arc;

use kevel_api::value::{Map as TreeMap, Value as Tree};
use kevel_codec::base64;
use kevel_codec::json::{Unknown, decode_any};

use super::timestamp::days_from_civil;
use super::{List, Map, Text, Timestamp, Value};
use crate::declared::{DeclKind, DeclType};
use crate::error::Error;
use crate::library::Extension;
use crate::types::Type;

impl<'a> Value<'a> {
    /// Value of a part of an object without a declared type.
    pub fn from_tree(tree: &'a Tree) -> Self {
        match tree {
            Tree::Null => Value::Null,
            Tree::Bool(value) => Value::Bool(*value),
            Tree::Int(value) => Value::Int(*value),
            Tree::Float(value) => Value::Double(*value),
            Tree::String(text) => Value::String(Text::Borrowed(text)),
            Tree::List(elements) => Value::List(List::from_tree(elements, None)),
            Tree::Map(map) => Value::Map(Map::from_tree(map, None)),
            Tree::Raw(document) => match decode_any(document.as_bytes(), Unknown::Ignore) {
                Ok(decoded) => owned(decoded.value),
                Err(_) => Value::Null,
            },
        }
    }

    /// Value of a part of an object with a declared type.
    pub fn from_declared(tree: &'a Tree, declared: &'a DeclType) -> Result<Self, Error> {
        if tree.is_null() {
            return match declared.nullable {
                true => Ok(Value::Null),
                false => Err(Error::new("invalid data, got null for schema with nullable=false")),
            };
        }
        match (&declared.kind, tree) {
            (DeclKind::List { .. }, Tree::List(elements)) => {
                Ok(Value::List(List::from_tree(elements, Some(declared))))
            }
            (DeclKind::List { .. }, _) => Err(Error::new(
                "invalid data, expected an array for the provided schema with type=array",
            )),
            (DeclKind::Map { .. } | DeclKind::Object(_), Tree::Map(map)) => {
                Ok(Value::Map(Map::from_tree(map, Some(declared))))
            }
            (DeclKind::Map { .. } | DeclKind::Object(_), _) => Err(Error::new(
                "invalid data, expected a map for the provided schema with type=object",
            )),
            (DeclKind::IntOrString, Tree::Int(_) | Tree::String(_)) => Ok(Value::from_tree(tree)),
            (DeclKind::IntOrString, _) => Err(Error::new(
                "invalid data, expected XIntOrString value to be either a string or integer",
            )),
            (DeclKind::Date, Tree::String(text)) => date(text),
            (DeclKind::Date, _) => Err(unexpected("string", tree)),
            (DeclKind::Simple(ty), _) => simple(tree, ty),
        }
    }

    /// Tree of a value, for an expression's result that becomes part of an object.
    pub fn to_tree(&self) -> Result<Tree, Error> {
        Ok(match self {
            Value::Null => Tree::Null,
            Value::Bool(value) => Tree::Bool(*value),
            Value::Int(value) => Tree::Int(*value),
            Value::Uint(value) => match i64::try_from(*value) {
                Ok(value) => Tree::Int(value),
                Err(_) => Tree::Float(*value as f64),
            },
            Value::Double(value) => Tree::Float(*value),
            Value::String(text) => Tree::from(&**text),
            Value::Bytes(bytes) => Tree::from(base64::encode(bytes).as_str()),
            Value::Duration(nanos) => {
                Tree::from(kevel_api::duration::Duration(*nanos).to_string().as_str())
            }
            Value::Timestamp(timestamp) => Tree::from(timestamp.to_string().as_str()),
            Value::List(list) => {
                Tree::List(list.iter().map(|element| element?.to_tree()).collect::<Result<_, _>>()?)
            }
            Value::Map(map) => {
                let mut tree = TreeMap::new();
                for (key, value) in map.entries() {
                    tree.insert(key.to_string(), value?.to_tree()?);
                }
                Tree::Map(tree)
            }
            Value::Object(object) => {
                let mut tree = TreeMap::new();
                for (name, value) in &object.fields {
                    tree.insert(&**name, value.to_tree()?);
                }
                Tree::Map(tree)
            }
            Value::Optional(Some(value)) => value.to_tree()?,
            Value::Optional(None) => Tree::Null,
            Value::Extension(Extension::Quantity(quantity)) => {
                Tree::from(quantity.to_string().as_str())
            }
            Value::Type(_) | Value::Extension(_) => {
                return Err(Error::new(format!(
                    "type conversion error from '{}'",
                    self.type_name()
                )));
            }
        })
    }
}

fn simple<'a>(tree: &'a Tree, ty: &Type) -> Result<Value<'a>, Error> {
    match (ty, tree) {
        (Type::Dyn | Type::Any, _) => Ok(Value::from_tree(tree)),
        (Type::Bool, Tree::Bool(_))
        | (Type::Int, Tree::Int(_))
        | (Type::Double, Tree::Float(_))
        | (Type::String, Tree::String(_)) => Ok(Value::from_tree(tree)),
        (Type::Double, Tree::Int(value)) => Ok(Value::Double(*value as f64)),
        (Type::Bytes, Tree::String(text)) => {
            let mut bytes = Vec::new();
            match base64::decode_into(text, &mut bytes) {
                Ok(()) => Ok(Value::Bytes(bytes.into())),
                Err(at) => Err(Error::new(format!(
                    "Invalid byte formatted string {text}: illegal base64 data at input byte {at}"
                ))),
            }
        }
        (Type::Duration, Tree::String(text)) => match text.parse::<kevel_api::duration::Duration>()
        {
            Ok(duration) => Ok(Value::Duration(duration.0)),
            Err(error) => Err(Error::new(format!("Invalid duration {text}: {error}"))),
        },
        (Type::Timestamp, Tree::String(text)) => Timestamp::parse(text)
            .map(Value::Timestamp)
            .ok_or_else(|| Error::new(format!("Invalid date-time formatted string {text}"))),
        (Type::Int, _) => Err(unexpected("int", tree)),
        (Type::Double, _) => Err(unexpected("float", tree)),
        (Type::Bool, _) => Err(unexpected("bool", tree)),
        (Type::String | Type::Bytes | Type::Duration | Type::Timestamp, _) => {
            Err(unexpected("string", tree))
        }
        _ => Ok(Value::from_tree(tree)),
    }
}

fn date<'a>(text: &str) -> Result<Value<'a>, Error> {
    let midnight = Timestamp::parse(&format!("{text}T00:00:00Z"));
    let error = || Error::new(format!("Invalid date formatted string {text}"));
    let timestamp = midnight.ok_or_else(error)?;
    debug_assert_eq!(timestamp.seconds.rem_euclid(86_400), days_from_civil(1970, 1, 1));
    Ok(Value::Timestamp(timestamp))
}

fn unexpected(expected: &str, tree: &Tree) -> Error {
    let found = match tree {
        Tree::Null => "<nil>",
        Tree::Bool(_) => "bool",
        Tree::Int(_) => "int64",
        Tree::Float(_) => "float64",
        Tree::String(_) | Tree::Raw(_) => "string",
        Tree::List(_) => "[]interface {}",
        Tree::Map(_) => "map[string]interface {}",
    };
    Error::new(format!("invalid data, expected {expected}, got {found}"))
}

/// Owned value, of a document that was stored as text.
fn owned<'a>(tree: Tree) -> Value<'a> {
    match tree {
        Tree::Null => Value::Null,
        Tree::Bool(value) => Value::Bool(value),
        Tree::Int(value) => Value::Int(value),
        Tree::Float(value) => Value::Double(value),
        Tree::String(text) => Value::string(text.as_str()),
        Tree::List(elements) => Value::list(elements.into_iter().map(owned).collect()),
        Tree::Map(map) => {
            let entries = map.into_entries().into_iter();
            let entries = entries.map(|(name, value)| {
                (super::Key::String(Text::Shared(Arc::from(name.as_str()))), owned(value))
            });
            Value::Map(entries.collect::<std::collections::BTreeMap<_, _>>().into())
        }
        Tree::Raw(text) => Value::string(&*text),
    }
}
