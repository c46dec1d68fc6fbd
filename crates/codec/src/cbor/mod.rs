//! CBOR as the reference speaks it (RFC 8949; upstream: `serializer/cbor` and its modes).
//!
//! It is JSON's data model in other bytes, so that either form can be made of the other: names and texts are byte strings,
//! fields and keys are sorted by length and then by bytes, numbers that are whole differ from others, and bytes are tagged
//! as base64 to be. What is written begins with a tag that says nothing ([`SELF_DESCRIBED`]), by which it is known.
//!
//! The reader takes more than is written: text strings, lengths that are not told before (`_`), tags. Unlike JSON's it
//! refuses keys that are there twice, and tells of a field that is not known only where in its map it stands.
//!
//! ```
//! use kevel_api::value::Value;
//! use kevel_codec::cbor;
//! let mut out = Vec::new();
//! cbor::encode_any(&Value::from("a"), &mut out);
//! assert_eq!(out, b"\x41a");
//! assert_eq!(cbor::decode_any(b"\xd9\xd9\xf7\x61a")?, Value::from("a"));
//! let twice = cbor::decode_any(b"\xa2\x41a\x01\x41a\x02").unwrap_err();
//! assert_eq!(twice.to_string(), r#"cbor: found duplicate map key "a" at map element index 1"#);
//! # Ok::<(), cbor::Error>(())
//! ```

mod any;
mod decode;
mod diagnose;
mod encode;
mod error;
mod fields;
mod float;
mod head;
mod reader;
mod scalar;
mod string;
mod time;
mod type_meta;
mod well_formed;

pub use decode::{DecodedCbor, decode};
pub use diagnose::diagnose;
pub use encode::{encode, encode_any, encode_array_head, encode_map_head};
pub use error::{Error, Major, TypeError};
pub use type_meta::type_meta;
pub use well_formed::first_item;

pub use any::{decode_any, decode_object, to_json};

use crate::json::{MAX_DEPTH, Unknown};

/// The head of the tag that all that is written begins with: "self-described CBOR", which has no meaning but that no JSON begins
/// with it.
pub const SELF_DESCRIBED: &[u8; 3] = b"\xd9\xd9\xf7";

/// Deepest nesting of lists, maps and tags that are not read into a tree, as in the reference.
const MAX_NESTING: usize = 10_000;

/// Most entries of a map: more than fit into a request.
const MAX_PAIRS: u64 = 2_097_152;

/// Most elements of a list: as many as the reference's library counts to.
const MAX_ELEMENTS: u64 = 2_147_483_647;

/// Tags that mean something.
mod tag {
    /// A time as text.
    pub const TEXT_TIME: u64 = 0;
    /// A time as seconds since 1970.
    pub const EPOCH_TIME: u64 = 1;
    /// Whole numbers of any size.
    pub const BIG_NUMBERS: [u64; 2] = [2, 3];
    /// Byte strings inside become base64 with the alphabet of URLs where a text is wanted.
    pub const BASE64_URL: u64 = 21;
    /// Tag of a byte string that is expected in base64.
    pub const BASE64: u64 = 22;
    /// Tag of a byte string that is expected in hexadecimal.
    pub const BASE16: u64 = 23;
    /// See [`super::SELF_DESCRIBED`].
    pub const SELF_DESCRIBED: u64 = 55799;
}
