//! Pods.

mod binding;
mod condition;
mod ephemeral_containers;
mod eviction;
mod qos;
mod resize;

pub use binding::Binding;
pub use ephemeral_containers::EphemeralContainers;
pub use eviction::Eviction;
pub use resize::Resize;

use kevel_api::name;
use kevel_api::value::{Map, Value};
use kevel_server::strategy::Strategy;

/// The strategy of pods.
#[derive(Clone, Copy, Debug)]
pub struct Pod;

impl Strategy for Pod {
    fn prepare_create(&self, object: &mut Value) {
        let status = Map::from_iter([
            ("phase", Value::from("Pending")),
            ("qosClass", qos::class(object).into()),
        ]);
        if let Some(object) = object.as_map_mut() {
            object.insert("status", status.into());
        }
    }

    fn check_name(&self, name: &str, prefix: bool) -> Vec<String> {
        name::name_is_dns_subdomain(name, prefix)
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn graceful(&self) -> bool {
        true
    }

    /// What runs nowhere, or no more, needs no time.
    fn grace_period(&self, object: &Value, asked: Option<i64>) -> Option<i64> {
        let usual = object.at(&["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_int);
        let ended = matches!(object.str_at(&["status", "phase"]), "Failed" | "Succeeded");
        let seconds = match object.str_at(&["spec", "nodeName"]).is_empty() || ended {
            true => 0,
            false => asked.or(usual).unwrap_or(0),
        };
        Some(if seconds < 0 { 1 } else { seconds })
    }
}

/// Whether a pod is the image of one that its node runs by itself.
fn is_static(pod: &Value) -> bool {
    pod.at(&["metadata", "annotations", "kubernetes.io/config.mirror"]).is_some()
}
