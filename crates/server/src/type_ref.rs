//! The type of an object, whoever declares it.

use std::sync::Arc;

use kevel_api::schema::{Schema, Table, TypeId};

/// A type, built in or of a custom kind.
#[derive(Clone, Debug)]
pub enum TypeRef {
    /// A type of `api/`.
    BuiltIn(Schema<'static>),
    /// A type of a custom resource definition, in a table of its own.
    Custom(Arc<Table>, TypeId),
}

impl TypeRef {
    /// The type, as all that is generic reads it.
    pub fn schema(&self) -> Schema<'_> {
        match self {
            TypeRef::BuiltIn(schema) => *schema,
            TypeRef::Custom(table, id) => Schema::new(table, *id),
        }
    }
}
