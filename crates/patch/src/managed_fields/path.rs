//! Path elements: steps from a value to a field or element in it.

use std::cmp::Ordering;
use std::fmt;

use compact_str::CompactString;
use kevel_api::quote::Quoted;
use kevel_api::value::Value;

use crate::go_format::Plain;

/// Path element: selects a field of a map or an element of a list.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// Field of a struct or key of a map.
    Field(CompactString),
    /// List element with these key fields, sorted by name.
    Key(Vec<(CompactString, Value)>),
    /// Element of a set that equals this scalar.
    Value(Value),
    /// List element at a position.
    Index(i64),
}

impl PathElement {
    /// Path element of a field.
    pub fn field(name: &str) -> PathElement {
        PathElement::Field(name.into())
    }

    fn rank(&self) -> u8 {
        match self {
            PathElement::Field(_) => 0,
            PathElement::Key(_) => 1,
            PathElement::Value(_) => 2,
            PathElement::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (PathElement::Field(a), PathElement::Field(b)) => a.as_str().cmp(b.as_str()),
            (PathElement::Key(a), PathElement::Key(b)) => {
                for ((name, value), (other_name, other_value)) in a.iter().zip(b) {
                    let order = name.as_str().cmp(other_name.as_str());
                    let order = order.then_with(|| compare_values(value, other_value));
                    if order.is_ne() {
                        return order;
                    }
                }
                a.len().cmp(&b.len())
            }
            (PathElement::Value(a), PathElement::Value(b)) => compare_values(a, b),
            (PathElement::Index(a), PathElement::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

/// Prints as `.spec`, `[name="a"]`, `[="a"]`, `[0]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathElement::Field(name) => write!(f, ".{name}"),
            PathElement::Key(fields) => {
                f.write_str("[")?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", Text(value))?;
                }
                f.write_str("]")
            }
            PathElement::Value(value) => write!(f, "[={}]", Text(value)),
            PathElement::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Prints a value inside a path.
struct Text<'a>(&'a Value);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("null"),
            Value::String(text) => Quoted(text).fmt(f),
            Value::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    write!(f, "{comma}{}", Text(item))?;
                }
                f.write_str("]")
            }
            Value::Map(map) => {
                map.iter().try_for_each(|(key, value)| write!(f, "{key}={}", Text(value)))
            }
            other => Plain(other).fmt(f),
        }
    }
}

/// Orders values of all types: numbers by size, then strings, booleans, lists, maps, null.
pub(super) fn compare_values(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) => a.total_cmp(b),
        (Value::Float(a), Value::Int(b)) => a.total_cmp(&(*b as f64)),
        (Value::Int(a), Value::Float(b)) => (*a as f64).total_cmp(b),
        (Value::String(a), Value::String(b)) => a.as_str().cmp(b.as_str()),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::List(a), Value::List(b)) => {
            let first = a.iter().zip(b).map(|(a, b)| compare_values(a, b)).find(|o| o.is_ne());
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Map(a), Value::Map(b)) => {
            let pairs = a.iter().zip(b.iter());
            let first = pairs
                .map(|((k, v), (other_k, other_v))| {
                    k.cmp(other_k).then_with(|| compare_values(v, other_v))
                })
                .find(|order| order.is_ne());
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        _ => value_rank(a).cmp(&value_rank(b)),
    }
}

fn value_rank(value: &Value) -> u8 {
    match value {
        Value::Int(_) | Value::Float(_) => 0,
        Value::String(_) | Value::Raw(_) => 1,
        Value::Bool(_) => 2,
        Value::List(_) => 3,
        Value::Map(_) => 4,
        Value::Null => 5,
    }
}

/// Whether two values are equal; an integer equals a float of the same value.
pub(super) fn same_values(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Int(a), Value::Float(b)) | (Value::Float(b), Value::Int(a)) => *a as f64 == *b,
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_values(a, b))
        }
        (Value::Map(a), Value::Map(b)) => {
            let mut pairs = a.iter().zip(b.iter());
            a.len() == b.len() && pairs.all(|((k, v), (l, w))| k == l && same_values(v, w))
        }
        _ => a == b,
    }
}
