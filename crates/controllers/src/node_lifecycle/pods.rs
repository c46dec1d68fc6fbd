//! Pods of nodes that are not ready are not ready either.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kevel_api::status::StatusError;
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_controller_runtime::InformerEvent;
use kevel_store::cache::Object;
use tokio::sync::Notify;

use super::NodeLifecycle;
use super::health::READY;
use crate::object::{condition, regarding, split, unless_gone};
use crate::pod::path;
use crate::recorder::EventKind;

/// Nodes that have been lost, until their pods are queued: those of several nodes are found in one pass over all pods.
#[derive(Debug, Default)]
pub(super) struct LostNodes {
    names: Mutex<HashSet<String>>,
    added: Notify,
}

impl LostNodes {
    /// Adds a node.
    pub fn add(&self, name: &str) {
        self.lock().insert(name.to_owned());
        self.added.notify_one();
    }

    /// Waits for nodes, and takes them.
    async fn take(&self) -> HashSet<String> {
        loop {
            let added = self.added.notified();
            let names = std::mem::take(&mut *self.lock());
            if !names.is_empty() {
                return names;
            }
            added.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Name of a pod's node.
#[derive(PartialEq)]
struct NodeName(String);

fn node_name(pod: &Value) -> NodeName {
    NodeName(pod.str_at(&["spec", "nodeName"]).to_owned())
}

/// The pod with a condition `Ready` that is false; `None` without the condition, or if it is false already.
fn not_ready(pod: &Value, now: &str) -> Option<Value> {
    let ready = condition(pod, READY)?;
    if ready.str_at(&["status"]) == "False" {
        return None;
    }
    let mut pod = pod.clone();
    let conditions = pod.make_list(&["status"], "conditions");
    let ready = conditions.iter_mut().find(|condition| condition.str_at(&["type"]) == READY)?;
    let fields = ready.make_map(&[]);
    fields.insert("status", "False".into());
    fields.insert("lastTransitionTime", now.into());
    Some(pod)
}

impl NodeLifecycle {
    /// Queues a pod that has been assigned to a node that is not ready.
    pub(super) fn hear_pod(&self, event: &InformerEvent<'_>) {
        let InformerEvent::Apply(pod, before) = *event else { return };
        if self.known().unready.is_empty() {
            return;
        }
        let name = |pod: &Object| self.pods.facts(pod, node_name).ok();
        let Some(node) = name(pod) else { return };
        let is_new = before.is_none_or(|before| name(before).is_none_or(|old| old != node));
        if is_new && self.known().unready.contains(&node.0) {
            self.pod_queue.add(pod.key());
        }
    }

    /// Queues the pods of lost nodes, for ever.
    pub(super) async fn mark_pods(&self) {
        loop {
            let lost = self.lost.take().await;
            for pod in self.pods.snapshot().range("", None) {
                kevel_compute::charge(1);
                if self.pods.facts(pod, node_name).is_ok_and(|node| lost.contains(&node.0)) {
                    self.pod_queue.add(pod.key());
                }
            }
        }
    }

    /// Marks a pod as not ready, if its node is not (upstream: `MarkPodsNotReady`).
    pub(super) async fn mark_pod(&self, key: &str) -> Result<(), StatusError> {
        let (space, pod_name) = split(key);
        let Some(pod) = self.pods.get(space, pod_name)? else { return Ok(()) };
        if !self.known().unready.contains(&node_name(&pod).0) {
            return Ok(());
        }
        let Some(marked) = not_ready(&pod, &Time::now(&self.clock).to_string()) else {
            return Ok(());
        };
        let path = format!("{}/status", path(&pod));
        if unless_gone(self.client.update(&path, &marked).await)?.is_some() {
            let of = regarding("v1", "Pod", &pod);
            let text = "Node is not ready";
            self.recorder.event(&of, EventKind::Warning, "NodeNotReady", text).await;
        }
        Ok(())
    }
}
