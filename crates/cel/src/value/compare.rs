//! Equality and order of values. Numbers of different types are compared by value.

use std::cmp::Ordering;

use kevel_api::value::Value as Tree;

use super::index::{Bucket, Index};
use super::{List, Map, Value};
use crate::declared::ListKind;
use crate::error::Error;

impl<'a> Value<'a> {
    /// Whether two values are equal; an error if their types have no equality.
    pub fn equals(&self, other: &Value<'a>) -> Result<bool, Error> {
        if let (Value::Null, _) | (_, Value::Null) = (self, other) {
            return Ok(matches!((self, other), (Value::Null, Value::Null)));
        }
        Ok(match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::String(a), Value::String(b)) => a == b,
            (Value::Bytes(a), Value::Bytes(b)) => a == b,
            (Value::Duration(a), Value::Duration(b)) => a == b,
            (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
            (Value::Type(a), Value::Type(b)) => a.name() == b.name(),
            (Value::List(a), Value::List(b)) => return lists_equal(a, b),
            (Value::Map(a), Value::Map(b)) => return maps_equal(a, b),
            (Value::Optional(a), Value::Optional(b)) => match (a, b) {
                (None, None) => true,
                (Some(a), Some(b)) => return a.equals(b),
                _ => false,
            },
            (Value::Extension(a), Value::Extension(b)) => return a.equals(b),
            (Value::Extension(_), _) => return Err(Error::no_such_overload()),
            (Value::Object(a), Value::Object(b)) => {
                if a.type_name != b.type_name || a.fields.len() != b.fields.len() {
                    return Ok(false);
                }
                for (name, value) in &a.fields {
                    match b.fields.iter().find(|(other, _)| other == name) {
                        Some((_, other)) if value.equals(other)? => {}
                        _ => return Ok(false),
                    }
                }
                true
            }
            _ => compare_numbers(self, other) == Some(Ordering::Equal),
        })
    }

    /// Order of two values; an error if their types have none.
    pub fn compare(&self, other: &Value<'a>) -> Result<Ordering, Error> {
        let is_nan = |value: &Value<'_>| matches!(value, Value::Double(d) if d.is_nan());
        Ok(match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::String(a), Value::String(b)) => a.cmp(b),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            (Value::Duration(a), Value::Duration(b)) => a.cmp(b),
            (Value::Timestamp(a), Value::Timestamp(b)) => a.instant().cmp(&b.instant()),
            (Value::Double(_), _) | (Value::Int(_) | Value::Uint(_), Value::Double(_))
                if is_nan(self) || is_nan(other) =>
            {
                return Err(Error::new("NaN values cannot be ordered"));
            }
            _ => return compare_numbers(self, other).ok_or_else(Error::no_such_overload),
        })
    }

    /// Bucket of a list's element, by its key fields.
    pub(super) fn bucket_by(&self, names: &[String]) -> Result<Bucket<'a>, Error> {
        let mut text = Vec::new();
        for field in self.map_key(names)? {
            kevel_codec::json::encode_any(field.unwrap_or(&Tree::Null), &mut text);
            text.push(b',');
        }
        Ok(Bucket::Key(text))
    }

    /// Key fields of a list's element.
    pub(super) fn map_key(&self, names: &[String]) -> Result<Vec<Option<&'a Tree>>, Error> {
        match self {
            Value::Map(map) => Ok(map.key_fields(names)),
            _ => Err(Error::new(
                "unexpected data format for element of array with x-kubernetes-list-type=map",
            )),
        }
    }
}

/// `None` if one is not a number, or NaN.
fn compare_numbers(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Int(a), Value::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Uint(a), Value::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Double(a), Value::Int(b)) => a.partial_cmp(&(*b as f64)),
        (Value::Int(a), Value::Double(b)) => (*a as f64).partial_cmp(b),
        (Value::Double(a), Value::Uint(b)) => a.partial_cmp(&(*b as f64)),
        (Value::Uint(a), Value::Double(b)) => (*a as f64).partial_cmp(b),
        _ => None,
    }
}

fn lists_equal<'a>(a: &List<'a>, b: &List<'a>) -> Result<bool, Error> {
    if a.len() != b.len() {
        return Ok(false);
    }
    match a.declared_kind() {
        Some(ListKind::Set) => all_found(a, b, |x| Ok(Bucket::of(x)), |x, y| x.equals(y)),
        Some(ListKind::Map(keys)) => all_found(
            a,
            b,
            |x| x.bucket_by(keys),
            |x, y| Ok(x.map_key(keys)? == y.map_key(keys)? && x.equals(y)?),
        ),
        _ => {
            for (x, y) in a.iter().zip(b.iter()) {
                // Elements that cannot be compared do not make lists unequal.
                if !x?.equals(&y?).unwrap_or(true) {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

/// Whether list `a` has all elements of `b`, in any order.
fn all_found<'a>(
    a: &List<'a>,
    b: &List<'a>,
    bucket: impl Fn(&Value<'a>) -> Result<Bucket<'a>, Error>,
    same: impl Fn(&Value<'a>, &Value<'a>) -> Result<bool, Error>,
) -> Result<bool, Error> {
    let elements = a.iter().collect::<Result<Vec<_>, _>>()?;
    let mut index = Index::default();
    for (at, element) in elements.iter().enumerate() {
        index.add(bucket(element)?, at);
    }
    for other in b.iter() {
        let other = other?;
        if index.find(&bucket(&other)?, |at| same(&elements[at], &other))?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn maps_equal<'a>(a: &Map<'a>, b: &Map<'a>) -> Result<bool, Error> {
    if a.len() != b.len() {
        return Ok(false);
    }
    for (key, value) in a.entries() {
        let Some(other) = b.find(&key) else { return Ok(false) };
        if !value?.equals(&other?).unwrap_or(true) {
            return Ok(false);
        }
    }
    Ok(true)
}
