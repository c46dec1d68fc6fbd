//! Type of an object, built-in or custom.

use std::sync::Arc;

use kevel_api::schema::{Schema, Table, TypeId};

/// A type, built-in or of a custom resource.
#[derive(Clone, Debug)]
pub enum TypeRef {
    /// A built-in type of `api/`.
    BuiltIn(Schema<'static>),
    /// A type of a CustomResourceDefinition, in a table of its own.
    Custom(Arc<Table>, TypeId),
}

impl TypeRef {
    /// Whether objects of this type are unstructured (upstream: `unstructured.Unstructured`): the conventions of Go's
    /// structs do not apply to them (zero values are absent, the kind is implied, fields have the order of their
    /// declaration).
    pub fn is_unstructured(&self) -> bool {
        matches!(self, TypeRef::Custom(..))
    }

    /// Schema of the type.
    pub fn schema(&self) -> Schema<'_> {
        match self {
            TypeRef::BuiltIn(schema) => *schema,
            TypeRef::Custom(table, id) => Schema::new(table, *id),
        }
    }
}
