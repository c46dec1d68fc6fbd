//! The ways to change an object: JSON patch, merge patch, strategic merge patch and apply, and the
//! record of who owns which field.
//!
//! Patches work on an object's JSON tree, which holds what a client sees: [`unstructured`] makes it
//! out of a typed value, and what a patch makes of it is for the decoder to read again. Ownership
//! takes typed values.

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
