//! Errors of CBOR's reader, in the reference's words.

use std::fmt;

use super::{MAX_ELEMENTS, MAX_PAIRS};

/// Errors are boxed on their way out: results are small, and so is the stack of a recursion.
pub(super) type Result<T> = std::result::Result<T, Box<Error>>;

/// The major type of a data item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Major {
    /// A whole number from zero.
    Unsigned,
    /// A whole number below zero.
    Negative,
    /// Bytes.
    Bytes,
    /// UTF-8.
    Text,
    /// Items in order.
    Array,
    /// Items by key.
    Map,
    /// An item with a number before it.
    Tag,
    /// True, false, null, floats and others.
    Other,
}

impl Major {
    /// The major type that the first byte of an item says.
    pub(super) fn of(byte: u8) -> Self {
        match byte >> 5 {
            0 => Major::Unsigned,
            1 => Major::Negative,
            2 => Major::Bytes,
            3 => Major::Text,
            4 => Major::Array,
            5 => Major::Map,
            6 => Major::Tag,
            _ => Major::Other,
        }
    }
}

impl fmt::Display for Major {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Major::Unsigned => "positive integer",
            Major::Negative => "negative integer",
            Major::Bytes => "byte string",
            Major::Text => "UTF-8 text string",
            Major::Array => "array",
            Major::Map => "map",
            Major::Tag => "tag",
            Major::Other => "primitives",
        })
    }
}

/// Error about bytes that are not the value they should be; prints as the reference puts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The input is empty.
    Empty,
    /// The input ends in the middle of an item.
    UnexpectedEof,
    /// Other items behind the one.
    ExtraneousData {
        /// Number of bytes.
        bytes: usize,
        /// Their first byte's index.
        index: usize,
    },
    /// A first byte that is reserved.
    InvalidInformation {
        /// Its lower bits.
        information: u8,
        /// Its upper bits.
        major: Major,
    },
    /// A simple value in two bytes that has one byte.
    InvalidSimpleValue(u64),
    /// A break code outside of an item of indefinite length.
    UnexpectedBreak,
    /// A chunk of a string that is none of its type.
    WrongChunk {
        /// The type of the chunk.
        chunk: Major,
        /// The type of the string.
        string: Major,
    },
    /// A chunk of a string that has chunks itself.
    IndefiniteChunk(Major),
    /// A length of more than 63 bits.
    LengthOverflow {
        /// Type of the item that is too long.
        major: Major,
        /// The length.
        length: u64,
    },
    /// Lists, maps and tags inside of each other, more than so many.
    TooDeep(usize),
    /// A list with more elements than are counted.
    TooManyElements,
    /// A map with more entries than are taken.
    TooManyPairs,
    /// More elements and entries than an object can have a use for.
    TooManyValues,
    /// A simple value other than true, false and null.
    SimpleValue(u64),
    /// A tag for whole numbers of any size.
    BigNumber,
    /// A float that is no number.
    NotANumber,
    /// A float that is no finite number.
    Infinity,
    /// A tag whose content is of a type that it cannot have.
    TagContent {
        /// The tag.
        tag: u64,
        /// The content that the tag must have.
        expected: &'static str,
        /// Type of its content.
        found: Major,
    },
    /// A text string that is not UTF-8.
    InvalidUtf8,
    /// An item of another type than the value should have.
    Type(TypeError),
    /// A key that is no field of its struct, at this place of the map.
    UnknownField(usize),
    /// A key that is there twice.
    DuplicateKey {
        /// The key, in Go's syntax.
        key: String,
        /// The place of the second one in the map.
        index: usize,
    },
    /// A byte string that should be base64 and is not, from this byte on.
    Base64(usize),
    /// A text that does not fit the value's type: a quantity, a time, a document.
    Invalid(String),
}

/// An item of another type than the value should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeError {
    /// The type of the item.
    pub found: Major,
    /// The Go type of the value.
    pub go: String,
    /// The outermost field around the value, if there is one: `v1.Pod.spec`.
    pub field: Option<String>,
    /// A remark behind the message.
    pub note: Option<String>,
}

impl TypeError {
    pub(super) fn boxed(found: Major, go: impl Into<String>) -> Box<Error> {
        let (go, field, note) = (go.into(), None, None);
        Box::new(Error::Type(TypeError { found, go, field, note }))
    }

    pub(super) fn with_note(found: Major, go: impl Into<String>, note: String) -> Box<Error> {
        let (go, field, note) = (go.into(), None, Some(note));
        Box::new(Error::Type(TypeError { found, go, field, note }))
    }
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TypeError { found, go, field, note } = self;
        match field {
            Some(field) => {
                write!(
                    f,
                    "cbor: cannot unmarshal {found} into Go struct field {field} of type {go}"
                )?;
            }
            None => write!(f, "cbor: cannot unmarshal {found} into Go value of type {go}")?,
        }
        note.iter().try_for_each(|note| write!(f, " ({note})"))
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unaccepted = |f: &mut fmt::Formatter<'_>, major: Major, what: fmt::Arguments<'_>| {
            write!(f, "cbor: data item of cbor type {major} is not accepted by protocol: {what}")
        };
        match self {
            Error::Empty => f.write_str("EOF"),
            Error::UnexpectedEof => f.write_str("unexpected EOF"),
            Error::ExtraneousData { bytes, index } => {
                write!(f, "cbor: {bytes} bytes of extraneous data starting at index {index}")
            }
            Error::InvalidInformation { information, major } => {
                write!(f, "cbor: invalid additional information {information} for type {major}")
            }
            Error::InvalidSimpleValue(value) => {
                write!(f, "cbor: invalid simple value {value} for type {}", Major::Other)
            }
            Error::UnexpectedBreak => f.write_str("cbor: unexpected \"break\" code"),
            Error::WrongChunk { chunk, string } => {
                write!(f, "cbor: wrong element type {chunk} for indefinite-length {string}")
            }
            Error::IndefiniteChunk(string) => {
                write!(f, "cbor: indefinite-length {string} chunk is not definite-length")
            }
            Error::LengthOverflow { major, length } => {
                let causing = match major {
                    Major::Array | Major::Map => "it would cause",
                    _ => "causing",
                };
                write!(f, "cbor: {major} length {length} is too large, {causing} integer overflow")
            }
            Error::TooDeep(most) => write!(f, "cbor: exceeded max nested level {most}"),
            Error::TooManyElements => {
                write!(f, "cbor: exceeded max number of elements {MAX_ELEMENTS} for CBOR array")
            }
            Error::TooManyPairs => {
                write!(f, "cbor: exceeded max number of key-value pairs {MAX_PAIRS} for CBOR map")
            }
            Error::TooManyValues => f.write_str("cbor: exceeded max number of values"),
            Error::SimpleValue(value) => {
                unaccepted(f, Major::Other, format_args!("simple value {value} is not recognized"))
            }
            Error::BigNumber => unaccepted(f, Major::Tag, format_args!("bignum")),
            Error::NotANumber => unaccepted(f, Major::Other, format_args!("floating-point NaN")),
            Error::Infinity => unaccepted(f, Major::Other, format_args!("floating-point infinity")),
            Error::TagContent { tag, expected, found } => {
                write!(f, "cbor: tag number {tag} must be followed by {expected}, got {found}")
            }
            Error::InvalidUtf8 => f.write_str("cbor: invalid UTF-8 string"),
            Error::Type(error) => error.fmt(f),
            Error::UnknownField(index) => {
                write!(f, "cbor: found unknown field at map element index {index}")
            }
            Error::DuplicateKey { key, index } => {
                write!(f, "cbor: found duplicate map key {key} at map element index {index}")
            }
            Error::Base64(at) => write!(
                f,
                "cbor: failed to decode base64 from byte string: illegal base64 data at input byte {at}"
            ),
            Error::Invalid(why) => f.write_str(why),
        }
    }
}
