//! Deletion of pods that do not tolerate the `NoExecute` taints of their node.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kevel_api::value::Value;
use kevel_clock::{Clock, Moment};
use kevel_controller_runtime::{Backoff, Client, InformerEvent, WorkQueue, run};
use kevel_store::cache::Object;

use crate::context::ControllerContext;
use crate::delay::Delays;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::object::{split, unless_gone};
use crate::pod::{DISRUPTION_TARGET, PodCondition, patch_status};
use crate::reconcile_error::ReconcileError;
use crate::recorder::{EventKind, EventRecorder, Regarding};
use crate::unavailable::Unavailable;

const NAME: &str = "taint-eviction-controller";
const ACCOUNT: &str = "node-controller";
/// Workers (upstream: `UpdateWorkerSize`).
const WORKERS: usize = 8;
const NO_EXECUTE: &str = "NoExecute";

const EVICTED: PodCondition<'static> = PodCondition {
    of: DISRUPTION_TARGET,
    status: "True",
    reason: "DeletionByTaintManager",
    message: "Taint manager: deleting due to NoExecute taint",
};

struct Evictions {
    client: Client,
    clock: Clock,
    pods: CacheLister,
    nodes: CacheLister,
    recorder: EventRecorder,
    delays: Arc<Delays>,
    queue: Arc<WorkQueue>,
    /// Pods that are to be deleted, and when.
    scheduled: Mutex<HashMap<String, Moment>>,
}

/// Facts of a pod that decide on its eviction.
#[derive(PartialEq)]
struct EvictionFacts {
    node: String,
    tolerations: Vec<Value>,
}

fn facts(pod: &Value) -> EvictionFacts {
    EvictionFacts {
        node: pod.str_at(&["spec", "nodeName"]).to_owned(),
        tolerations: pod.list_at(&["spec", "tolerations"]).to_vec(),
    }
}

/// Taints of a node that evict pods.
#[derive(PartialEq)]
struct Taints(Vec<Value>);

fn taints(node: &Value) -> Taints {
    let taints = node.list_at(&["spec", "taints"]).iter();
    Taints(taints.filter(|taint| taint.str_at(&["effect"]) == NO_EXECUTE).cloned().collect())
}

/// Time for which a pod stays on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stay {
    Forever,
    For(Duration),
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let queue = context.queue("noexec_taint_pod", Backoff::default());
    let delays = Delays::new(context.clock().clone(), queue.clone());
    let this = Arc::new(Evictions {
        client: context.client(ACCOUNT),
        clock: context.clock().clone(),
        pods: CacheLister::new(context.storage("", "pods")?),
        nodes: CacheLister::new(context.storage("", "nodes")?),
        recorder: context.recorder(ACCOUNT, NAME),
        delays: delays.clone(),
        queue: queue.clone(),
        scheduled: Mutex::default(),
    });
    let heard = this.clone();
    let pods = this.pods.informer().run(move |event| heard.hear_pod(&event));
    let heard = this.clone();
    let nodes = this.nodes.informer().run(move |event| heard.hear_node(&event));
    let reconcile = move |key: String| {
        let this = this.clone();
        async move { this.reconcile(&key).await.map_err(|error| error.to_string()) }
    };
    Ok(Box::pin(async move {
        tokio::join!(pods, nodes, delays.run(), run(queue, NAME, WORKERS, reconcile));
    }))
}

impl Evictions {
    fn scheduled(&self) -> MutexGuard<'_, HashMap<String, Moment>> {
        self.scheduled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear_pod(&self, event: &InformerEvent<'_>) {
        let (pod, before) = match *event {
            InformerEvent::Apply(pod, before) => (pod, before),
            InformerEvent::Delete(pod) => return self.queue_scheduled(pod.key()),
            InformerEvent::Init => return,
            // Pods may have gone unheard.
            InformerEvent::InitDone => {
                let keys: Vec<String> = self.scheduled().keys().cloned().collect();
                return keys.iter().for_each(|key| self.queue.add(key));
            }
        };
        let Ok(now) = self.pods.facts(pod, facts) else { return };
        let before = before.and_then(|before| self.pods.tree(before).ok());
        if before.is_some_and(|before| facts(&before) == *now) {
            return;
        }
        let nodes = self.nodes.snapshot();
        let tainted = nodes.get(&now.node).is_some_and(|node| !self.taints(node).0.is_empty());
        if tainted {
            self.queue.add(pod.key());
        } else {
            self.queue_scheduled(pod.key());
        }
    }

    fn queue_scheduled(&self, key: &str) {
        if self.scheduled().contains_key(key) {
            self.queue.add(key);
        }
    }

    fn taints(&self, node: &Object) -> Arc<Taints> {
        let none = || Arc::new(Taints(Vec::new()));
        self.nodes.facts(node, taints).unwrap_or_else(|_| none())
    }

    /// Queues the pods of a node whose taints have changed.
    fn hear_node(&self, event: &InformerEvent<'_>) {
        let InformerEvent::Apply(node, before) = *event else { return };
        let now = self.taints(node);
        let had = match before.map(|before| self.nodes.tree(before)) {
            Some(Ok(before)) => taints(&before),
            _ => Taints(Vec::new()),
        };
        if had == *now {
            return;
        }
        for pod in self.pods.snapshot().range("", None) {
            kevel_compute::charge(1);
            if self.pods.facts(pod, facts).is_ok_and(|facts| facts.node == node.name()) {
                self.queue.add(pod.key());
            }
        }
    }

    async fn reconcile(&self, key: &str) -> Result<(), ReconcileError> {
        let known = self.scheduled().get(key).copied();
        if known.is_some_and(|due| due <= self.clock.moment()) {
            return self.evict(key).await;
        }
        let (space, name) = split(key);
        let stay = match self.pods.get(space, name)? {
            Some(pod) => self.stay(&facts(&pod)),
            None => Stay::Forever,
        };
        match (stay, known) {
            (Stay::Forever, None) => Ok(()),
            (Stay::Forever, Some(_)) => {
                self.scheduled().remove(key);
                let message = format!("Cancelling deletion of Pod {key}");
                self.tell(key, &message).await;
                Ok(())
            }
            (Stay::For(Duration::ZERO), _) => {
                self.scheduled().insert(key.to_owned(), self.clock.moment());
                self.evict(key).await
            }
            // Further taints do not prolong the stay.
            (Stay::For(_), Some(_)) => Ok(()),
            (Stay::For(wait), None) => {
                let due = self.clock.moment() + wait;
                self.scheduled().insert(key.to_owned(), due);
                self.delays.add_due(key, due);
                Ok(())
            }
        }
    }

    fn stay(&self, pod: &EvictionFacts) -> Stay {
        let nodes = self.nodes.snapshot();
        let node = nodes.get(&pod.node).filter(|_| !pod.node.is_empty());
        node.map_or(Stay::Forever, |node| stay(&pod.tolerations, &self.taints(node).0))
    }

    async fn tell(&self, key: &str, message: &str) {
        let (space, name) = split(key);
        let regarding = Regarding {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: space.to_owned(),
            name: name.to_owned(),
            uid: String::new(),
        };
        self.recorder.event(&regarding, EventKind::Normal, "TaintManagerEviction", message).await;
    }

    async fn evict(&self, key: &str) -> Result<(), ReconcileError> {
        self.tell(key, &format!("Marking for deletion Pod {key}")).await;
        let (space, name) = split(key);
        let path = format!("/api/v1/namespaces/{space}/pods/{name}");
        if let Some(pod) = unless_gone(self.client.get(&path).await)? {
            unless_gone(patch_status(&self.client, &pod, None, Some(&EVICTED)).await)?;
            unless_gone(self.client.delete(&path).await)?;
        }
        self.scheduled().remove(key);
        Ok(())
    }
}

/// Time for which a pod stays under taints: the shortest of the tolerations that it needs (upstream:
/// `getMinTolerationTime`).
fn stay(tolerations: &[Value], taints: &[Value]) -> Stay {
    let mut stay = Stay::Forever;
    for taint in taints {
        let Some(by) = tolerations.iter().find(|toleration| tolerates(toleration, taint)) else {
            return Stay::For(Duration::ZERO);
        };
        let seconds = by.at(&["tolerationSeconds"]).and_then(Value::as_int);
        let Some(seconds) = seconds else { continue };
        let own = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        stay = match stay {
            Stay::Forever => Stay::For(own),
            Stay::For(other) => Stay::For(own.min(other)),
        };
    }
    stay
}

/// Whether a toleration matches a taint (upstream: `ToleratesTaint`).
fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let [effect, key] = ["effect", "key"].map(|field| toleration.str_at(&[field]));
    let fits = |wanted: &str, field: &str| wanted.is_empty() || wanted == taint.str_at(&[field]);
    fits(effect, "effect")
        && fits(key, "key")
        && match toleration.str_at(&["operator"]) {
            "Exists" => true,
            "" | "Equal" => toleration.str_at(&["value"]) == taint.str_at(&["value"]),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use kevel_codec::json::{Unknown, decode_any};

    use super::*;

    fn list(text: &str) -> Vec<Value> {
        let read = decode_any(format!(r#"{{"l":[{text}]}}"#).as_bytes(), Unknown::Ignore).unwrap();
        read.value.list_at(&["l"]).to_vec()
    }

    #[test]
    fn shortest_needed_toleration_decides() {
        let taint = r#"{"key":"k","value":"v","effect":"NoExecute"}"#;
        let other = r#"{"key":"o","effect":"NoExecute"}"#;
        let both = format!("{taint},{other}");
        let seconds = |seconds| Stay::For(Duration::from_secs(seconds));
        for (tolerations, taints, expected) in [
            ("", "", Stay::Forever),
            ("", taint, seconds(0)),
            (r#"{"key":"k","value":"w"}"#, taint, seconds(0)),
            (r#"{"key":"k","value":"v"}"#, taint, Stay::Forever),
            (r#"{"operator":"Exists","tolerationSeconds":9}"#, both.as_str(), seconds(9)),
            (r#"{"key":"k","operator":"Exists","effect":"NoSchedule"}"#, taint, seconds(0)),
            (
                r#"{"key":"k","operator":"Exists","tolerationSeconds":9},
                {"key":"o","operator":"Exists","tolerationSeconds":5}"#,
                both.as_str(),
                seconds(5),
            ),
            (r#"{"key":"k","operator":"Exists","tolerationSeconds":-1}"#, taint, seconds(0)),
        ] {
            assert_eq!(stay(&list(tolerations), &list(taints)), expected, "{tolerations}");
        }
    }
}
