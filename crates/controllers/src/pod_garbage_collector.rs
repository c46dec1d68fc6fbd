//! Deletion of pods that no kubelet will delete: on nodes that are gone or out of service, deleted before they were
//! scheduled, or ended and too many.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kevel_api::status::StatusError;
use kevel_api::value::{Map, Value};
use kevel_controller_runtime::{Backoff, Client, InformerEvent, WorkQueue, run};
use kevel_store::cache::Object;

use crate::context::ControllerContext;
use crate::delay::Delays;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::object::{is_deleted, is_true, name, split, unless_gone};
use crate::pod::{DISRUPTION_TARGET, PodCondition, is_terminal, patch_status, path};
use crate::unavailable::Unavailable;

const NAME: &str = "pod-garbage-collector-controller";
/// Time for which a missing node may still appear (upstream: `quarantineTime`).
const QUARANTINE: Duration = Duration::from_secs(40);
/// Ended pods that are kept (upstream: `TerminatedPodGCThreshold`).
const MAX_TERMINATED: usize = 12_500;
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// Key of the ended pods among the keys of pods, which all have a namespace.
const TERMINATED: &str = "terminated";

const ORPHANED: PodCondition<'static> = PodCondition {
    of: DISRUPTION_TARGET,
    status: "True",
    reason: "DeletionByPodGC",
    message: "PodGC: node no longer exists",
};

struct EndedPods {
    client: Client,
    pods: CacheLister,
    nodes: CacheLister,
    queue: Arc<WorkQueue>,
    missing_nodes: Arc<Delays>,
    /// Keys of the pods that have ended.
    terminated: Mutex<HashSet<String>>,
    max_terminated: usize,
}

/// Facts of a pod that decide on its collection.
struct PodFacts {
    node: String,
    is_deleted: bool,
    has_ended: bool,
}

fn facts(pod: &Value) -> PodFacts {
    let phase = pod.str_at(&["status", "phase"]);
    PodFacts {
        node: pod.str_at(&["spec", "nodeName"]).to_owned(),
        is_deleted: is_deleted(pod),
        has_ended: !["Pending", "Running", "Unknown"].contains(&phase),
    }
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let queue = WorkQueue::new(Backoff::default());
    let missing = context.queue("orphaned_pods_nodes", Backoff::default());
    let missing_nodes = Delays::new(context.clock().clone(), missing.clone());
    let this = Arc::new(EndedPods {
        client: context.client("pod-garbage-collector"),
        pods: CacheLister::new(context.storage("", "pods")?),
        nodes: CacheLister::new(context.storage("", "nodes")?),
        queue: queue.clone(),
        missing_nodes: missing_nodes.clone(),
        terminated: Mutex::default(),
        max_terminated: MAX_TERMINATED,
    });
    let heard = this.clone();
    let pods = this.pods.informer().run(move |event| heard.hear_pod(&event));
    let heard = this.clone();
    let nodes = this.nodes.informer().run(move |event| heard.hear_node(&event));
    let orphans = this.clone();
    let collect_orphans = move |node: String| {
        let this = orphans.clone();
        async move { this.collect_orphans(&node).await.map_err(|error| error.to_string()) }
    };
    let collect = move |key: String| {
        let this = this.clone();
        async move { this.collect(&key).await.map_err(|error| error.to_string()) }
    };
    Ok(Box::pin(async move {
        tokio::join!(
            pods,
            nodes,
            missing_nodes.run(),
            run(missing, NAME, 1, collect_orphans),
            run(queue, NAME, 1, collect)
        );
    }))
}

impl EndedPods {
    fn terminated(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.terminated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear_pod(&self, event: &InformerEvent<'_>) {
        let pod = match *event {
            InformerEvent::Init => return self.terminated().clear(),
            InformerEvent::InitDone => return,
            InformerEvent::Delete(pod) => {
                self.terminated().remove(pod.key());
                return;
            }
            InformerEvent::Apply(pod, _) => pod,
        };
        let Ok(facts) = self.pods.facts(pod, facts) else { return };
        if self.is_collectable(&facts) {
            self.queue.add(pod.key());
        }
        if !facts.node.is_empty() && self.nodes.snapshot().get(&facts.node).is_none() {
            self.missing_nodes.add_after(&facts.node, QUARANTINE);
        }
        let mut terminated = self.terminated();
        if !facts.has_ended {
            terminated.remove(pod.key());
        } else if terminated.insert(pod.key().to_owned()) && terminated.len() > self.max_terminated
        {
            self.queue.add(TERMINATED);
        }
    }

    fn hear_node(&self, event: &InformerEvent<'_>) {
        match *event {
            InformerEvent::Delete(node) => self.missing_nodes.add_after(node.name(), QUARANTINE),
            InformerEvent::Apply(node, _) if self.is_out_of_service(node) => {
                self.on_node(node.name(), |pod, facts| {
                    if facts.is_deleted {
                        self.queue.add(pod.key());
                    }
                });
            }
            _ => {}
        }
    }

    fn on_node(&self, node: &str, mut visit: impl FnMut(&Arc<Object>, &PodFacts)) {
        for pod in self.pods.snapshot().range("", None) {
            kevel_compute::charge(1);
            match self.pods.facts(pod, facts) {
                Ok(facts) if facts.node == node => visit(pod, &facts),
                _ => {}
            }
        }
    }

    /// Whether a pod is to be deleted, since no kubelet does it.
    fn is_collectable(&self, facts: &PodFacts) -> bool {
        let out_of_service = || {
            let nodes = self.nodes.snapshot();
            nodes.get(&facts.node).is_some_and(|node| self.is_out_of_service(node))
        };
        facts.is_deleted && (facts.node.is_empty() || out_of_service())
    }

    fn is_out_of_service(&self, node: &Object) -> bool {
        // Nodes change often, and few have the taint.
        let text = OUT_OF_SERVICE.as_bytes();
        let may = node.wire().is_ok_and(|wire| wire.windows(text.len()).any(|part| part == text));
        may && self.nodes.tree(node).is_ok_and(|node| {
            let taints = node.list_at(&["spec", "taints"]);
            let tainted = taints.iter().any(|taint| taint.str_at(&["key"]) == OUT_OF_SERVICE);
            tainted && !is_true(&node, "Ready")
        })
    }

    async fn collect(&self, key: &str) -> Result<(), StatusError> {
        if key == TERMINATED {
            return self.collect_terminated().await;
        }
        let (space, pod_name) = split(key);
        let Some(pod) = self.pods.get(space, pod_name)? else { return Ok(()) };
        if !self.is_collectable(&facts(&pod)) {
            return Ok(());
        }
        self.delete(&pod, None).await
    }

    /// Deletes the oldest of the ended pods, evicted ones first, if there are too many.
    async fn collect_terminated(&self) -> Result<(), StatusError> {
        let keys: Vec<String> = self.terminated().iter().cloned().collect();
        let Some(surplus) = keys.len().checked_sub(self.max_terminated).filter(|count| *count > 0)
        else {
            return Ok(());
        };
        let mut pods = Vec::with_capacity(keys.len());
        for key in &keys {
            kevel_compute::charge(1);
            let (space, pod_name) = split(key);
            pods.extend(self.pods.get(space, pod_name)?);
        }
        pods.sort_by_cached_key(|pod| {
            let is_evicted = pod.str_at(&["status", "phase"]) == "Failed"
                && pod.str_at(&["status", "reason"]) == "Evicted";
            let created = pod.str_at(&["metadata", "creationTimestamp"]).to_owned();
            (Reverse(is_evicted), created, name(pod).to_owned())
        });
        for pod in pods.iter().take(surplus) {
            self.delete(pod, None).await?;
        }
        Ok(())
    }

    /// Deletes the pods of a node that is gone.
    async fn collect_orphans(&self, node: &str) -> Result<(), StatusError> {
        let is_known = self.nodes.snapshot().get(node).is_some();
        if is_known
            || unless_gone(self.client.get(&format!("/api/v1/nodes/{node}")).await)?.is_some()
        {
            return Ok(());
        }
        let mut orphans = Vec::new();
        self.on_node(node, |pod, _| orphans.push(pod.clone()));
        for orphan in &orphans {
            self.delete(&self.pods.tree(orphan)?, Some(&ORPHANED)).await?;
        }
        Ok(())
    }

    /// Deletes a pod at once; one that has not ended fails first, since no kubelet will say so.
    async fn delete(
        &self,
        pod: &Value,
        condition: Option<&PodCondition<'_>>,
    ) -> Result<(), StatusError> {
        if !is_terminal(pod) {
            let failed = patch_status(&self.client, pod, Some("Failed"), condition).await;
            if unless_gone(failed)?.is_none() {
                return Ok(());
            }
        }
        let options = Map::from_iter([("gracePeriodSeconds", Value::Int(0))]);
        unless_gone(self.client.delete_with(&path(pod), &options.into()).await).map(drop)
    }
}
