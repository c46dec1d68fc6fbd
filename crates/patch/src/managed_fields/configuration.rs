//! Merge of an apply configuration into an object without field ownership, for mutating admission policies.

use std::fmt;

use kevel_api::schema::Schema;
use kevel_api::value::Value;

use super::atom::{Atom, TypeRef};
use super::merge::merge;
use super::path::PathElement;
use super::set::PathText;
use super::validate::{Duplicates, TypeErrors, validate, validate_made};

/// Error of merging a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigurationError {
    /// The configuration does not fit the object's type.
    Config(TypeErrors),
    /// The object does not fit its type.
    Live(TypeErrors),
    /// The configuration has these atomic lists, maps or structs, which would be replaced as a whole and lose other
    /// content.
    Atomic(Vec<String>),
}

impl fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigurationError::Config(errors) => {
                write!(f, "failed to convert patch object to typed object: {errors}")
            }
            ConfigurationError::Live(errors) => {
                write!(f, "failed to convert original object to typed object: {errors}")
            }
            ConfigurationError::Atomic(paths) => write!(
                f,
                "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
                paths.join(", ")
            ),
        }
    }
}

impl std::error::Error for ConfigurationError {}

/// Tree of an object after merging a configuration into it.
///
/// ```
/// use kevel_api::builtin;
/// use kevel_codec::json::{Unknown, decode_any};
/// use kevel_patch::managed_fields::merge_configuration;
/// let schema = builtin::schema("apps", "v1", "Deployment").unwrap();
/// let tree = |text: &str| decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value;
/// let live = tree(r#"{"metadata":{"labels":{"a":"1"}},"spec":{"replicas":1}}"#);
/// let merged = merge_configuration(&live, &tree(r#"{"spec":{"replicas":2}}"#), schema).unwrap();
/// assert_eq!(merged, tree(r#"{"metadata":{"labels":{"a":"1"}},"spec":{"replicas":2}}"#));
/// let atomic = tree(r#"{"spec":{"selector":{}}}"#);
/// let refused = merge_configuration(&live, &atomic, schema).unwrap_err().to_string();
/// assert!(refused.ends_with("may not mutate atomic arrays, maps or structs: .spec.selector"));
/// ```
pub fn merge_configuration(
    live: &Value,
    config: &Value,
    schema: Schema<'_>,
) -> Result<Value, ConfigurationError> {
    let ty = TypeRef::of(schema);
    validate_made(config, ty).map_err(ConfigurationError::Config)?;
    let mut atomics = Atomics::default();
    atomics.find(config, ty);
    if !atomics.found.is_empty() {
        return Err(ConfigurationError::Atomic(atomics.found));
    }
    validate(live, ty, Duplicates::Allow).map_err(ConfigurationError::Live)?;
    Ok(merge(live, config, ty))
}

/// Limit on the paths named in the error; a configuration can be atomic in every item of a list.
const MAX_ATOMICS: usize = 100;

/// Atomic values in a tree.
#[derive(Default)]
struct Atomics {
    path: Vec<PathElement>,
    found: Vec<String>,
}

impl Atomics {
    fn find(&mut self, value: &Value, ty: TypeRef<'_>) {
        match (ty.atom(Some(value)), value) {
            (Atom::Map(map_type), Value::Map(map)) => {
                self.note(map_type.atomic);
                // As in the reference, values of maps with arbitrary keys are not searched.
                for (key, value) in map.iter() {
                    if let Some(ty) = map_type.field(key) {
                        self.below(PathElement::field(key), value, ty);
                    }
                }
            }
            (Atom::List(list), Value::List(items)) => {
                self.note(list.is_atomic());
                for (i, item) in items.iter().enumerate() {
                    self.below(PathElement::Index(i as i64), item, list.element);
                }
            }
            _ => {}
        }
    }

    fn below(&mut self, element: PathElement, value: &Value, ty: TypeRef<'_>) {
        self.path.push(element);
        self.find(value, ty);
        self.path.pop();
    }

    fn note(&mut self, atomic: bool) {
        if atomic && self.found.len() < MAX_ATOMICS {
            let path: Vec<&PathElement> = self.path.iter().collect();
            self.found.push(PathText(&path).to_string());
        }
    }
}
