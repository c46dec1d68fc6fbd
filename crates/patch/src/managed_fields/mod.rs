//! Who owns which field of an object, and what follows from it: apply.
//!
//! Every write leaves in `metadata.managedFields` the set of fields that its manager set. An
//! [ordinary write](FieldManager::update) takes what it changes from everybody else; an
//! [apply](FieldManager::apply) says all that its manager wants, so that fields it no longer names
//! go, and fields that somebody else set to something else are a conflict.

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
