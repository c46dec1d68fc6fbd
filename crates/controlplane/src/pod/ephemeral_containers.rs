//! Containers that are added to a running pod, and never changed or taken away.

use kevel_api::field_error::{FieldError, Path};
use kevel_api::value::Value;
use kevel_server::strategy::Strategy;

use super::is_static;

/// The strategy of `pods/ephemeralcontainers`.
#[derive(Clone, Copy, Debug)]
pub struct EphemeralContainers;

impl Strategy for EphemeralContainers {
    fn check_update(&self, pod: &Value, old: &Value) -> Vec<FieldError> {
        if is_static(old) {
            let why = "static pods do not support ephemeral containers";
            return vec![FieldError::forbidden(&Path::new(""), why)];
        }
        let containers = |pod: &'_ Value| -> Vec<Value> {
            let list = pod.at(&["spec", "ephemeralContainers"]).and_then(Value::as_list);
            list.unwrap_or_default().to_vec()
        };
        let now = containers(pod);
        let root = Path::new("spec");
        let path = root.child("ephemeralContainers");
        let mut errors = Vec::new();
        for old in containers(old) {
            let name = old.str_at(&["name"]);
            let what = match now.iter().find(|new| new.str_at(&["name"]) == name) {
                None => "removed",
                Some(new) if *new != old => "changed",
                Some(_) => continue,
            };
            let why = format!("existing ephemeral containers {name:?} may not be {what}\n");
            errors.push(FieldError::forbidden(&path, why));
        }
        errors
    }
}
