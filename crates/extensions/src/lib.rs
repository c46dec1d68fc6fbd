//! The API extensions server: custom resources.
//!
//! `validation` judges custom resource definitions, `schema` custom objects. Both are functions over
//! trees, without I/O.

pub mod columns;
mod controllers;
pub mod conversion;
pub mod definition;
mod definitions;
mod handler;
pub mod rows;
pub mod scale;
pub mod schema;
mod server;
pub mod stored;
mod stored_definition;
pub mod strategy;
pub mod validation;

pub use controllers::Controllers;
pub use definitions::DefinitionForm;
pub use handler::CustomResources;
pub use rows::Place;
pub use server::Extensions;
