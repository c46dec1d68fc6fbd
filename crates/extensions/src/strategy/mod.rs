//! Strategies of CustomResourceDefinitions and of custom objects.

mod definition;
mod object;

pub use definition::DefinitionStrategy;
pub use object::CustomResource;
