//! Strategies of CustomResourceDefinitions and of custom objects.

mod definition;
mod object;
mod rules;

pub use definition::DefinitionStrategy;
pub use object::CustomResource;
pub use rules::ObjectRules;
