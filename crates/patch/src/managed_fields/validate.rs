//! Validation of a tree against its type, as far as field ownership needs it.

use std::fmt;

use kevel_api::field_error::{MAX_PATH_BYTES, print_up_to};
use kevel_api::value::{Map, Value};

use super::atom::{Atom, ListType, ScalarType, TypeRef};
use super::path::PathElement;
use super::set::PathText;
use crate::go_format::{Plain, Syntax, go_type};

/// Type errors of a tree: paths and messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeErrors(Vec<(String, String)>);

impl fmt::Display for TypeErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |(path, message): &(String, String)| match path.as_str() {
            "" => message.clone(),
            path => format!("{path}: {message}"),
        };
        match &self.0[..] {
            [only] => f.write_str(&line(only)),
            all => {
                f.write_str("errors:")?;
                all.iter().try_for_each(|error| write!(f, "\n  {}", line(error)))
            }
        }
    }
}

/// Limit on collected errors; a hostile document has one at every node.
const MAX_ERRORS: usize = 100;

/// Checks a tree against its type.
pub(super) fn validate(
    value: &Value,
    ty: TypeRef<'_>,
    duplicates: Duplicates,
) -> Result<(), TypeErrors> {
    check(value, ty, duplicates, Nulls::Allow)
}

/// Checks a configuration from a CEL expression, in which null is not allowed: CEL's null is not Go's nil.
pub(super) fn validate_made(value: &Value, ty: TypeRef<'_>) -> Result<(), TypeErrors> {
    check(value, ty, Duplicates::Forbid, Nulls::Forbid)
}

fn check(
    value: &Value,
    ty: TypeRef<'_>,
    duplicates: Duplicates,
    nulls: Nulls,
) -> Result<(), TypeErrors> {
    let mut walker = Walker { duplicates, nulls, path: Vec::new(), errors: Vec::new() };
    walker.value(value, ty);
    if walker.errors.is_empty() { Ok(()) } else { Err(TypeErrors(walker.errors)) }
}

/// Whether null is a value of every type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nulls {
    Allow,
    Forbid,
}

/// Whether lists may have duplicate elements: configurations may not, stored objects may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duplicates {
    Allow,
    Forbid,
}

struct Walker {
    duplicates: Duplicates,
    nulls: Nulls,
    path: Vec<PathElement>,
    errors: Vec<(String, String)>,
}

impl Walker {
    fn error(&mut self, message: String) {
        if self.errors.len() < MAX_ERRORS {
            let path: Vec<&PathElement> = self.path.iter().collect();
            self.errors.push((print_up_to(MAX_PATH_BYTES, PathText(&path)), message));
        }
    }

    fn value(&mut self, value: &Value, ty: TypeRef<'_>) {
        match (ty.atom(Some(value)), value) {
            (_, Value::Null) if self.nulls == Nulls::Allow => {}
            (_, Value::Null) if ty.is_open() => {
                self.error("expected any scalar, got &{NULL_VALUE}".to_owned());
            }
            (Atom::Scalar(scalar), _) => self.scalar(value, scalar),
            (Atom::List(list), Value::List(items)) => self.list(items, list),
            (Atom::Map(map_type), Value::Map(map)) => {
                for (key, value) in map.iter() {
                    let element = PathElement::field(key);
                    match map_type.type_of(key) {
                        Some(ty) => self.below(element, value, ty),
                        None => {
                            self.path.push(element);
                            self.error("field not declared in schema".to_owned());
                            self.path.pop();
                            return;
                        }
                    }
                }
            }
            (Atom::List(_), _) => self.error(format!("expected list, got {}", pointer(value))),
            (Atom::Map(_), _) => self.error(format!("expected map, got {}", pointer(value))),
        }
    }

    fn list(&mut self, items: &[Value], list: ListType<'_>) {
        if list.is_atomic() {
            for (i, item) in items.iter().enumerate() {
                self.below(PathElement::Index(i as i64), item, list.element);
            }
            return;
        }
        let mut elements = Vec::with_capacity(items.len());
        let found = items.iter().enumerate().try_for_each(|(i, item)| {
            let element = list.element_of(item).map_err(|error| format!("element {i}: {error}"))?;
            elements.push(element);
            Ok(())
        });
        let repeated = match self.duplicates {
            Duplicates::Forbid => repeated(&elements),
            Duplicates::Allow => vec![false; elements.len()],
        };
        for ((element, item), repeated) in elements.into_iter().zip(items).zip(repeated) {
            if repeated {
                self.error(format!("duplicate entries for key {element}"));
            }
            self.below(element, item, list.element);
        }
        if let Err(error) = found {
            self.error(error);
        }
    }

    fn below(&mut self, element: PathElement, value: &Value, ty: TypeRef<'_>) {
        self.path.push(element);
        self.value(value, ty);
        self.path.pop();
    }

    fn scalar(&mut self, value: &Value, scalar: ScalarType) {
        let number = matches!(value, Value::Int(_) | Value::Float(_));
        let (fits, expected) = match scalar {
            ScalarType::Numeric => (number, "numeric (int or float)"),
            ScalarType::String => (value.as_str().is_some(), "string"),
            ScalarType::Boolean => (value.as_bool().is_some(), "boolean"),
            ScalarType::Untyped => {
                (number || matches!(value, Value::String(_) | Value::Bool(_)), "any scalar")
            }
        };
        if fits {
            return;
        }
        // The reference prints a pointer to its wrapper of the value, differently for each type.
        let got = match scalar {
            ScalarType::Numeric if value.is_null() => "structpb.NullValue".to_owned(),
            ScalarType::String if value.is_null() => "&value.valueUnstructured{Value:0}".to_owned(),
            ScalarType::Numeric => go_type(value).to_owned(),
            ScalarType::String => {
                format!("&value.valueUnstructured{{Value:{}}}", Syntax(&as_integers(value)))
            }
            ScalarType::Boolean | ScalarType::Untyped => pointer(value),
        };
        self.error(format!("expected {expected}, got {got}"));
    }
}

/// Marks the elements that occurred before.
fn repeated(elements: &[PathElement]) -> Vec<bool> {
    let mut repeated = vec![false; elements.len()];
    if elements.is_sorted_by(|a, b| a < b) {
        return repeated;
    }
    let mut order: Vec<usize> = (0..elements.len()).collect();
    order.sort_by(|a, b| elements[*a].cmp(&elements[*b]));
    for same in order.chunk_by(|a, b| elements[*a] == elements[*b]) {
        same.iter().skip(1).for_each(|place| repeated[*place] = true);
    }
    repeated
}

fn pointer(value: &Value) -> String {
    if value.is_null() {
        return "&{NULL_VALUE}".to_owned();
    }
    format!("&{{{}}}", Plain(&as_integers(value)))
}

/// Converts numbers without a fraction to integers, as the reference does in configurations however they are written.
fn as_integers(value: &Value) -> Value {
    /// Smallest float beyond 64-bit integers.
    const TOO_LARGE: f64 = 9_223_372_036_854_775_808.0;
    match value {
        Value::Float(float) if float.fract() == 0.0 && float.abs() < TOO_LARGE => {
            Value::Int(*float as i64)
        }
        Value::List(items) => Value::List(items.iter().map(as_integers).collect()),
        Value::Map(map) => {
            let entries = map.entries().iter();
            let entries = entries.map(|(key, value)| (key.clone(), as_integers(value)));
            Value::Map(Map::from_sorted(entries.collect()))
        }
        other => other.clone(),
    }
}
