//! YAML codec, by way of JSON's data model.
//!
//! The reference converts YAML to JSON and decodes that, and converts JSON to YAML to write it; so does this codec. The
//! decoder is our own, because the reference fixes the dialect of YAML 1.1 and the error messages, and because no
//! available decoder is fast on hostile documents.
//!
//! ```
//! let json = kevel_codec::yaml::to_json(b"a: [1, yes]\nb: &x 0x10\nc: *x\n")?;
//! assert_eq!(json.text, br#"{"a":[1,true],"b":16,"c":16}"#);
//! let mut yaml = Vec::new();
//! kevel_codec::yaml::from_json(&json.text, &mut yaml)?;
//! assert_eq!(yaml, b"a:\n- 1\n- true\nb: 16\nc: 16\n");
//! # Ok::<(), kevel_codec::yaml::Error>(())
//! ```

mod chars;
mod check;
mod document;
mod emit;
mod error;
mod float;
mod from_json;
mod go_syntax;
mod key_order;
mod lines;
mod parser;
mod reader;
mod resolve;
mod scalar;
mod scanner;
mod style;
mod tag;
mod timestamp;
mod to_json;

use kevel_api::schema::Schema;
use kevel_api::value::Value;

pub use error::Error;
pub use lines::{line_of, lines_of};
pub use to_json::Json;

use crate::json::{self, Unknown};

/// A decoded document.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The object.
    pub value: Value,
    /// Strict errors, if requested: duplicate keys, then unknown fields.
    pub strict: Vec<String>,
}

/// Decodes the first document of a stream as one of the given type.
pub fn decode(input: &[u8], schema: Schema<'_>, fields: Unknown) -> Result<Decoded, Error> {
    read(input, fields, |json| json::decode(json, schema, fields))
}

/// Decodes the first document of a stream as one of any type.
pub fn decode_any(input: &[u8], fields: Unknown) -> Result<Decoded, Error> {
    read(input, fields, |json| json::decode_any(json, fields))
}

fn read(
    input: &[u8],
    fields: Unknown,
    decode: impl FnOnce(&[u8]) -> Result<json::Decoded, json::Error>,
) -> Result<Decoded, Error> {
    let json = to_json(input)?;
    let read = decode(&json.text).map_err(|error| Error::bare(error.to_string()))?;
    let duplicates = json.duplicates.filter(|_| fields == Unknown::Report);
    let strict =
        duplicates.into_iter().chain(read.strict.iter().map(ToString::to_string)).collect();
    Ok(Decoded { value: read.value, strict })
}

/// Appends a value of the given type.
pub fn encode(value: &Value, schema: Schema<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut json = Vec::new();
    json::encode(value, schema, &mut json);
    from_json(&json, out)
}

/// Appends an untyped value.
pub fn encode_any(value: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut json = Vec::new();
    json::encode_any(value, &mut json);
    from_json(&json, out)
}

/// Converts the first document of a stream to JSON.
pub fn to_json(input: &[u8]) -> Result<Json, Error> {
    if input.len() > MAX_INPUT {
        return Err(Error::new(format!("document has more than {MAX_INPUT} bytes")));
    }
    let input = reader::read(input);
    let document = parser::parse(&input)?;
    check::check(&document)?;
    to_json::write(&document)
}

/// Appends a JSON document as YAML.
pub fn from_json(json: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let document = std::str::from_utf8(json).ok().and_then(from_json::from_json);
    let Some(document) = document else {
        return Err(Error::new("the document to write is not JSON"));
    };
    emit::emit(&document, MAX_GROWTH * json.len() + (1 << 20), out)
}

/// Limit on the bytes of YAML per byte of JSON. Very deep documents are mostly indentation.
const MAX_GROWTH: usize = 16;

/// Limit on the input: positions have 32 bits.
const MAX_INPUT: usize = 1 << 30;
