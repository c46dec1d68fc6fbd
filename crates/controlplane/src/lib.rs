//! The built-in kinds: their rows, and what is special about each of them.

pub mod admission;
mod columns;
mod kinds;
mod namespace;
mod pod;
mod rows;
mod rules;
mod system_namespaces;
mod validation;

pub use rows::{Answers, StorageOptions, rows};
pub use system_namespaces::system_namespaces;
