//! Kubernetes' API as data: types, values, names, selectors, errors. No I/O.

pub mod builtin;
mod constant;
pub mod convert;
pub mod crd_schema;
pub mod default;
mod default_rules;
pub mod duration;
pub mod field_error;
pub mod gvk;
pub mod ip;
pub mod json_path;
pub mod json_string;
pub mod name;
pub mod prune;
pub mod quantity;
pub mod quote;
pub mod references;
pub mod schema;
pub mod selector;
pub mod status;
pub mod time;
pub mod unified_diff;
pub mod url;
pub mod value;
pub mod warning;
