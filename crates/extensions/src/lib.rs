//! The API extensions server: custom resources.
//!
//! `validation` validates CustomResourceDefinitions, `schema` custom objects. Both are functions over trees, without
//! I/O.

mod built_in;
pub mod columns;
mod controllers;
pub mod conversion;
pub mod definition;
mod definitions;
mod malformed;
pub mod rows;
pub mod scale;
pub mod schema;
mod server;
pub mod stored;
mod stored_definition;
pub mod strategy;
mod terminating;
pub mod validation;

pub use built_in::BuiltIn;
pub use controllers::Controllers;
pub use definitions::DefinitionForm;
pub use rows::RestOptions;
pub use server::Extensions;
