//! What a custom resource definition must be like.

use kevel_api::field_error::FieldError;
use kevel_api::value::Value;

/// What is wrong with a new definition.
pub fn validate_create(_crd: &Value) -> Vec<FieldError> {
    Vec::new()
}

/// What is wrong with a definition that replaces another.
pub fn validate_update(_new: &Value, _old: &Value) -> Vec<FieldError> {
    Vec::new()
}

/// What is wrong with a definition whose status is replaced.
pub fn validate_status_update(_new: &Value, _old: &Value) -> Vec<FieldError> {
    Vec::new()
}

/// Why the schemas of a definition are not structural, for its condition.
pub fn non_structural(_crd: &Value) -> Vec<FieldError> {
    Vec::new()
}
