//! The built-in kinds: their rows, and what is special about each of them.

pub mod admission;
mod batch;
mod columns;
mod identity_lease;
mod kinds;
mod namespace;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod rows;
mod rules;
pub mod service;
mod system_namespaces;
mod validation;

pub use identity_lease::{IdentityLease, collect_identity_leases};
pub use rows::{Answers, StorageOptions, rows};
pub use system_namespaces::system_namespaces;
