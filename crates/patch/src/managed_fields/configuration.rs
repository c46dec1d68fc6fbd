//! Laying a configuration over an object without a record of who owns what: what mutating admission
//! policies do.

use std::fmt;

use kevel_api::schema::Schema;
use kevel_api::value::Value;

use super::atom::{Atom, TypeRef};
use super::merge::merge;
use super::path::PathElement;
use super::set::PathText;
use super::validate::{Duplicates, TypeErrors, validate, validate_made};

/// Why a configuration cannot be laid over an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigurationError {
    /// The configuration is not of the object's type.
    Config(TypeErrors),
    /// The object is not of its type.
    Live(TypeErrors),
    /// The configuration names these lists, maps or structs, which are replaced as a whole: what it
    /// does not say about them would be lost.
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

/// An object's tree with everything that a configuration says, and what it had besides.
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

/// How many places are named; a configuration can be atomic in every item of a list.
const MAX_ATOMICS: usize = 100;

/// The places of a tree that are replaced as a whole.
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
                // As the reference does: of maps whose keys have no names in the schema, the values
                // are not looked at.
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
