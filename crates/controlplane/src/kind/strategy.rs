//! A kind as the generic server sees it.

use kevel_api::field_error::FieldErrors;
use kevel_api::value::Value;
use kevel_registry::strategy::{Dependents, MetadataChecks, Strategy};
use kevel_registry::user::User;

use super::Kind;
use crate::capabilities::Capabilities;
use crate::namespace::standard_finalizer;
use crate::rules::Rules;
use crate::validation::Field;

/// The strategy of a kind on a server that allows some things and not others.
#[derive(Clone)]
pub(crate) struct KindStrategy {
    kind: &'static Kind,
    /// The kind's own, or those of a subresource that writes a part of its objects.
    rules: Rules,
    capabilities: Capabilities,
    /// Warning to users of a deprecated version.
    deprecation: Option<&'static str>,
}

impl KindStrategy {
    /// The strategy of writes to the objects of a kind.
    pub fn new(kind: &'static Kind, capabilities: Capabilities) -> Self {
        KindStrategy::with_rules(kind, kind.rules, capabilities)
    }

    /// Strategy of a version that may be deprecated.
    pub fn in_version(self, deprecation: Option<&'static str>) -> Self {
        KindStrategy { deprecation, ..self }
    }

    /// The strategy of writes to a part of the objects of a kind, which has rules of its own.
    pub fn with_rules(kind: &'static Kind, rules: Rules, capabilities: Capabilities) -> Self {
        KindStrategy { kind, rules, capabilities, deprecation: None }
    }

    /// Finalizers of built-in kinds have to be qualified, or known.
    fn finalizers(&self, object: Field) {
        let metadata = object.at("metadata");
        for finalizer in metadata.at("finalizers").items() {
            standard_finalizer(finalizer, finalizer.str());
        }
    }
}

impl Strategy for KindStrategy {
    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        (self.kind.validate_name)(name, prefix)
    }

    fn metadata_checks(&self) -> MetadataChecks {
        self.kind.metadata_checks
    }

    fn generate_name(&self, base: &str) -> String {
        (self.kind.generate_name)(base)
    }

    fn deprecation(&self) -> Option<&str> {
        self.deprecation
    }

    fn returns_deleted_object(&self) -> bool {
        self.kind.returns_deleted_object
    }

    fn keeps_status(&self) -> bool {
        self.kind.keeps_status
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        self.kind.reset_fields
    }

    fn kept_by_status(&self) -> &'static [&'static str] {
        self.kind.kept_by_status
    }

    fn counts_generation(&self) -> bool {
        self.kind.counts_generation
    }

    fn counts_empty_lists(&self) -> bool {
        self.kind.counts_empty_lists
    }

    fn reset_by_status(&self) -> &'static [&'static [&'static str]] {
        self.kind.reset_by_status
    }

    fn status_has_rows(&self) -> bool {
        self.kind.status_has_rows
    }

    fn status_warnings(&self, object: &Value) -> Vec<String> {
        (self.rules.status_warnings)(object)
    }

    fn validate_finalizers(&self, object: &Value) -> FieldErrors {
        match self.kind.standard_finalizers {
            true => self.capabilities.errors(object, |object| self.finalizers(object)),
            false => FieldErrors::new(),
        }
    }

    fn sign(&self, object: &mut Value, user: &User) {
        (self.rules.sign)(object, user);
    }

    fn prepare_for_create(&self, object: &mut Value) {
        (self.rules.prepare_for_create)(object, &self.capabilities);
    }

    fn validate_create(&self, object: &Value) -> FieldErrors {
        self.capabilities.errors(object, self.rules.validate_create)
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value) {
        (self.rules.prepare_for_update)(object, old, &self.capabilities);
    }

    fn validate_update(&self, object: &Value, old: &Value) -> FieldErrors {
        self.capabilities.update_errors(object, old, self.rules.validate_update)
    }

    fn prepare_for_status_update(&self, object: &mut Value, old: &Value) {
        (self.rules.prepare_for_status_update)(object, old, &self.capabilities);
    }

    fn validate_status_update(&self, object: &Value, old: &Value) -> FieldErrors {
        self.capabilities.update_errors(object, old, self.rules.validate_status_update)
    }

    fn warnings_as_sent(&self, object: &Value) -> Vec<String> {
        (self.rules.warnings_as_sent)(object)
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        match self.rules.warnings_need {
            Some(feature) if !self.capabilities.features.has(feature) => Vec::new(),
            _ => (self.rules.warnings)(object, old),
        }
    }

    fn begin_delete(&self, object: &mut Value) -> bool {
        (self.rules.begin_delete)(object)
    }

    fn held(&self, object: &Value) -> bool {
        (self.rules.held)(object)
    }

    fn graceful(&self) -> bool {
        self.rules.grace_period.is_some()
    }

    fn grace_period(&self, object: &Value, asked: Option<i64>) -> Option<i64> {
        self.rules.grace_period.map(|period| period(object, asked))
    }

    fn selectable<'f>(&self, field: &'f str) -> Option<&'f str> {
        if self.kind.field_labels.is_empty() {
            return Some(field);
        }
        self.kind.field_labels.iter().find(|(label, _)| *label == field).map(|(_, name)| *name)
    }

    fn allow_unconditional_update(&self) -> bool {
        self.kind.allow_unconditional_update
    }

    fn allow_create_on_update(&self) -> bool {
        self.kind.allow_create_on_update
    }

    fn deletion_warning(&self) -> Option<&str> {
        self.kind.deletion_warning
    }

    fn default_dependents(&self) -> Dependents {
        self.kind.default_dependents
    }
}
