//! Regular expressions of users with Go's `regexp` syntax and semantics: the reference uses it for schema patterns,
//! CEL's `matches` and `--cors-allowed-origins`.
//!
//! Patterns are accepted, rejected and matched as in Go, with its error messages. The parser is this crate's own.
//! Searches run on an automaton of `regex-automata` if that is small, and otherwise on a machine whose programs are as
//! large as Go's. Neither is built before the first search: most expressions are only validated, and thousands of them
//! may be in one request.
//!
//! ```
//! use kevel_regexp::Regexp;
//!
//! let name = Regexp::new(r"^[a-z]\w{0,62}$").unwrap();
//! assert_eq!(name.is_match("kube_system"), Ok(true));
//! let error = Regexp::new("(a{1,100}){1,100}").unwrap_err();
//! assert_eq!(error.to_string(), "error parsing regexp: invalid repeat count: `{1,100}`");
//! ```

mod automaton;
mod class;
mod engine;
mod error;
mod flags;
mod fold;
mod machine;
mod parser;
mod program;
mod reader;
#[cfg(test)]
mod recorded;
mod runes;
mod tree;
mod unicode;

pub use engine::Regexp;
pub use error::{Code, Exhausted, SyntaxError};

/// Maximum number of repetitions, nested ones multiplied; Go's limit.
pub const MAX_COPIES: u64 = 1000;
/// Maximum height of an expression's tree; Go's limit.
pub const MAX_HEIGHT: usize = 1000;
/// Maximum number of instructions of a compiled expression: 1 MiB of them. Go allows fifty times as many (128 MB); this
/// is 65 repetitions of a thousand each.
pub const MAX_SIZE: u64 = 1 << 16;
/// Maximum length of an expression, in bytes. Go has no such limit; longer ones have more instructions than
/// [`MAX_SIZE`] in most cases, and an expression that is not constant is parsed for each evaluation.
pub const MAX_LENGTH: usize = 64 << 10;
/// Maximum number of code points in an expression and at the ends of its classes' ranges: 16 MiB. Go allows eight times
/// as many; `\pL` has thirteen hundred.
pub const MAX_RUNES: usize = 1 << 22;
