//! The ways to change an object: JSON patch, merge patch, strategic merge patch and apply, and the
//! record of who owns which field.
//!
//! All of them work on an object's JSON tree, which holds what a client sees: [`unstructured`]
//! makes it out of a typed value.

mod go_format;
pub mod json_patch;
pub mod managed_fields;
pub mod merge_patch;
pub mod strategic;
mod unstructured;
mod zip;

pub use unstructured::unstructured;
