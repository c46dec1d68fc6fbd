/// Error of decoding a YAML document, in the reference's words.
///
/// A single pointer, so that the results of the decoder's many small steps fit in registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Message>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Message(String);

impl Error {
    #[cold]
    pub(super) fn new(problem: impl std::fmt::Display) -> Self {
        Error::bare(format!("yaml: {problem}"))
    }

    /// Error on a line; 0 is not printed.
    #[cold]
    pub(super) fn on_line(line: u32, problem: impl std::fmt::Display) -> Self {
        if line == 0 { Error::new(problem) } else { Error::new(format!("line {line}: {problem}")) }
    }

    /// Error without the YAML prefix.
    #[cold]
    pub(super) fn bare(problem: impl Into<String>) -> Self {
        Error(Box::new(Message(problem.into())))
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.0)
    }
}

impl std::error::Error for Error {}
