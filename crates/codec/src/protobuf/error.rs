use std::fmt;

/// Result with a boxed error, which keeps results, and the stack of the recursion, small.
pub(super) type Result<T> = std::result::Result<T, Box<Error>>;

/// Error of decoding a message; prints as in the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The input is empty.
    EmptyData,
    /// The envelope has only its first bytes.
    EmptyBody,
    /// The first bytes of an envelope are missing.
    NoMagic,
    /// The input ends too early.
    UnexpectedEof,
    /// A number has more than 64 bits.
    Overflow,
    /// A length has more than 63 bits.
    NegativeLength,
    /// A group ends that has not begun.
    EndOfGroup,
    /// A wire type does not exist.
    IllegalWireType(u8),
    /// A group ends among a message's members.
    GroupInMessage {
        /// The type of the message.
        message: String,
    },
    /// A tag is not allowed.
    IllegalTag {
        /// The type of the message.
        message: String,
        /// The tag.
        tag: i32,
        /// Encoded tag and wire type.
        wire: u64,
    },
    /// A member has a wrong wire type.
    WrongWireType {
        /// The member.
        field: String,
        /// Actual wire type.
        wire_type: u8,
    },
    /// Messages are nested too deep.
    TooDeep,
    /// The object has more structs or numbers than its size justifies.
    TooMany,
    /// A text is invalid for the member's type: a quantity, a time, a document.
    Invalid(String),
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::EmptyData => f.write_str("empty data"),
            Error::EmptyBody => f.write_str("empty body"),
            Error::NoMagic => f.write_str(
                "provided data does not appear to be a protobuf message, \
                 expected prefix [107 56 115 0]",
            ),
            Error::UnexpectedEof => f.write_str("unexpected EOF"),
            Error::Overflow => f.write_str("proto: integer overflow"),
            Error::NegativeLength => {
                f.write_str("proto: negative length found during unmarshaling")
            }
            Error::EndOfGroup => f.write_str("proto: unexpected end of group"),
            Error::IllegalWireType(wire_type) => {
                write!(f, "proto: illegal wireType {wire_type}")
            }
            Error::GroupInMessage { message } => {
                write!(f, "proto: {message}: wiretype end group for non-group")
            }
            Error::IllegalTag { message, tag, wire } => {
                write!(f, "proto: {message}: illegal tag {tag} (wire type {wire})")
            }
            Error::WrongWireType { field, wire_type } => {
                write!(f, "proto: wrong wireType = {wire_type} for field {field}")
            }
            Error::TooMany => f.write_str("exceeded max number of values"),
            Error::TooDeep => f.write_str("exceeded max depth"),
            Error::Invalid(why) => f.write_str(why),
        }
    }
}
