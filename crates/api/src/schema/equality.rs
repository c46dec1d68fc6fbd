//! Equality of values of a type.

use super::{Scalar, Schema, Type};
use crate::quantity::Quantity;
use crate::value::{Map, Value};

impl Schema<'_> {
    /// Whether two values are semantically equal (upstream: equality.Semantic.DeepEqual): an empty list or map equals
    /// an absent one, and absent equals zero, but a nil pointer differs from one to an empty value. Quantities are
    /// compared by value.
    ///
    /// ```
    /// use kevel_api::value::{Map, Value};
    /// let pod = kevel_api::builtin::schema("", "v1", "Pod").unwrap();
    /// let spec = |field: &str, value| {
    ///     Value::Map(Map::from_iter([("spec", Value::Map(Map::from_iter([(field, value)])))]))
    /// };
    /// let none = Value::Map(Map::new());
    /// let same = |value: Value| pod.equal(Some(&value), Some(&none));
    /// assert!(same(spec("tolerations", Value::List(Default::default()))));
    /// assert!(same(spec("nodeSelector", Map::new().into())));
    /// assert!(!same(spec("affinity", Map::new().into())));
    /// ```
    pub fn equal(self, a: Option<&Value>, b: Option<&Value>) -> bool {
        let there = |value: Option<&'_ Value>| value.is_some_and(|value| !value.is_null());
        match (a, b) {
            (Some(a), Some(b)) if there(Some(a)) && there(Some(b)) => self.both_equal(a, b),
            (Some(one), _) if there(Some(one)) => self.is_zero(one),
            (_, Some(one)) if there(Some(one)) => self.is_zero(one),
            _ => true,
        }
    }

    /// Whether two values of a built-in type are equal by Go's `reflect.DeepEqual`: an empty list or map differs from
    /// an absent one.
    pub fn deep_equal(self, a: &Value, b: &Value) -> bool {
        kevel_compute::charge(1);
        if a == b {
            return true;
        }
        match (self.ty(), a, b) {
            (Type::Struct(_), Value::Map(a), Value::Map(b)) => {
                let both = a.iter().all(|(key, value)| match (b.get(key), self.field(key)) {
                    (Some(other), Some(field)) => field.schema().deep_equal(value, other),
                    (other, _) => other.is_none() && self.is_nothing(key, value),
                });
                both && b
                    .iter()
                    .all(|(key, value)| a.contains_key(key) || self.is_nothing(key, value))
            }
            (Type::Map { value, .. }, Value::Map(a), Value::Map(b)) => {
                let of = self.other(*value);
                let same = |(key, value): (&str, &Value)| {
                    b.get(key).is_some_and(|other| of.deep_equal(value, other))
                };
                a.len() == b.len() && a.iter().all(same)
            }
            (Type::List { item, .. }, Value::List(a), Value::List(b)) => {
                let item = self.other(*item);
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| item.deep_equal(a, b))
            }
            _ => false,
        }
    }

    /// Whether a field with this value equals an absent one.
    pub fn is_nothing(self, name: &str, value: &Value) -> bool {
        let Some(field) = self.field(name).filter(|field| !field.pointer()) else {
            return value.is_null();
        };
        match (field.schema().ty(), value) {
            (Type::List { .. } | Type::Map { .. } | Type::Scalar(Scalar::Bytes), _) => {
                value.is_null()
            }
            (Type::Struct(_), Value::Map(map)) => {
                map.iter().all(|(name, value)| field.schema().is_nothing(name, value))
            }
            _ => value.is_null() || field.schema().is_zero(value),
        }
    }

    fn both_equal(self, a: &Value, b: &Value) -> bool {
        kevel_compute::charge(1);
        if a == b {
            return true;
        }
        match (self.ty(), a, b) {
            (Type::Struct(_), Value::Map(a), Value::Map(b)) => {
                self.has_equal(a, b)
                    && b.iter()
                        .all(|(key, value)| a.contains_key(key) || self.is_zero_field(key, value))
            }
            (Type::Map { value, .. }, Value::Map(a), Value::Map(b)) => {
                let same = |(key, value): (&str, &Value), of: Self| {
                    b.get(key).is_some_and(|other| of.both_equal(value, other))
                };
                a.len() == b.len() && a.iter().all(|entry| same(entry, self.other(*value)))
            }
            (Type::List { item, .. }, Value::List(a), Value::List(b)) => {
                let item = self.other(*item);
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| item.both_equal(a, b))
            }
            (Type::Union { object, .. }, Value::Map(_), Value::Map(_)) => {
                self.other(object.ty).both_equal(a, b)
            }
            (Type::Union { other, .. }, Value::List(_), Value::List(_)) => {
                self.other(other.ty).both_equal(a, b)
            }
            (Type::Scalar(Scalar::Quantity), Value::String(a), Value::String(b)) => {
                let read = |text: &str| text.parse::<Quantity>().ok();
                read(a).is_some_and(|a| read(b) == Some(a))
            }
            _ => false,
        }
    }

    /// Whether all fields of one struct are equal in the other.
    fn has_equal(self, a: &Map, b: &Map) -> bool {
        a.iter().all(|(key, value)| match (b.get(key), self.field(key)) {
            (Some(other), Some(field)) => field.schema().both_equal(value, other),
            (Some(other), None) => value == other,
            (None, _) => self.is_zero_field(key, value),
        })
    }

    fn is_zero_field(self, name: &str, value: &Value) -> bool {
        let field = self.field(name);
        value.is_null()
            || field.is_some_and(|field| !field.pointer() && field.schema().is_zero(value))
    }

    /// Whether a value equals an absent one.
    fn is_zero(self, value: &Value) -> bool {
        match (self.ty(), value) {
            (Type::Struct(_), Value::Map(map)) => {
                map.iter().all(|(name, value)| self.is_zero_field(name, value))
            }
            (Type::Scalar(Scalar::Quantity), Value::String(text)) => text == "0",
            (Type::Scalar(Scalar::Duration), Value::String(text)) => text == "0s",
            _ => value.is_empty(),
        }
    }
}
