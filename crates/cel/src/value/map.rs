//! Maps: built by expressions, or part of an object.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kevel_api::schema::Schema;
use kevel_api::value::{Map as TreeMap, Value as Tree};

use super::typed::Struct;
use super::{Text, Value};
use crate::declared::{DeclKind, DeclType, ObjectType, escape, unescape};
use crate::error::Error;

/// A map.
#[derive(Clone, Debug)]
pub struct Map<'a>(MapValue<'a>);

#[derive(Clone, Debug)]
enum MapValue<'a> {
    Made(Arc<Made<'a>>),
    Tree(&'a TreeMap),
    /// Struct as clients see it.
    Typed(Struct<'a>),
    /// Map with values as clients see them.
    TypedMap(&'a TreeMap, Schema<'a>),
    /// Map whose values have a declared type.
    Declared(&'a TreeMap, &'a DeclType),
    /// Object with declared fields.
    Object(&'a TreeMap, &'a ObjectType),
}

/// Values, and their positions by key: an index without lifetime allows lookups with keys that live shorter than the
/// map.
#[derive(Debug)]
struct Made<'a> {
    index: BTreeMap<Key<'a>, usize>,
    values: Vec<Value<'a>>,
}

impl<'a> Made<'a> {
    fn get(&self, key: &Key<'_>) -> Option<&Value<'a>> {
        self.values.get(*self.index.get(key)?)
    }

    fn insert(&mut self, key: Key<'a>, value: Value<'a>) {
        self.index.insert(key, self.values.len());
        self.values.push(value);
    }
}

/// Key of a map.
#[derive(Clone, Debug)]
pub enum Key<'a> {
    /// Boolean.
    Bool(bool),
    /// Signed integer.
    Int(i64),
    /// Unsigned integer.
    Uint(u64),
    /// Floating point number, which may equal an integer.
    Double(f64),
    /// String.
    String(Text<'a>),
}

impl<'a> Key<'a> {
    pub(crate) fn of(value: &Value<'a>) -> Option<Self> {
        Some(match value {
            Value::Bool(value) => Key::Bool(*value),
            Value::Int(value) => Key::Int(*value),
            Value::Uint(value) => Key::Uint(*value),
            Value::Double(value) => Key::Double(*value),
            Value::String(text) => Key::String(text.clone()),
            _ => return None,
        })
    }

    pub(crate) fn to_value(&self) -> Value<'a> {
        match self {
            Key::Bool(value) => Value::Bool(*value),
            Key::Int(value) => Value::Int(*value),
            Key::Uint(value) => Value::Uint(*value),
            Key::Double(value) => Value::Double(*value),
            Key::String(text) => Value::String(text.clone()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Key::Bool(_) => 0,
            Key::Int(_) => 1,
            Key::Uint(_) => 2,
            Key::Double(_) => 3,
            Key::String(_) => 4,
        }
    }

    /// The same number as keys of other types.
    fn other_numbers(&self) -> [Option<Key<'a>>; 2] {
        match self {
            Key::Double(value) => {
                let whole = value.trunc() == *value;
                let int = (whole && *value > i64::MIN as f64 && *value < i64::MAX as f64)
                    .then_some(Key::Int(*value as i64));
                let uint = (whole && *value >= 0.0 && *value < u64::MAX as f64)
                    .then_some(Key::Uint(*value as u64));
                [int, uint]
            }
            Key::Int(value) => [u64::try_from(*value).ok().map(Key::Uint), None],
            Key::Uint(value) => [i64::try_from(*value).ok().map(Key::Int), None],
            _ => [None, None],
        }
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Key::Bool(a), Key::Bool(b)) => a.cmp(b),
            (Key::Int(a), Key::Int(b)) => a.cmp(b),
            (Key::Uint(a), Key::Uint(b)) => a.cmp(b),
            (Key::Double(a), Key::Double(b)) => a.total_cmp(b),
            (Key::String(a), Key::String(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key<'_> {}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_value().fmt(f)
    }
}

impl<'a> From<BTreeMap<Key<'a>, Value<'a>>> for Map<'a> {
    fn from(entries: BTreeMap<Key<'a>, Value<'a>>) -> Self {
        let (keys, values): (Vec<_>, Vec<_>) = entries.into_iter().unzip();
        let index = keys.into_iter().enumerate().map(|(i, key)| (key, i)).collect();
        Map(MapValue::Made(Arc::new(Made { index, values })))
    }
}

impl<'a> Map<'a> {
    /// Map in an object; `declared` is its type.
    pub(super) fn from_tree(map: &'a TreeMap, declared: Option<&'a DeclType>) -> Self {
        Map(match declared.map(|declared| &declared.kind) {
            Some(DeclKind::Object(object)) => MapValue::Object(map, object),
            Some(DeclKind::Map { value, .. }) => MapValue::Declared(map, value),
            _ => MapValue::Tree(map),
        })
    }

    pub(super) fn typed(object: Struct<'a>) -> Self {
        Map(MapValue::Typed(object))
    }

    pub(super) fn typed_map(map: &'a TreeMap, values: Schema<'a>) -> Self {
        Map(MapValue::TypedMap(map, values))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        match &self.0 {
            MapValue::Made(entries) => entries.values.len(),
            MapValue::Typed(object) => object.names().len(),
            MapValue::Tree(map)
            | MapValue::TypedMap(map, _)
            | MapValue::Declared(map, _)
            | MapValue::Object(map, _) => map.len(),
        }
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Value of a key; equal numbers of different types are the same key.
    pub fn find(&self, key: &Value<'_>) -> Option<Result<Value<'a>, Error>> {
        if let MapValue::Made(entries) = &self.0 {
            let key = Key::of(key)?;
            let same =
                || key.other_numbers().into_iter().flatten().find_map(|key| entries.get(&key));
            return entries.get(&key).or_else(same).cloned().map(Ok);
        }
        match key {
            Value::String(name) => self.find_str(name),
            _ if matches!(
                self.0,
                MapValue::Tree(_) | MapValue::Typed(_) | MapValue::TypedMap(..)
            ) =>
            {
                None
            }
            _ => Some(Err(Error::no_such_overload())),
        }
    }

    /// Value of a string key.
    pub fn find_str(&self, name: &str) -> Option<Result<Value<'a>, Error>> {
        match &self.0 {
            MapValue::Made(entries) => {
                entries.get(&Key::String(Text::Borrowed(name))).cloned().map(Ok)
            }
            MapValue::Tree(map) => Some(Ok(Value::from_tree(map.get(name)?))),
            MapValue::Typed(object) => object.find(name).map(Ok),
            MapValue::TypedMap(map, values) => Some(Ok(Value::from_typed(map.get(name)?, *values))),
            MapValue::Declared(map, ty) => Some(Value::from_declared(map.get(name)?, ty)),
            MapValue::Object(map, object) => {
                let ty = object.field(name)?;
                let value = match map.get(name) {
                    Some(value) if !name.contains("__") => value,
                    _ => map.get(&unescape(name)?)?,
                };
                if value.is_null() { None } else { Some(Value::from_declared(value, ty)) }
            }
        }
    }

    /// Keys; for an object, the identifiers of its declared fields.
    pub fn keys(&self) -> Vec<Value<'a>> {
        match &self.0 {
            MapValue::Made(entries) => entries.index.keys().map(Key::to_value).collect(),
            MapValue::Typed(object) => object.names(),
            MapValue::Tree(map) | MapValue::TypedMap(map, _) | MapValue::Declared(map, _) => {
                map.entries().iter().map(|(name, _)| Value::from(name.as_str())).collect()
            }
            MapValue::Object(map, object) => {
                let names = map.entries().iter().map(|(name, _)| name.as_str());
                names
                    .filter_map(|name| {
                        let identifier = escape(name)?;
                        object.fields.contains_key(identifier.as_str()).then_some(())?;
                        Some(if identifier == name {
                            Value::from(name)
                        } else {
                            Value::string(identifier)
                        })
                    })
                    .collect()
            }
        }
    }

    /// Keys with their values; see [`Map::keys`].
    pub fn entries(&self) -> impl Iterator<Item = (Value<'a>, Result<Value<'a>, Error>)> {
        self.keys().into_iter().filter_map(|key| {
            let value = self.find(&key)?;
            Some((key, value))
        })
    }

    /// First entry, which represents the types of the others.
    pub(super) fn first(&self) -> Option<Result<(Value<'a>, Value<'a>), Error>> {
        match &self.0 {
            MapValue::Made(entries) => {
                let (key, position) = entries.index.first_key_value()?;
                Some(Ok((key.to_value(), entries.values.get(*position)?.clone())))
            }
            _ => self.entries().next().map(|(key, value)| Ok((key, value?))),
        }
    }

    /// Map with one entry more.
    pub(crate) fn insert(mut self, key: &Value<'a>, value: Value<'a>) -> Result<Map<'a>, Error> {
        if self.find(key).is_some() {
            return Err(Error::new(format!("insert failed: key {key} already exists")));
        }
        let Some(new) = Key::of(key) else { return Err(Error::no_such_overload()) };
        if let MapValue::Made(entries) = &mut self.0
            && let Some(own) = Arc::get_mut(entries)
        {
            own.insert(new, value);
            return Ok(self);
        }
        let mut entries = BTreeMap::from([(new, value)]);
        for (key, value) in self.entries() {
            entries.insert(Key::of(&key).ok_or_else(Error::no_such_overload)?, value?);
        }
        Ok(entries.into())
    }

    /// Values of the key fields of a list's element.
    pub(super) fn key_fields(&self, names: &[String]) -> Vec<Option<&'a Tree>> {
        let get = |name: &String| match &self.0 {
            MapValue::Made(_) => None,
            MapValue::Typed(object) => object.tree(name),
            MapValue::Tree(map)
            | MapValue::TypedMap(map, _)
            | MapValue::Declared(map, _)
            | MapValue::Object(map, _) => map.get(name),
        };
        match &self.0 {
            MapValue::Made(_) => Vec::new(),
            _ => names.iter().map(get).collect(),
        }
    }
}
