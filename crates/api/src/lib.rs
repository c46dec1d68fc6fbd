//! Kubernetes' API as data: types, values, names, selectors, errors. No I/O.

pub mod builtin;
pub mod schema;
pub mod value;
