//! Field ownership (`managedFields`) and server-side apply.
//!
//! Every write records in `metadata.managedFields` the set of fields that its manager set. An
//! [update](FieldManager::update) takes the fields that it changes from all other managers. An
//! [apply](FieldManager::apply) states all fields that its manager wants: fields that it no longer names are removed,
//! and fields that another manager set to another value are conflicts.

mod apply;
mod atom;
mod compare;
mod configuration;
mod conflict;
mod creation;
mod entry;
mod field_manager;
mod field_set;
mod fields_v1;
mod filter;
mod last_applied;
mod merge;
mod path;
mod reconcile;
mod remove;
mod set;
#[cfg(test)]
mod tests;
mod update;
mod validate;

pub use apply::ApplyError;
pub use configuration::{ConfigurationError, merge_configuration};
pub use conflict::{Conflict, Conflicts};
pub use entry::{DecodeError, ManagerId, Operation, check};
pub use field_manager::{FieldManager, OtherVersions};
pub use fields_v1::FieldsError;
pub use filter::Filter;
pub use path::PathElement;
pub use set::Set;
pub use validate::TypeErrors;
