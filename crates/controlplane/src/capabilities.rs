//! What a server allows that its rules go by.

/// What the command line allows. Nothing is allowed by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Containers that may do everything on their node (`--allow-privileged`).
    pub allow_privileged: bool,
}
