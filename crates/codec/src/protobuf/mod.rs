//! Protobuf codec: proto2 messages written by gogo's rules, in an envelope with the kind.
//!
//! Fields that are not pointers in Go are always written, zero or not; pointers, lists, maps and bytes are written if
//! present; members are in the order of their tags, map entries in that of their keys. These rules make the bytes of an
//! object unique, so that they can be compared.

mod decode;
mod encode;
mod envelope;
mod error;
mod go_name;
mod scalar;
mod wire;

#[cfg(test)]
mod tests;

pub use decode::decode;
pub use encode::encode;
pub use envelope::{Envelope, MAGIC, decode_object, encode_item, encode_list, encode_object};
pub use error::Error;
pub(crate) use scalar::text;
