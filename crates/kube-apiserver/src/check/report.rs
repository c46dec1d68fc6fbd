//! Report of a check.

use std::collections::HashMap;
use std::sync::Arc;

use super::finding::{self, CheckFinding, FindingLevel};

/// Most findings that are kept; the others are counted.
const MAX_FINDINGS: usize = 10_000;

/// Result of a check.
#[derive(Debug, Default)]
pub struct FindingReport {
    /// Findings.
    pub findings: Vec<CheckFinding>,
    /// Findings beyond those that are kept.
    pub omitted: usize,
    /// Number of files.
    pub files: usize,
    /// Number of documents.
    pub documents: usize,
    /// InputDocuments that were not checked, because `--skip` names their kind.
    pub skipped: usize,
    /// InputDocuments that were not checked, because the cluster does not have their kind (`--ignore-missing-schemas`).
    pub without_schema: usize,
    /// Calls that were not made.
    pub not_called: NotCalled,
    /// Notes about the result.
    pub notes: Vec<String>,
}

/// Webhooks and servers that a cluster would call, and an offline check does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotCalled {
    /// Webhook configurations.
    pub webhooks: usize,
    /// Definitions whose objects are converted by a webhook.
    pub conversions: usize,
    /// API services.
    pub services: usize,
}

impl FindingReport {
    /// Adds findings.
    pub fn add(&mut self, findings: Vec<CheckFinding>) {
        let room = MAX_FINDINGS.saturating_sub(self.findings.len());
        self.omitted += findings.len().saturating_sub(room);
        self.findings.extend(findings.into_iter().take(room));
    }

    /// Sorts the findings by file, in the order of the command line, and finds their lines.
    pub fn locate(&mut self, files: &[Arc<str>]) {
        let order: HashMap<&str, usize> =
            files.iter().enumerate().rev().map(|(at, name)| (&**name, at)).collect();
        let of = |finding: &CheckFinding| {
            let document = &finding.place.document;
            (order.get(&*document.file).copied(), document.line)
        };
        self.findings.sort_by_key(of);
        finding::locate(&mut self.findings);
        self.findings.sort_by_key(|finding| (of(finding), finding.place.line));
    }

    /// Makes errors of warnings.
    pub fn raise_warnings(&mut self) {
        self.findings.iter_mut().for_each(|finding| finding.level = FindingLevel::Error);
    }

    /// Number of findings of a level.
    pub fn count(&self, level: FindingLevel) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }

    /// Whether a cluster takes all documents.
    pub fn is_clean(&self) -> bool {
        self.count(FindingLevel::Error) == 0 && self.omitted == 0
    }

    /// The summary: a line about the documents, and one for each thing that was not done.
    pub fn summary(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "{} in {}: {}, {}",
            counted(self.documents, "document"),
            counted(self.files, "file"),
            counted(self.count(FindingLevel::Error), "error"),
            counted(self.count(FindingLevel::Warning), "warning"),
        )];
        let mut add = |count: usize, line: String| {
            if count > 0 {
                lines.push(line);
            }
        };
        let NotCalled { webhooks, conversions, services } = self.not_called;
        add(self.omitted, format!("{} more are not shown", counted(self.omitted, "finding")));
        add(self.skipped, format!("{} skipped", counted(self.skipped, "document")));
        let unknown = counted(self.without_schema, "document");
        add(self.without_schema, format!("{unknown} of unknown kinds not checked"));
        add(webhooks, format!("webhooks of {} not called", counted(webhooks, "configuration")));
        let converted = counted(conversions, "CustomResourceDefinition");
        add(conversions, format!("conversion webhooks of {converted} not called"));
        add(services, format!("servers of {} not called", counted(services, "APIService")));
        lines.extend(self.notes.iter().cloned());
        lines
    }
}

fn counted(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}
