//! JSON, YAML and protobuf, each written once over `Schema`.

pub mod base64;
mod field_slots;
pub mod json;
pub mod protobuf;
pub mod yaml;
