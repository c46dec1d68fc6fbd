//! Pods.

mod binding;
mod condition;
pub mod ephemeral_containers;
mod eviction;
mod qos;
pub mod resize;

pub use binding::Binding;
pub use eviction::Eviction;

use kevel_api::value::{Map, Value};

use crate::rules::Rules;

/// The rules of pods.
pub const RULES: Rules = Rules { prepare_create, grace_period: Some(grace_period), ..Rules::NONE };

fn prepare_create(object: &mut Value) {
    let status = Map::from_iter([
        ("phase", Value::from("Pending")),
        ("qosClass", qos::class(object).into()),
    ]);
    if let Some(object) = object.as_map_mut() {
        object.insert("status", status.into());
    }
}

/// What runs nowhere, or no more, needs no time.
fn grace_period(object: &Value, asked: Option<i64>) -> i64 {
    let usual = object.at(&["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_int);
    let ended = matches!(object.str_at(&["status", "phase"]), "Failed" | "Succeeded");
    let seconds = match object.str_at(&["spec", "nodeName"]).is_empty() || ended {
        true => 0,
        false => asked.or(usual).unwrap_or(0),
    };
    if seconds < 0 { 1 } else { seconds }
}

/// Whether a pod is the image of one that its node runs by itself.
fn is_static(pod: &Value) -> bool {
    pod.at(&["metadata", "annotations", "kubernetes.io/config.mirror"]).is_some()
}
