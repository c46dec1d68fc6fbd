//! Changes of objects: JSON patch, merge patch, strategic merge patch and server-side apply, with field ownership
//! (`managedFields`).
//!
//! Patches work on an object's JSON tree as clients see it: [`unstructured`] makes it from a typed value, and the
//! decoder reads the patched tree. Field ownership takes typed values.

mod from_unstructured;
pub mod go_format;
pub mod json_patch;
mod lazy;
pub mod managed_fields;
pub mod merge_patch;
pub mod strategic;
mod unstructured;
mod zip;

pub use from_unstructured::from_unstructured;
pub use lazy::lazily_patched;
pub use unstructured::{unstructured, unstructured_but_fields};
