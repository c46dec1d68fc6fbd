//! The rules of custom resource definitions.

use kevel_api::field_error::FieldErrors;
use kevel_api::value::{Map, Value};
use kevel_server::strategy::Strategy;

use crate::definition::{CLEANUP_FINALIZER, Condition, Definition, condition, set_condition};
use crate::validation;

/// The rules of custom resource definitions.
#[derive(Clone, Copy, Debug)]
pub struct DefinitionStrategy;

impl Strategy for DefinitionStrategy {
    fn prepare_for_create(&self, object: &mut Value) {
        if let Some(map) = object.as_map_mut() {
            map.insert("status", Map::new().into());
        }
        note_storage_version(object);
    }

    fn validate_create(&self, object: &Value) -> FieldErrors {
        validation::validate_create(object).into()
    }

    fn prepare_for_update(&self, object: &mut Value, _: &Value) {
        note_storage_version(object);
    }

    fn validate_update(&self, object: &Value, old: &Value) -> FieldErrors {
        validation::validate_update(object, old).into()
    }

    fn validate_status_update(&self, object: &Value, old: &Value) -> FieldErrors {
        validation::validate_status_update(object, old).into()
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn counts_generation(&self) -> bool {
        true
    }

    /// A definition stays until its objects are gone.
    fn begin_delete(&self, object: &mut Value) -> bool {
        if !Definition(object).has_finalizer(CLEANUP_FINALIZER) {
            object.make_list(&["metadata"], "finalizers").push(CLEANUP_FINALIZER.into());
        }
        let pending = Condition::new(
            condition::TERMINATING,
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        );
        set_condition(object, &pending);
        true
    }
}

/// Objects may be stored in this version from now on.
fn note_storage_version(object: &mut Value) {
    let Some(version) = Definition(object).storage_version().map(Value::from) else { return };
    let stored = object.make_list(&["status"], "storedVersions");
    if !stored.contains(&version) {
        stored.push(version);
    }
}
