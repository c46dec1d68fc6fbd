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
    /// Whether objects of this type are trees that no type of the program describes, as the reference's
    /// `unstructured.Unstructured`: what goes for Go's structs (a zero is as good as nothing, the kind goes
    /// without saying, fields stand in the order of their declaration) does not go for them.
    pub fn is_unstructured(&self) -> bool {
        matches!(self, TypeRef::Custom(..))
    }

    /// The type, as all that is generic reads it.
    pub fn schema(&self) -> Schema<'_> {
        match self {
            TypeRef::BuiltIn(schema) => *schema,
            TypeRef::Custom(table, id) => Schema::new(table, *id),
        }
    }
}
