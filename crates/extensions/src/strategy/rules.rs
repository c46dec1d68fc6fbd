//! Rules of custom objects in Rust, for servers that embed a kind.

use kevel_api::field_error::FieldErrors;
use kevel_api::value::Value;

/// Rules of a kind in Rust, beside those of its schema (upstream: `rest.RESTCreateStrategy`, `rest.RESTUpdateStrategy`).
/// Objects come in the version of the request. A rule must not wait.
pub trait ObjectRules: Send + Sync + 'static {
    /// Prepares a new object, after mutating admission.
    fn prepare_for_create(&self, _object: &mut Value) {}

    /// Validates a new object, beyond its schema.
    fn validate_create(&self, _object: &Value) -> FieldErrors {
        FieldErrors::new()
    }

    /// Prepares an updated object; `old` is the stored one.
    fn prepare_for_update(&self, _object: &mut Value, _old: &Value) {}

    /// Validates an update, by default as a new object.
    fn validate_update(&self, object: &Value, _old: &Value) -> FieldErrors {
        self.validate_create(object)
    }

    /// Warnings for the client about an accepted object; `old` is the object that it replaces.
    fn warnings(&self, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }
}
