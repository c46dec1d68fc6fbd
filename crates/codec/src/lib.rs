//! JSON, YAML and protobuf, each written once over `Schema`.

pub mod base64;
pub mod json;
mod places;
pub mod protobuf;
pub mod yaml;
