//! Common facts and writes of Pods, for controllers.

use kevel_api::status::StatusError;
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_controller_runtime::Client;

use crate::object::{condition, int_at, name, namespace, texts, uid};

/// Condition of a pod that is about to be deleted by a disruption.
pub(crate) const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// Whether a pod has ended for ever.
pub(crate) fn is_terminal(pod: &Value) -> bool {
    ["Succeeded", "Failed"].contains(&pod.str_at(&["status", "phase"]))
}

/// Path of a pod.
pub(crate) fn path(pod: &Value) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", namespace(pod), name(pod))
}

/// Condition of a pod, as its `status.conditions` hold it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodCondition<'a> {
    pub of: &'a str,
    pub status: &'a str,
    pub reason: &'a str,
    pub message: &'a str,
}

impl PodCondition<'_> {
    /// The condition for a pod, and whether it differs from the pod's (upstream: `UpdatePodCondition`).
    pub fn on(&self, pod: &Value, now: &str) -> (Map, bool) {
        let old = condition(pod, self.of);
        let text = |field: &str| old.map_or("", |old| old.str_at(&[field]));
        let same_status = old.is_some() && text("status") == self.status;
        let same = same_status && text("reason") == self.reason && text("message") == self.message;
        let since = if same_status { text("lastTransitionTime") } else { now };
        let mut new = texts([("type", self.of), ("status", self.status)]);
        for (field, value) in
            [("reason", self.reason), ("message", self.message), ("lastTransitionTime", since)]
        {
            if !value.is_empty() {
                new.insert(field, value.into());
            }
        }
        match int_at(pod, &["metadata", "generation"]) {
            0 => {}
            generation => drop(new.insert("observedGeneration", generation.into())),
        }
        (new, !same)
    }
}

/// Patches the status of a pod of the same UID: a condition, and perhaps its phase.
pub(crate) async fn patch_status(
    client: &Client,
    pod: &Value,
    phase: Option<&str>,
    condition: Option<&PodCondition<'_>>,
) -> Result<(), StatusError> {
    let now = Time::now(client.clock()).to_string();
    let mut status = Map::new();
    if let Some(phase) = phase {
        status.insert("phase", phase.into());
        let generation = int_at(pod, &["metadata", "generation"]);
        status.insert("observedGeneration", generation.into());
    }
    if let Some(condition) = condition {
        let (new, differs) = condition.on(pod, &now);
        if differs {
            status.insert("conditions", Value::List([Value::Map(new)].into_iter().collect()));
        }
    }
    if status.is_empty() {
        return Ok(());
    }
    let metadata = texts([("uid", uid(pod))]);
    let patch = Map::from_iter([("metadata", Value::Map(metadata)), ("status", status.into())]);
    let path = format!("{}/status", path(pod));
    client.strategic_merge_patch(&path, &patch.into()).await.map(drop)
}
