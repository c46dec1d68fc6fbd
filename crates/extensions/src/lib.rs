//! The API extensions server: custom resources.
//!
//! `validation` judges custom resource definitions, `schema` custom objects. Both are functions over
//! trees, without I/O.

pub mod schema;
pub mod validation;
