//! JSON codec, driven by the type's [`Schema`](kevel_api::schema::Schema).
//!
//! ```
//! use kevel_codec::json;
//! let read = json::decode_any(br#"{"b": [1, 2.5], "a": null, "b": []}"#, json::Unknown::Report)?;
//! assert_eq!(json::strict_message(&read.strict), r#"strict decoding error: duplicate field "b""#);
//! let mut out = Vec::new();
//! json::encode_any(&read.value, &mut out);
//! assert_eq!(out, br#"{"a":null,"b":[]}"#);
//! # Ok::<(), json::Error>(())
//! ```

mod any;
mod custom;
mod decode;
mod duplicate;
mod encode;
mod error;
mod find;
mod float;
mod message;
mod open;
mod path;
mod pretty;
mod raw;
mod resource;
mod scalar;
mod scan;
mod structured;
mod text;
mod type_meta;

pub use decode::{Decoded, Unknown, decode, decode_any};
pub(crate) use decode::{is_zero, zero};
pub(crate) use encode::is_written;
pub use encode::{encode, encode_any};
pub use error::{Error, MAX_STRICT_ERRORS, StrictError, StrictProblem, strict_message};
pub(crate) use float::{positional, shortest, write_float, write_int};
pub use message::{Form, bad_value, message_text, message_text_as};
pub use open::{open, open_all};
pub(crate) use path::{Frame, Step};
pub use pretty::{encode_any_pretty, encode_pretty, indent, indent_by};
pub(crate) use raw::check;
pub use raw::compact;
pub use structured::structured;
pub use type_meta::{TypeMeta, type_meta};

/// Limit on the depth of a tree. Go's decoders allow ten times as much, on stacks that grow.
pub const MAX_DEPTH: usize = 1000;
