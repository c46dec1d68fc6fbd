//! What is found wrong with a value, and how well it fits otherwise.

use kevel_api::field_error::{BadValue, FieldErrorKind, MAX_ERROR_BYTES};
use kevel_api::quote::quote;

use super::MAX_ERRORS;
use super::dotted_path::DottedPath;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub kind: FieldErrorKind,
    /// Where, in the object; none for what is said about the object as a whole.
    pub field: Option<String>,
    pub value: BadValue,
    pub detail: String,
}

/// What came out of one schema and one value.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub findings: Vec<Finding>,
    /// How much text they have.
    text: usize,
    /// How many checks were passed: of several alternatives, the one that fits best is reported.
    pub matches: u64,
}

impl Outcome {
    pub fn is_valid(&self) -> bool {
        self.findings.is_empty()
    }

    /// Adds a finding, unless it has been made before.
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

    /// Nothing of it counts.
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

    /// A value that breaks a rule; the message begins with the place.
    pub fn invalid(place: &DottedPath<'_>, value: BadValue, rule: impl std::fmt::Display) -> Self {
        let detail = format!("{place} in body {rule}");
        Finding::new(FieldErrorKind::Invalid, place, value, detail)
    }

    /// Something that the reference does not say of any place in particular.
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
