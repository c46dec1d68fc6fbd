//! The rules of definitions and of custom objects.

mod definition;
mod object;

pub use definition::DefinitionStrategy;
pub use object::CustomResource;
