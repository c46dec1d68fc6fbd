//! Flags of the command itself.

use crate::flags::{EFFECTIVE, Value, ValueType, section};
use kevel_api::quote::quote;
use kevel_server::version::{API_LEVEL, GIT_VERSION};

section! {
    /// Options of the command itself.
    Global, "global" {
        /// Show this help.
        help: bool = "false", EFFECTIVE.short('h');
        /// --version and --version=raw print the version and quit; --version=vX.Y.Z... reports that
        /// version instead.
        version: VersionRequest, EFFECTIVE;
    }
}

/// Request of `--version`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VersionRequest {
    /// No request.
    #[default]
    No,
    /// Print the version.
    Print,
    /// Print all version information.
    PrintRaw,
    /// Report this version instead of the real one.
    Report(String),
}

impl VersionRequest {
    /// The version to report.
    pub fn reported(&self) -> &str {
        match self {
            VersionRequest::Report(version) => version,
            _ => GIT_VERSION,
        }
    }
}

impl Value for VersionRequest {
    fn value_type(&self) -> ValueType {
        ValueType { name: "version", implied: Some("true"), zero: "false" }
    }

    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        *self = match text {
            "raw" => VersionRequest::PrintRaw,
            version if version.starts_with('v') => {
                check_reported(version)?;
                VersionRequest::Report(version.to_owned())
            }
            text if crate::flags::parse_bool(text)? => VersionRequest::Print,
            _ => VersionRequest::No,
        };
        Ok(())
    }

    fn text(&self) -> String {
        match self {
            VersionRequest::No => "false",
            VersionRequest::Print => "true",
            VersionRequest::PrintRaw => "raw",
            VersionRequest::Report(version) => version,
        }
        .to_owned()
    }
}

/// A reported version may differ from the real one only in what follows the patch number.
fn check_reported(version: &str) -> Result<(), String> {
    let numbers = version.trim_start_matches('v').split(['-', '+']).next().unwrap_or_default();
    let numbers: Vec<Option<u32>> = numbers.split('.').map(|part| part.parse().ok()).collect();
    match numbers[..] {
        [Some(major), Some(minor), Some(patch)] if (major, minor, patch) == API_LEVEL => Ok(()),
        [Some(_), Some(_), Some(_)] => Err(format!(
            "version {} must match major/minor/patch of default version {}",
            quote(version),
            quote(GIT_VERSION)
        )),
        [Some(_)] | [Some(_), Some(_)] => Err(format!("illegal version string {}", quote(version))),
        _ => Err(format!("could not parse {} as version", quote(version))),
    }
}
