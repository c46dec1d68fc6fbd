//! Codecs for JSON, YAML, protobuf and CBOR, each written once over `Schema`.

pub mod base64;
pub mod cbor;
mod field_slots;
pub mod json;
pub mod protobuf;
pub mod yaml;
