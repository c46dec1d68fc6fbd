//! Lines for people: place, level, message.

use std::fmt::Write as _;

use crate::check::report::FindingReport;

/// Most characters of a message in a line; the other formats have all of it.
const MAX_MESSAGE: usize = 4096;

pub fn write(report: &FindingReport) -> String {
    let mut out = String::new();
    for finding in &report.findings {
        let (place, level) = (&finding.place, finding.level.name());
        let message = printable(&finding.message);
        let _ =
            writeln!(out, "{}:{}: {level}: {message}", printable(&place.document.file), place.line);
    }
    for line in report.summary() {
        let _ = writeln!(out, "{line}");
    }
    out
}

/// A text that does nothing to a terminal; its further lines are indented.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(MAX_MESSAGE));
    for character in text.chars().take(MAX_MESSAGE) {
        match character {
            '\n' => out.push_str("\n    "),
            '\t' => out.push(' '),
            control if control.is_control() => out.extend(control.escape_default()),
            other => out.push(other),
        }
    }
    if text.chars().nth(MAX_MESSAGE).is_some() {
        out.push_str("...");
    }
    out
}
