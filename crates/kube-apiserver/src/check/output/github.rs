//! Commands of GitHub's workflows.

use std::fmt::Write as _;

use crate::check::report::FindingReport;

pub fn write(report: &FindingReport) -> String {
    let mut out = String::new();
    for finding in &report.findings {
        let (place, level) = (&finding.place, finding.level.name());
        let (file, title) = (property(&place.document.file), property(&finding.reason));
        let message = data(&finding.message);
        let _ = writeln!(out, "::{level} file={file},line={},title={title}::{message}", place.line);
    }
    for line in report.summary() {
        let _ = writeln!(out, "{line}");
    }
    out
}

/// Text of a command: no line of it may be taken for another command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Value of a command's property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
