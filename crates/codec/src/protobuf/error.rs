use std::fmt;

/// Errors are boxed on their way out: results are small, and so is the stack of a recursion.
pub(super) type Result<T> = std::result::Result<T, Box<Error>>;

/// Why bytes are not the message they should be; prints as the reference puts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Nothing at all where an object in its envelope was expected.
    EmptyData,
    /// An envelope's first bytes and nothing else.
    EmptyBody,
    /// Without the first bytes of an envelope.
    NoMagic,
    /// The input ends in the middle of something.
    UnexpectedEof,
    /// A number of more than 64 bits.
    Overflow,
    /// A length of more than 63 bits.
    NegativeLength,
    /// The end of a group that has not begun.
    EndOfGroup,
    /// A wire type that there is none of.
    IllegalWireType(u8),
    /// The end of a group among a message's members.
    GroupInMessage {
        /// The type of the message.
        message: String,
    },
    /// A tag that no member can have.
    IllegalTag {
        /// The type of the message.
        message: String,
        /// The tag.
        tag: i32,
        /// What stands on the wire: the tag and the wire type.
        wire: u64,
    },
    /// A member written as another sort of value than its own.
    WrongWireType {
        /// The member.
        field: String,
        /// What it is written as.
        wire_type: u8,
    },
    /// Messages inside messages without end.
    TooDeep,
    /// More structs or numbers than an object of its size can have a use for.
    TooMany,
    /// A text that is not what the member's type says: a quantity, a time, a document.
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
