//! Values of expressions.
//!
//! A value that is part of an object borrows from it: building an activation copies nothing, and fields that an
//! expression does not read cost nothing.

mod compare;
mod index;
mod list;
mod map;
mod text;
mod timestamp;
mod tree;
mod typed;

use std::fmt;
use std::sync::Arc;

use crate::library::Extension;
use crate::types::Type;

pub use list::List;
pub use map::{Key, Map};
pub use text::Text;
pub use timestamp::{MAX_SECONDS, MIN_SECONDS, Timestamp};

pub(crate) use text::shortest;

/// A value.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// Boolean.
    Bool(bool),
    /// Signed integer.
    Int(i64),
    /// Unsigned integer.
    Uint(u64),
    /// A floating point number.
    Double(f64),
    /// String.
    String(Text<'a>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// Duration in nanoseconds.
    Duration(i64),
    /// Timestamp.
    Timestamp(Timestamp),
    /// List.
    List(List<'a>),
    /// Map.
    Map(Map<'a>),
    /// Type, as `type(x)` returns it.
    Type(Type),
    /// Optional value.
    Optional(Option<Arc<Value<'a>>>),
    /// Object constructed by an expression: `Object{spec: …}`.
    Object(Arc<ObjectValue<'a>>),
    /// Value of one of Kubernetes' libraries: a quantity, an address, an authorizer.
    Extension(Extension<'a>),
}

/// Object constructed by an expression.
#[derive(Clone, Debug)]
pub struct ObjectValue<'a> {
    /// Name of the object type.
    pub type_name: Arc<str>,
    /// Fields by name.
    pub fields: Vec<(Arc<str>, Value<'a>)>,
}

impl<'a> Value<'a> {
    /// Owned string.
    pub fn string(text: impl Into<String>) -> Self {
        Value::String(Text::from(text.into()))
    }

    pub(crate) fn list(elements: Vec<Value<'a>>) -> Self {
        Value::List(List::from(elements))
    }

    pub(crate) fn strings(texts: impl IntoIterator<Item = String>) -> Self {
        Value::list(texts.into_iter().map(Value::string).collect())
    }

    pub(crate) fn some(value: Value<'a>) -> Self {
        Value::Optional(Some(Arc::new(value)))
    }

    /// Boolean value, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(value) = self { Some(*value) } else { None }
    }

    /// String value, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        if let Value::String(text) = self { Some(text) } else { None }
    }

    /// List value, if it is one.
    pub fn as_list(&self) -> Option<&List<'a>> {
        if let Value::List(list) = self { Some(list) } else { None }
    }

    /// Type at run time, without parameters.
    pub fn runtime_type(&self) -> Type {
        match self {
            Value::Null => Type::Null,
            Value::Bool(_) => Type::Bool,
            Value::Int(_) => Type::Int,
            Value::Uint(_) => Type::Uint,
            Value::Double(_) => Type::Double,
            Value::String(_) => Type::String,
            Value::Bytes(_) => Type::Bytes,
            Value::Duration(_) => Type::Duration,
            Value::Timestamp(_) => Type::Timestamp,
            Value::List(_) => Type::list(Type::Dyn),
            Value::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Value::Type(_) => Type::Type(None),
            Value::Optional(_) => Type::optional(Type::Dyn),
            Value::Object(object) => Type::Object(object.type_name.clone()),
            Value::Extension(extension) => extension.runtime_type(),
        }
    }

    /// Name of the run-time type.
    pub(crate) fn type_name(&self) -> String {
        self.runtime_type().name().to_owned()
    }

    /// Go type name in the reference's messages.
    pub(crate) fn go_type(&self) -> &'static str {
        match self {
            Value::Null => "types.Null",
            Value::Bool(_) => "types.Bool",
            Value::Int(_) => "types.Int",
            Value::Uint(_) => "types.Uint",
            Value::Double(_) => "types.Double",
            Value::String(_) => "types.String",
            Value::Bytes(_) => "types.Bytes",
            Value::Duration(_) => "types.Duration",
            Value::Timestamp(_) => "types.Timestamp",
            Value::Optional(_) => "*types.Optional",
            Value::Type(_) => "*types.Type",
            _ => "ref.Val",
        }
    }

    /// Number of characters, bytes, elements or entries; `None` for values without a size.
    pub(crate) fn size(&self) -> Option<u64> {
        match self {
            Value::String(text) => Some(text.chars().count() as u64),
            Value::Bytes(bytes) => Some(bytes.len() as u64),
            Value::List(list) => Some(list.len() as u64),
            Value::Map(map) => Some(map.len() as u64),
            _ => None,
        }
    }

    /// Whether the value is the zero value of its type.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Bool(value) => !value,
            Value::Int(value) => *value == 0,
            Value::Uint(value) => *value == 0,
            Value::Double(value) => *value == 0.0,
            Value::String(text) => text.is_empty(),
            Value::Bytes(bytes) => bytes.is_empty(),
            Value::Duration(nanos) => *nanos == 0,
            Value::Timestamp(timestamp) => timestamp.instant() == (MIN_SECONDS, 0),
            Value::List(list) => list.is_empty(),
            Value::Map(map) => map.is_empty(),
            Value::Object(object) => object.fields.is_empty(),
            _ => false,
        }
    }

    /// Whether the value fits a parameter of this type. For lists and maps only the first element is checked.
    pub(crate) fn fits(&self, ty: &Type) -> bool {
        match (ty, self) {
            (Type::Dyn | Type::Any | Type::Param(_) | Type::Var(_), _) => true,
            (Type::List(element), Value::List(list)) => {
                list.get(0).is_none_or(|first| first.is_ok_and(|first| first.fits(element)))
            }
            (Type::Map(entry), Value::Map(map)) => map.first().is_none_or(|first| {
                first.is_ok_and(|(key, value)| key.fits(&entry.0) && value.fits(&entry.1))
            }),
            (Type::Opaque(name, _), Value::Optional(_)) => &**name == crate::types::OPTIONAL,
            _ => self.runtime_type().name() == ty.name(),
        }
    }
}

impl<'a> From<bool> for Value<'a> {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::String(Text::Borrowed(text))
    }
}

/// Prints as in messages.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL_VALUE"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Int(value) => write!(f, "{value}"),
            Value::Uint(value) => write!(f, "{value}"),
            Value::Double(value) => f.write_str(&shortest(*value)),
            Value::String(text) => f.write_str(text),
            Value::Bytes(bytes) => {
                let numbers: Vec<_> = bytes.iter().map(u8::to_string).collect();
                write!(f, "[{}]", numbers.join(" "))
            }
            Value::Duration(nanos) => write!(f, "{}", kevel_api::duration::Duration(*nanos)),
            Value::Timestamp(timestamp) => write!(f, "{timestamp}"),
            Value::Type(ty) => f.write_str(ty.name()),
            Value::List(list) => {
                let elements: Vec<String> = (0..list.len())
                    .filter_map(|i| {
                        Some(list.get(i)?.map_or_else(|e| e.to_string(), |v| v.to_string()))
                    })
                    .collect();
                write!(f, "[{}]", elements.join(", "))
            }
            Value::Map(map) => {
                let mut entries = Vec::new();
                for (key, value) in map.entries() {
                    entries.push(match value {
                        Ok(value) => format!("{key}: {value}"),
                        Err(error) => format!("{key}: {error}"),
                    });
                }
                write!(f, "{{{}}}", entries.join(", "))
            }
            Value::Optional(None) => f.write_str("optional.none()"),
            Value::Optional(Some(value)) => write!(f, "optional({value})"),
            Value::Object(object) => f.write_str(&object.type_name),
            Value::Extension(extension) => write!(f, "{extension}"),
        }
    }
}
