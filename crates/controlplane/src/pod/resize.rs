//! Pods that get other resources while they run.

use kevel_api::field_error::{FieldError, Path};
use kevel_api::value::Value;
use kevel_server::strategy::Strategy;

use super::{is_static, qos};

/// The strategy of `pods/resize`.
#[derive(Clone, Copy, Debug)]
pub struct Resize;

impl Strategy for Resize {
    fn check_update(&self, pod: &Value, old: &Value) -> Vec<FieldError> {
        let nothing = Path::new("");
        if is_static(old) {
            return vec![FieldError::forbidden(&nothing, "static pods cannot be resized")];
        }
        if old.str_at(&["spec", "os", "name"]) == "windows" {
            return vec![FieldError::forbidden(&nothing, "windows pods cannot be resized")];
        }
        let before = match old.str_at(&["status", "qosClass"]) {
            "" => qos::class(old),
            class => class,
        };
        let mut errors = Vec::new();
        if before != qos::class(pod) {
            let why = "Pod QOS Class may not change as a result of resizing";
            errors.push(FieldError::invalid(&Path::new("spec"), before, why));
        }
        errors
    }
}
