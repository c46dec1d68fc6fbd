//! Formats of the result.

mod github;
mod json;
mod sarif;
mod text;

use super::report::FindingReport;

/// Format of the result (`--output`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// Commands of GitHub's workflows, which show findings beside the lines of a pull request.
    Github,
    /// SARIF 2.1.0, for tools that collect findings.
    Sarif,
}

impl OutputFormat {
    /// Names of all formats.
    pub const NAMES: &str = "text, json, github or sarif";

    /// The format of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "text" => OutputFormat::Text,
            "json" => OutputFormat::Json,
            "github" => OutputFormat::Github,
            "sarif" => OutputFormat::Sarif,
            _ => return None,
        })
    }

    /// A report in this format.
    pub fn write(self, report: &FindingReport) -> Vec<u8> {
        match self {
            OutputFormat::Text => text::write(report).into_bytes(),
            OutputFormat::Json => json::write(report),
            OutputFormat::Github => github::write(report).into_bytes(),
            OutputFormat::Sarif => sarif::write(report),
        }
    }
}
