//! Pruning of fields that a schema does not name.

use std::fmt::Write as _;

use crate::schema::{Scalar, Schema, StructFlags, Type};
use crate::value::{Map, Value};

/// Limit on the bytes of returned paths; only a hostile document reaches it.
const MAX_PATH_BYTES: usize = 1 << 20;

/// Drops every field that the schema does not name; returns their paths, sorted.
///
/// For trees that were decoded without their schema, such as patched custom resources.
///
/// ```
/// use kevel_api::{builtin, prune, value::{Map, Value}};
/// let schema = builtin::schema("", "v1", "ConfigMap").unwrap();
/// let mut object = Value::Map(Map::from_iter([("date", "today")].map(|(k, v)| (k, v.into()))));
/// assert_eq!(prune::prune(&mut object, schema), ["date"]);
/// assert_eq!(object, Value::Map(Map::new()));
/// ```
pub fn prune(value: &mut Value, schema: Schema<'_>) -> Vec<String> {
    let mut pruner = Pruner::default();
    pruner.value(value, Some(schema));
    pruner.dropped.sort_unstable();
    pruner.dropped
}

#[derive(Default)]
struct Pruner {
    path: String,
    dropped: Vec<String>,
    bytes: usize,
}

impl Pruner {
    /// Prunes a value; without a schema only scalars remain.
    fn value(&mut self, value: &mut Value, schema: Option<Schema<'_>>) {
        kevel_compute::charge(1);
        let Some(schema) = schema else { return self.nothing(value) };
        match (value, schema.ty()) {
            (Value::Map(map), Type::Struct(ty)) => {
                self.fields(map, schema, ty.flags.has(StructFlags::PRESERVE_UNKNOWN));
            }
            (Value::Map(map), Type::Map { value: of, .. }) => {
                for (key, value) in map.iter_mut() {
                    self.below(key, |pruner| pruner.value(value, Some(schema.other(*of))));
                }
            }
            (Value::List(list), Type::List { item, .. }) => {
                for (index, value) in list.iter_mut().enumerate() {
                    self.at(index, |pruner| pruner.value(value, Some(schema.other(*item))));
                }
            }
            (value, Type::Union { object, other }) => {
                let ty = if value.as_map().is_some() { object.ty } else { other.ty };
                self.value(value, Some(schema.other(ty)));
            }
            (_, Type::Any | Type::Scalar(Scalar::Raw | Scalar::Json | Scalar::FieldsV1)) => {}
            (_, Type::Struct(ty)) if ty.flags.has(StructFlags::PRESERVE_UNKNOWN) => {}
            (value, _) => self.nothing(value),
        }
    }

    fn fields(&mut self, map: &mut Map, schema: Schema<'_>, preserve: bool) {
        map.retain(|name, value| match schema.field(name) {
            Some(field) => {
                self.below(name, |pruner| pruner.value(value, Some(field.schema())));
                true
            }
            None => {
                if !preserve {
                    self.drop(name);
                }
                preserve
            }
        });
    }

    /// Prunes a value for which the schema specifies nothing.
    fn nothing(&mut self, value: &mut Value) {
        match value {
            Value::Map(map) => map.retain(|name, _| {
                self.drop(name);
                false
            }),
            Value::List(list) => {
                for (index, value) in list.iter_mut().enumerate() {
                    self.at(index, |pruner| pruner.nothing(value));
                }
            }
            _ => {}
        }
    }

    fn below(&mut self, key: &str, prune: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        prune(self);
        self.path.truncate(length);
    }

    fn at(&mut self, index: usize, prune: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        let _ = write!(self.path, "[{index}]");
        prune(self);
        self.path.truncate(length);
    }

    fn drop(&mut self, name: &str) {
        self.below(name, |pruner| {
            pruner.bytes += pruner.path.len();
            if pruner.bytes <= MAX_PATH_BYTES {
                pruner.dropped.push(pruner.path.clone());
            }
        });
    }
}
