//! What a custom object must be like: its OpenAPI schema and the rules in it.

use kevel_api::field_error::{FieldError, Path};
use kevel_api::value::Value;

/// What the rules of one request may cost together.
pub const REQUEST_BUDGET: i64 = 10_000_000;

/// The schema of one version of a custom kind, ready to judge objects.
#[derive(Debug)]
pub struct Validator {}

impl Validator {
    /// Reads the `openAPIV3Schema` of a version.
    pub fn new(_open_api_v3_schema: &Value) -> Result<Validator, String> {
        Ok(Validator {})
    }

    /// What the schema says against an object. On an update, what is as it was is not complained
    /// about.
    pub fn validate(
        &self,
        _path: &Path<'_>,
        _object: &Value,
        _old: Option<&Value>,
    ) -> Vec<FieldError> {
        Vec::new()
    }

    /// What the rules of the schema (`x-kubernetes-validations`) say against an object. They may
    /// cost `budget` together, which is what one request has.
    pub fn rules(&self, _object: &Value, _old: Option<&Value>, _budget: i64) -> Vec<FieldError> {
        Vec::new()
    }
}
