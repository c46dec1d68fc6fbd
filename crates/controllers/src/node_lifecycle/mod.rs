//! Life of nodes: conditions of nodes that give no sign of life become `Unknown`, taints follow the conditions, and pods
//! of lost nodes are no longer ready.
//!
//! Nothing is polled: a node is looked at when it changes, and at the end of its grace period. What is known of all
//! nodes is in [`KnownNodes`]; a look at one node is [`NodeLifecycle::reconcile`].

mod eviction;
mod health;
mod metrics;
mod pods;
mod rate;
mod taints;
mod zones;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kevel_api::status::{StatusError, reason};
use kevel_api::time::{MicroTime, Time};
use kevel_api::value::{Map, Value};
use kevel_clock::{Clock, Stopwatch};
use kevel_controller_runtime::{Backoff, Client, InformerEvent, WorkQueue, run};
use kevel_registry::storage::local_key;
use kevel_store::Revision;
use kevel_store::cache::Object;
use tokio::sync::Notify;

use self::health::{NodeHealth, ready_status, without_sign};
use self::metrics::NodeMetrics;
use self::taints::TaintChange;
use self::zones::{Disruption, Zones, is_counted, zone_of};
use crate::context::ControllerContext;
use crate::delay::Delays;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::object::{name, uid, unless_gone};
use crate::reconcile_error::ReconcileError;
use crate::recorder::{EventKind, EventRecorder, Regarding};
use crate::unavailable::Unavailable;

const NAME: &str = "node-lifecycle-controller";
const ACCOUNT: &str = "node-controller";
const NODES: &str = "/api/v1/nodes";
/// Namespace of the Leases that kubelets renew.
const LEASES: &str = "kube-node-lease";
/// Workers that look at nodes, and that change pods (upstream: `nodeUpdateWorkerSize`, `podUpdateWorkerSize`).
const NODE_WORKERS: usize = 8;
const POD_WORKERS: usize = 4;
/// Labels that are kept equal: the one that is in use, and its old name.
const LABELS: [(&str, &str); 2] = [
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
];

/// State of all nodes.
#[derive(Debug, Default)]
struct KnownNodes {
    nodes: HashMap<String, KnownNode>,
    zones: Zones,
    /// Nodes that were heard of and not looked at yet: zones are judged only when there are none.
    unseen: HashSet<String>,
    /// Nodes with a condition `Ready` that is not true.
    unready: HashSet<String>,
}

#[derive(Debug)]
struct KnownNode {
    uid: String,
    health: NodeHealth,
    /// Whether the taints that evict pods have to go, whatever the conditions are.
    release: bool,
}

struct NodeLifecycle {
    client: Client,
    clock: Clock,
    nodes: CacheLister,
    leases: CacheLister,
    pods: CacheLister,
    recorder: EventRecorder,
    queue: Arc<WorkQueue>,
    pod_queue: Arc<WorkQueue>,
    delays: Arc<Delays>,
    known: Mutex<KnownNodes>,
    /// Told when a node may have to be tainted.
    tainter: Notify,
    /// Nodes whose pods are no longer ready.
    lost: pods::LostNodes,
    metrics: Arc<NodeMetrics>,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let queue = context.queue("node_lifecycle_controller", Backoff::default());
    let pod_queue = context.queue("node_lifecycle_controller_pods", Backoff::default());
    let this = Arc::new(NodeLifecycle {
        client: context.client(ACCOUNT),
        clock: context.clock().clone(),
        nodes: CacheLister::new(context.storage("", "nodes")?),
        leases: CacheLister::new(context.storage("coordination.k8s.io", "leases")?),
        pods: CacheLister::new(context.storage("", "pods")?),
        recorder: context.recorder(ACCOUNT, ACCOUNT),
        delays: Delays::new(context.clock().clone(), queue.clone()),
        queue: queue.clone(),
        pod_queue: pod_queue.clone(),
        known: Mutex::default(),
        tainter: Notify::new(),
        lost: pods::LostNodes::default(),
        metrics: context.metric_set(NodeMetrics::new),
    });
    let heard = this.clone();
    let nodes = this.nodes.informer().run(move |event| heard.hear_node(&event));
    let heard = this.clone();
    let leases = this.leases.informer().for_each(move |lease| heard.hear_lease(lease));
    let heard = this.clone();
    let pods = this.pods.informer().run(move |event| heard.hear_pod(&event));
    let looked = this.clone();
    let look = move |name: String| {
        let this = looked.clone();
        async move { this.reconcile(&name).await }
    };
    let marked = this.clone();
    let mark = move |key: String| {
        let this = marked.clone();
        async move { this.mark_pod(&key).await }
    };
    Ok(Box::pin(async move {
        let informers = async { tokio::join!(nodes, leases, pods) };
        let workers = async {
            tokio::join!(
                run(queue, NAME, NODE_WORKERS, look),
                run(pod_queue, NAME, POD_WORKERS, mark)
            )
        };
        tokio::join!(informers, workers, this.delays.run(), this.taint_nodes(), this.mark_pods());
    }))
}

/// Renewal of a Lease.
fn renewal(lease: &Value) -> MicroTime {
    lease.str_at(&["spec", "renewTime"]).parse().unwrap_or(MicroTime::ZERO)
}

/// Success also where an object has changed or gone meanwhile: the change queues it again.
fn unless_changed<T>(result: Result<T, StatusError>) -> Result<Option<T>, StatusError> {
    match result {
        Err(error) if error.reason() == reason::CONFLICT => Ok(None),
        result => unless_gone(result),
    }
}

impl NodeLifecycle {
    fn known(&self) -> MutexGuard<'_, KnownNodes> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear_node(&self, event: &InformerEvent<'_>) {
        match *event {
            InformerEvent::Apply(node, _) => {
                {
                    let mut known = self.known();
                    if !known.nodes.contains_key(node.name()) {
                        known.unseen.insert(node.name().to_owned());
                    }
                }
                self.queue.add(node.name());
            }
            InformerEvent::Delete(node) => self.queue.add(node.name()),
            InformerEvent::Init => {}
            // Deletions may have gone unheard.
            InformerEvent::InitDone => {
                let names: Vec<String> = self.known().nodes.keys().cloned().collect();
                names.iter().for_each(|name| self.queue.add(name));
            }
        }
    }

    fn hear_lease(&self, lease: &Object) {
        if lease.namespace() != LEASES {
            return;
        }
        // Not decoded: kubelets write Leases more often than anything else. It is read when the node's time is over.
        let now = self.clock.moment();
        if let Some(node) = self.known().nodes.get_mut(lease.name()) {
            node.health.hear_renewal(lease.revision(), now);
        }
    }

    async fn reconcile(&self, name: &str) -> Result<(), ReconcileError> {
        let watch = Stopwatch::start();
        let looked = match self.nodes.get("", name) {
            Ok(Some(node)) => self.look(node).await,
            Ok(None) => {
                self.forget(name).await;
                Ok(())
            }
            Err(error) => Err(error.into()),
        };
        self.known().unseen.remove(name);
        self.judge_zones();
        self.metrics.observe(watch.elapsed().as_secs_f64());
        looked
    }

    /// Looks at a node. Each step gets the node as the one before has left it; one that finds it changed meanwhile ends
    /// the look, for the change begins another.
    async fn look(&self, node: Value) -> Result<(), ReconcileError> {
        self.register(&node).await;
        self.place(&node);
        let Some(node) = self.reconcile_labels(node).await? else { return Ok(()) };
        let change = TaintChange::of_conditions(&node);
        let Some(node) = self.change_taints(node, &change).await? else { return Ok(()) };
        let Some(node) = self.check_health(node).await? else { return Ok(()) };
        self.place(&node);
        let Some(node) = self.release(node).await? else { return Ok(()) };
        self.evict(node).await
    }

    /// Begins to follow a node that was not known before.
    async fn register(&self, node: &Value) {
        let (name, uid) = (name(node), uid(node));
        let replaced = self.known().nodes.get(name).is_some_and(|known| known.uid != uid);
        if replaced {
            self.forget(name).await;
        }
        {
            let mut known = self.known();
            if known.nodes.contains_key(name) {
                return;
            }
            let health = NodeHealth::new(node, &self.clock);
            let new = KnownNode { uid: uid.to_owned(), health, release: true };
            known.nodes.insert(name.to_owned(), new);
        }
        let message = format!("Registered Node {name} in Controller");
        self.tell(name, uid, "RegisteredNode", &message).await;
    }

    async fn forget(&self, name: &str) {
        let gone = {
            let mut known = self.known();
            known.unready.remove(name);
            known.zones.remove(name);
            known.nodes.remove(name)
        };
        if let Some(gone) = gone {
            let message = format!("Removing Node {name} from Controller");
            self.tell(name, &gone.uid, "RemovingNode", &message).await;
        }
    }

    /// Records an Event about a node.
    async fn tell(&self, name: &str, uid: &str, reason: &'static str, message: &str) {
        let message = format!("Node {name} event: {message}");
        self.recorder.event(&of_node(name, uid), EventKind::Normal, reason, &message).await;
    }

    /// Notes the zone of a node, and whether it is ready.
    fn place(&self, node: &Value) {
        let ready = ready_status(node);
        let is_ready = ready == Some("True");
        let counted = is_counted(node).then_some(is_ready);
        let now = self.clock.moment();
        let mut known = self.known();
        known.zones.put(name(node), &zone_of(node), counted, now);
        if ready.is_some() && !is_ready {
            known.unready.insert(name(node).to_owned());
        } else {
            known.unready.remove(name(node));
        }
    }

    /// Gives the old names of labels the values of the new ones (upstream: `reconcileNodeLabels`).
    async fn reconcile_labels(&self, node: Value) -> Result<Option<Value>, StatusError> {
        let label = |key: &str| node.at(&["metadata", "labels", key]).cloned();
        let stale = |(new, old): &(&'static str, &'static str)| {
            let value = label(new)?;
            (label(old).as_ref() != Some(&value)).then_some((*old, value))
        };
        let labels: Map = LABELS.iter().filter_map(stale).collect();
        if labels.is_empty() {
            return Ok(Some(node));
        }
        let metadata = Map::from_iter([("labels", Value::Map(labels))]);
        let patch = Map::from_iter([("metadata", Value::Map(metadata))]).into();
        let path = format!("{NODES}/{}", name(&node));
        unless_gone(self.client.strategic_merge_patch(&path, &patch).await)
    }

    /// Renewal and revision of a node's Lease.
    fn lease(&self, name: &str) -> Result<Option<(MicroTime, Revision)>, StatusError> {
        let leases = self.leases.snapshot();
        let Some(lease) = leases.get(&local_key(LEASES, name)) else { return Ok(None) };
        Ok(Some((renewal(&self.leases.tree(lease)?), lease.revision())))
    }

    /// Sets the conditions of a node that has given no sign of life for its grace period; returns the node, `None` if it
    /// was changed meanwhile.
    async fn check_health(&self, node: Value) -> Result<Option<Value>, StatusError> {
        let (name, now) = (name(&node), self.clock.moment());
        let lease = self.lease(name)?;
        let left = {
            let mut known = self.known();
            let Some(known) = known.nodes.get_mut(name) else { return Ok(None) };
            known.health.note_status(&node, now);
            if let Some((renewal, revision)) = lease {
                known.health.note_renewal(renewal, revision, now);
            }
            known.health.time_left(now)
        };
        if !left.is_zero() {
            self.delays.add_due(name, now + left);
            return Ok(Some(node));
        }
        let now = Time::now(&self.clock).to_string();
        let Some(silent) = without_sign(&node, &now) else { return Ok(Some(node)) };
        let path = format!("{NODES}/{name}/status");
        let Some(silent) = unless_changed(self.client.update(&path, &silent).await)? else {
            return Ok(None);
        };
        if ready_status(&node) == Some("True") {
            self.place(&silent);
            let message = format!("Node {name} status is now: NodeNotReady");
            let regarding = of_node(name, uid(&node));
            self.recorder.event(&regarding, EventKind::Normal, "NodeNotReady", &message).await;
            self.lost.add(name);
        }
        Ok(Some(silent))
    }

    /// Judges the zones again after a change of their nodes.
    fn judge_zones(&self) {
        let now = self.clock.moment();
        let (sizes, disruption, names) = {
            let mut known = self.known();
            if !known.zones.has_changed() || !known.unseen.is_empty() {
                return;
            }
            let disruption = known.zones.evaluate(now);
            let mut names = Vec::new();
            if disruption != Disruption::None {
                for (name, node) in &mut known.nodes {
                    if disruption == Disruption::Begun {
                        node.release = true;
                    } else {
                        node.health.give_sign(now);
                    }
                    names.push(name.clone());
                }
            }
            (known.zones.sizes(), disruption, names)
        };
        match disruption {
            Disruption::None => {}
            Disruption::Begun => {
                tracing::info!(controller = NAME, "No node is ready: nothing is evicted")
            }
            Disruption::Ended => tracing::info!(controller = NAME, "Some nodes are ready again"),
        }
        for name in names {
            kevel_compute::charge(1);
            self.queue.add(&name);
        }
        sizes.iter().for_each(|size| self.metrics.show(size));
        self.tainter.notify_one();
    }
}

/// Object of an Event about a node.
fn of_node(name: &str, uid: &str) -> Regarding {
    Regarding {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        namespace: String::new(),
        name: name.to_owned(),
        uid: uid.to_owned(),
    }
}
