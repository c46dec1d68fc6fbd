//! Tree of every codec: JSON's data model, with exact integers.
//!
//! Values are short-lived (the cache holds wire bytes), so the tree is optimized for building and walking: 24 bytes a
//! value, short strings inline, maps as sorted vectors.

use std::cmp::Ordering;

use compact_str::CompactString;
use thin_vec::ThinVec;

use crate::schema::Field;

/// A JSON value.
///
/// In a value of a built-in type an absent field is Go's zero value, and a present scalar is never zero unless its
/// field is a pointer: the decoders drop `null` and such zeros, the encoders write them where the reference does.
/// Custom resources keep the values that they were given.
#[derive(Debug, Default, PartialEq)]
pub enum Value {
    /// Explicit `null`.
    #[default]
    Null,
    /// Boolean.
    Bool(bool),
    /// Integer.
    Int(i64),
    /// Number that is not an integer, or too large for one.
    Float(f64),
    /// String.
    String(CompactString),
    /// List.
    List(ThinVec<Value>),
    /// Object.
    Map(Map),
    /// Document kept as text: `runtime.RawExtension`, and without white space `FieldsV1` and `apiextensions.JSON`. Its
    /// numbers and key order must not change.
    Raw(Box<str>),
}

impl Clone for Value {
    fn clone(&self) -> Self {
        match self {
            Value::Null => Value::Null,
            Value::Bool(b) => Value::Bool(*b),
            Value::Int(i) => Value::Int(*i),
            Value::Float(f) => Value::Float(*f),
            Value::String(s) => Value::String(s.clone()),
            Value::List(l) => Value::List(l.iter().map(|item| charged(item).clone()).collect()),
            Value::Map(m) => Value::Map(m.clone()),
            Value::Raw(text) => Value::Raw(text.clone()),
        }
    }
}

/// Charges for an item of many that are copied or compared.
fn charged<T>(item: &T) -> &T {
    kevel_compute::charge(1);
    item
}

impl Value {
    /// Boolean value, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(b) = self { Some(*b) } else { None }
    }

    /// Integer value, if it is one.
    pub fn as_int(&self) -> Option<i64> {
        if let Value::Int(i) = self { Some(*i) } else { None }
    }

    /// String value, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        if let Value::String(s) = self { Some(s) } else { None }
    }

    /// Items, if it is a list.
    pub fn as_list(&self) -> Option<&[Value]> {
        if let Value::List(l) = self { Some(l) } else { None }
    }

    /// Mutable list, if it is one.
    pub fn as_list_mut(&mut self) -> Option<&mut ThinVec<Value>> {
        if let Value::List(l) = self { Some(l) } else { None }
    }

    /// Map, if it is one.
    pub fn as_map(&self) -> Option<&Map> {
        if let Value::Map(m) = self { Some(m) } else { None }
    }

    /// Mutable map, if it is one.
    pub fn as_map_mut(&mut self) -> Option<&mut Map> {
        if let Value::Map(m) = self { Some(m) } else { None }
    }

    /// Whether the value is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The value at a path of map keys.
    ///
    /// ```
    /// use kevel_api::value::{Map, Value};
    /// let spec = Map::from_iter([("replicas", Value::Int(3))]);
    /// let object = Value::Map(Map::from_iter([("spec", Value::Map(spec))]));
    /// assert_eq!(object.at(&["spec", "replicas"]), Some(&Value::Int(3)));
    /// assert_eq!(object.at(&["spec", "paused"]), None);
    /// ```
    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(self, |value, key| value.as_map()?.get(key))
    }

    /// Mutable value at a path of map keys.
    pub fn at_mut(&mut self, path: &[&str]) -> Option<&mut Value> {
        path.iter().try_fold(self, |value, key| value.as_map_mut()?.get_mut(key))
    }

    /// String at a path of map keys; empty if there is none.
    pub fn str_at(&self, path: &[&str]) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// Items of the list at a path of map keys; none if there is no list.
    pub fn list_at(&self, path: &[&str]) -> &[Value] {
        self.at(path).and_then(Value::as_list).unwrap_or_default()
    }

    /// Map at a path of map keys, made if there is none.
    ///
    /// ```
    /// use kevel_api::value::{Map, Value};
    /// let mut object = Value::default();
    /// object.make_map(&["metadata", "labels"]).insert("app", "web".into());
    /// assert_eq!(object.str_at(&["metadata", "labels", "app"]), "web");
    /// ```
    pub fn make_map(&mut self, path: &[&str]) -> &mut Map {
        let Some((key, path)) = path.split_first() else {
            if !matches!(self, Value::Map(_)) {
                *self = Value::Map(Map::new());
            }
            match self {
                Value::Map(map) => return map,
                _ => unreachable!("a map was just put here"),
            }
        };
        self.make_map(&[]).entry_or_insert_with(key, || Value::Map(Map::new())).make_map(path)
    }

    /// List in a field of the map at a path of map keys, both made if there are none.
    pub fn make_list(&mut self, path: &[&str], field: &str) -> &mut ThinVec<Value> {
        let map = self.make_map(path);
        let list = map.entry_or_insert_with(field, || Value::List(ThinVec::new()));
        if !matches!(list, Value::List(_)) {
            *list = Value::List(ThinVec::new());
        }
        match list {
            Value::List(list) => list,
            _ => unreachable!("a list was just put here"),
        }
    }

    /// Whether Go's encoder considers the value empty: `false`, 0, "", no elements, nil.
    pub fn is_empty(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Bool(b) => !b,
            Value::Int(i) => *i == 0,
            Value::Float(f) => *f == 0.0,
            Value::String(s) => s.is_empty(),
            Value::List(l) => l.is_empty(),
            Value::Map(m) => m.is_empty(),
            Value::Raw(_) => false,
        }
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Value::String(s.into())
    }
}

impl From<i64> for Value {
    fn from(i: i64) -> Self {
        Value::Int(i)
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Value::Bool(b)
    }
}

impl From<Map> for Value {
    fn from(m: Map) -> Self {
        Value::Map(m)
    }
}

/// Whether two values of a built-in type are equivalent: an absent list or map equals an empty one.
pub fn equivalent(a: Option<&Value>, b: Option<&Value>) -> bool {
    let nothing = |value: &Value| match value {
        Value::Null => true,
        Value::List(list) => list.is_empty(),
        Value::Map(map) => {
            map.0.iter().map(charged).all(|(_, value)| equivalent(Some(value), None))
        }
        _ => false,
    };
    match (a, b) {
        (None, None) => true,
        (Some(one), None) | (None, Some(one)) => nothing(one),
        (Some(Value::List(a)), Some(Value::List(b))) => {
            let same = |(a, b)| equivalent(Some(charged(a)), Some(b));
            a.len() == b.len() && a.iter().zip(b).all(same)
        }
        (Some(Value::Map(a)), Some(Value::Map(b))) => {
            // Both are sorted by key.
            let mut others = b.0.iter().peekable();
            let same = a.0.iter().map(charged).all(|(key, value)| {
                while let Some((_, other)) = others.next_if(|(k, _)| order(k, key).is_lt()) {
                    if !nothing(other) {
                        return false;
                    }
                }
                let other = others.next_if(|(k, _)| k == key).map(|(_, other)| other);
                equivalent(Some(value), other)
            });
            same && others.all(|(_, other)| nothing(other))
        }
        (Some(a), Some(b)) => a == b || (nothing(a) && nothing(b)),
    }
}

/// A map from strings to values, sorted by key as Go prints maps.
#[derive(Debug, Default)]
pub struct Map(ThinVec<(CompactString, Value)>);

impl Clone for Map {
    fn clone(&self) -> Self {
        Map(self.0.iter().map(|entry| charged(entry).clone()).collect())
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        let same = |(one, other): (&_, &_)| charged(one) == other;
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(same)
    }
}

impl Map {
    /// Makes an empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a map of entries in any order; of equal keys the last one wins.
    pub fn from_entries(mut entries: ThinVec<(CompactString, Value)>) -> Self {
        if !entries.is_sorted_by(|a, b| a.0 < b.0) {
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            // `dedup_by` keeps the first of a run, so the later value moves into it.
            entries.dedup_by(|later, kept| {
                let same = later.0 == kept.0;
                if same {
                    std::mem::swap(&mut later.1, &mut kept.1);
                }
                same
            });
        }
        Map(entries)
    }

    /// Inserts entries in any order, replacing those with equal keys. Inserting many at once moves the existing entries
    /// only once.
    pub fn extend(&mut self, entries: impl IntoIterator<Item = (CompactString, Value)>) {
        let mut all = std::mem::take(&mut self.0);
        all.extend(entries);
        *self = Map::from_entries(all);
    }

    /// Makes a map of entries with sorted, distinct keys, which is not checked in release builds.
    pub fn from_sorted(entries: ThinVec<(CompactString, Value)>) -> Self {
        debug_assert!(entries.is_sorted_by(|a, b| a.0 < b.0));
        Map(entries)
    }

    fn find(&self, key: &str) -> Result<usize, usize> {
        // Decoders and encoders append in order.
        match self.0.last() {
            Some(last) if order(&last.0, key).is_lt() => Err(self.0.len()),
            _ => self.0.binary_search_by(|(k, _)| order(k, key)),
        }
    }

    /// Position of a key. Linear search is faster for few entries.
    fn position(&self, key: &str) -> Option<usize> {
        const FEW: usize = 16;
        if self.0.len() > FEW {
            return self.find(key).ok();
        }
        self.0.iter().position(|(k, _)| k == key)
    }

    /// Value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.position(key).map(|i| &self.0[i].1)
    }

    /// Mutable value of a key.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.position(key).map(|i| &mut self.0[i].1)
    }

    /// Whether the map has a key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// Inserts a value and returns the one that it replaces.
    pub fn insert(&mut self, key: impl Into<CompactString>, value: Value) -> Option<Value> {
        let key = key.into();
        match self.find(&key) {
            Ok(i) => Some(std::mem::replace(&mut self.0[i].1, value)),
            Err(i) => {
                self.0.insert(i, (key, value));
                None
            }
        }
    }

    /// Value of a key, made by `make` if it is absent.
    pub fn entry_or_insert_with(&mut self, key: &str, make: impl FnOnce() -> Value) -> &mut Value {
        let i = match self.find(key) {
            Ok(i) => i,
            Err(i) => {
                self.0.insert(i, (key.into(), make()));
                i
            }
        };
        &mut self.0[i].1
    }

    /// Position of a field, or where it belongs, at `from` or after it.
    pub(crate) fn seek(&self, from: usize, field: Field<'_>) -> Result<usize, usize> {
        let mut index = from;
        while let Some((known, _)) = self.0.get(index) {
            match field.order(known) {
                Ordering::Less => index += 1,
                Ordering::Equal => return Ok(index),
                Ordering::Greater => break,
            }
        }
        Err(index)
    }

    pub(crate) fn value_at_mut(&mut self, index: usize) -> Option<&mut Value> {
        self.0.get_mut(index).map(|(_, value)| value)
    }

    /// Inserts a value at a position from [`Map::seek`].
    pub(crate) fn insert_at(&mut self, index: usize, key: CompactString, value: Value) {
        self.0.insert(index, (key, value));
    }

    /// Removes a key and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.position(key).map(|i| self.0.remove(i).1)
    }

    /// Keeps only the entries for which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &mut Value) -> bool) {
        self.0.retain_mut(|(k, v)| keep(k, v));
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Entries, sorted by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> + Clone {
        self.0.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// Mutable entries, sorted by key.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&str, &mut Value)> {
        self.0.iter_mut().map(|(k, v)| (k.as_str(), v))
    }

    /// Entries, sorted by key.
    pub fn entries(&self) -> &[(CompactString, Value)] {
        &self.0
    }

    /// Owned entries, sorted by key.
    pub fn into_entries(self) -> ThinVec<(CompactString, Value)> {
        self.0
    }
}

/// Order of two keys. Most differ in their first byte, which needs no call to compare.
fn order(a: &str, b: &str) -> Ordering {
    match (a.as_bytes().first(), b.as_bytes().first()) {
        (Some(x), Some(y)) if x != y => x.cmp(y),
        _ => a.cmp(b),
    }
}

impl<K: Into<CompactString>> FromIterator<(K, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(entries: I) -> Self {
        kevel_compute::charge(1);
        Map::from_entries(entries.into_iter().map(|(k, v)| (k.into(), v)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_three_words() {
        assert_eq!(size_of::<Value>(), 24);
    }

    #[test]
    fn of_equal_keys_the_last_wins() {
        let map = Map::from_iter([
            ("b", Value::Int(1)),
            ("a", Value::Int(2)),
            ("b", Value::Int(3)),
            ("a", Value::Int(4)),
        ]);
        let seen: Vec<_> = map.iter().map(|(k, v)| (k, v.as_int())).collect();
        assert_eq!(seen, [("a", Some(4)), ("b", Some(3))]);
    }

    #[test]
    fn what_is_empty_is_as_good_as_nothing() {
        let list = |items: &[i64]| Value::List(items.iter().map(|i| Value::Int(*i)).collect());
        let map = |entries: &[(&str, Value)]| Value::Map(entries.iter().cloned().collect());
        let full = map(&[("a", list(&[1])), ("b", Value::Int(0))]);
        for (a, b, expected) in [
            (map(&[]), map(&[("a", list(&[]))]), true),
            (map(&[("a", map(&[]))]), map(&[("a", Value::Null)]), true),
            (full.clone(), map(&[("a", list(&[1])), ("b", Value::Int(0)), ("c", map(&[]))]), true),
            (full.clone(), map(&[("a", list(&[1]))]), false),
            (full, map(&[("a", list(&[2])), ("b", Value::Int(0))]), false),
        ] {
            assert_eq!(equivalent(Some(&a), Some(&b)), expected, "{a:?} {b:?}");
            assert_eq!(equivalent(Some(&b), Some(&a)), expected, "{b:?} {a:?}");
        }
    }

    #[test]
    fn absent_lists_and_maps_equal_empty_ones() {
        let map = |entries: &[(&'static str, Value)]| {
            Value::Map(entries.iter().map(|(key, value)| (*key, value.clone())).collect())
        };
        let (one, list) = (Value::Int(1), Value::List(ThinVec::new()));
        let empty = map(&[("x", list.clone())]);
        let cases = [
            (map(&[]), empty.clone(), true),
            (map(&[("a", empty.clone()), ("b", one.clone())]), map(&[("b", one.clone())]), true),
            (map(&[("b", one.clone())]), map(&[("b", one.clone()), ("c", list.clone())]), true),
            (map(&[("a", one.clone())]), map(&[("b", one.clone())]), false),
            (map(&[("b", one.clone())]), map(&[("a", one.clone()), ("b", one.clone())]), false),
            (map(&[("a", one.clone())]), map(&[("a", Value::Int(2))]), false),
            (map(&[("a", one.clone())]), map(&[("a", one.clone()), ("z", one.clone())]), false),
            (list, Value::Null, true),
        ];
        for (a, b, expected) in cases {
            assert_eq!(equivalent(Some(&a), Some(&b)), expected, "{a:?} {b:?}");
            assert_eq!(equivalent(Some(&b), Some(&a)), expected, "{b:?} {a:?}");
        }
    }

    #[test]
    fn insert_get_remove() {
        let mut map = Map::new();
        for key in ["m", "z", "a", "q"] {
            assert_eq!(map.insert(key, Value::from(key)), None);
        }
        assert_eq!(map.insert("q", Value::Int(1)), Some(Value::from("q")));
        assert_eq!(map.iter().map(|(k, _)| k).collect::<Vec<_>>(), ["a", "m", "q", "z"]);
        assert_eq!(map.remove("m"), Some(Value::from("m")));
        assert_eq!((map.get("m"), map.get("z")), (None, Some(&Value::from("z"))));
        map.extend([("b".into(), Value::Int(2)), ("a".into(), Value::Int(3))]);
        let all: Vec<_> = map.iter().map(|(key, value)| (key, value.as_int())).collect();
        assert_eq!(all, [("a", Some(3)), ("b", Some(2)), ("q", Some(1)), ("z", None)]);
    }
}
