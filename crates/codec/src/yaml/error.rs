/// Why a document cannot be read, in the reference's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    pub(super) fn new(problem: impl std::fmt::Display) -> Self {
        Error(format!("yaml: {problem}"))
    }

    /// A problem on a line, which is not told where it is 0.
    pub(super) fn on_line(line: u32, problem: impl std::fmt::Display) -> Self {
        if line == 0 { Error::new(problem) } else { Error(format!("yaml: line {line}: {problem}")) }
    }

    /// An error that is not of the YAML reader's own.
    pub(super) fn bare(problem: impl Into<String>) -> Self {
        Error(problem.into())
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
