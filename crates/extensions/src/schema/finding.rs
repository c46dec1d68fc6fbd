//! Findings of OpenAPI validation, and the score of alternatives.

use kevel_api::field_error::{BadValue, FieldErrorKind, MAX_ERROR_BYTES};
use kevel_api::quote::quote;

use super::MAX_ERRORS;
use super::dotted_path::DottedPath;

/// An error in a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub kind: FieldErrorKind,
    /// Field path; `None` for errors about the object as a whole.
    pub field: Option<String>,
    pub value: BadValue,
    pub detail: String,
}

/// Result of validating a value against a schema.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub findings: Vec<Finding>,
    /// Total length of the findings' texts.
    text: usize,
    /// Number of checks passed: of several failing alternatives, the best match is reported.
    pub matches: u64,
}

impl Outcome {
    pub fn is_valid(&self) -> bool {
        self.findings.is_empty()
    }

    /// Adds a finding, unless it is there already.
    pub fn add(&mut self, finding: Finding) {
        let said = |known: &Finding| {
            (known.kind, &known.field, &known.detail)
                == (finding.kind, &finding.field, &finding.detail)
        };
        let full = self.findings.len() >= MAX_ERRORS || self.text > MAX_ERROR_BYTES;
        if !full && !self.findings.iter().any(said) {
            self.text += finding.len();
            self.findings.push(finding);
        }
    }

    /// Drops all findings.
    pub fn forget(&mut self) {
        self.findings.clear();
        self.text = 0;
    }

    pub fn merge(&mut self, other: Outcome) {
        self.matches += other.matches;
        if self.findings.is_empty() {
            (self.findings, self.text) = (other.findings, other.text);
        } else {
            other.findings.into_iter().for_each(|finding| self.add(finding));
        }
    }
}

impl Finding {
    pub fn new(
        kind: FieldErrorKind,
        place: &DottedPath<'_>,
        value: BadValue,
        detail: impl Into<String>,
    ) -> Self {
        Finding { kind, field: Some(place.to_string()), value, detail: detail.into() }
    }

    /// Finding of an invalid value; the message begins with the path.
    pub fn invalid(place: &DottedPath<'_>, value: BadValue, rule: impl std::fmt::Display) -> Self {
        let detail = format!("{place} in body {rule}");
        Finding::new(FieldErrorKind::Invalid, place, value, detail)
    }

    /// Finding for which the reference names no field.
    pub fn general(detail: impl Into<String>) -> Self {
        let value = BadValue::from("");
        Finding { kind: FieldErrorKind::Invalid, field: None, value, detail: detail.into() }
    }

    pub fn len(&self) -> usize {
        self.field.as_deref().map_or(0, str::len) + self.detail.len() + self.value.size()
    }

    pub fn wrong_type(place: &DottedPath<'_>, expected: &str, found: &str) -> Self {
        let detail = format!("{place} in body must be of type {expected}: {}", quote(found));
        Finding::new(FieldErrorKind::TypeInvalid, place, BadValue::from(found), detail)
    }
}
