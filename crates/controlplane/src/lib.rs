//! The built-in kinds: their rows, and what is special about each of them.

mod columns;
mod kinds;
mod namespace;
mod namespace_lifecycle;
mod node_restriction;
mod pod;
mod rows;
mod system_namespaces;

pub use namespace_lifecycle::NamespaceLifecycle;
pub use node_restriction::{NodeRestriction, NodeRestrictionFeatures};
pub use rows::{Answers, StorageOptions, rows};
pub use system_namespaces::system_namespaces;
