//! The type of an object, whoever declares it.

use std::sync::Arc;

use kevel_api::schema::{Schema, Table, TypeId};

/// A type, built in or of a custom kind.
#[derive(Clone, Debug)]
pub enum TypeRef {
    BuiltIn(Schema<'static>),
    Custom(Arc<Table>, TypeId),
}

impl TypeRef {
    pub fn schema(&self) -> Schema<'_> {
        match self {
            TypeRef::BuiltIn(schema) => *schema,
            TypeRef::Custom(table, id) => Schema::new(table, *id),
        }
    }
}
