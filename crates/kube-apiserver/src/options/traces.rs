//! Flags of tracing.

use super::files::read_error;
use crate::flags::{EFFECTIVE, section};

section! {
    /// Options of tracing.
    Traces, "traces" {
        /// File that says where spans are sent and how many of them.
        tracing_config_file: String, EFFECTIVE;
    }
}

impl Traces {
    /// Validation error of these options alone.
    pub(super) fn validate(&self) -> Option<String> {
        let file = &self.tracing_config_file;
        read_error(file).filter(|_| !file.is_empty())?;
        Some(format!("tracing-config-file {file} does not exist"))
    }
}
