/// Why a document cannot be read, in the reference's words.
///
/// It is one pointer, so that the reader's many small steps hand their results on in registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Message>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Message(String);

impl Error {
    #[cold]
    pub(super) fn new(problem: impl std::fmt::Display) -> Self {
        Error::bare(format!("yaml: {problem}"))
    }

    /// A problem on a line, which is not told where it is 0.
    #[cold]
    pub(super) fn on_line(line: u32, problem: impl std::fmt::Display) -> Self {
        if line == 0 { Error::new(problem) } else { Error::new(format!("line {line}: {problem}")) }
    }

    /// An error that is not of the YAML reader's own.
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
