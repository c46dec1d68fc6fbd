//! Graph of objects and the nodes that may read them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use kevel_api::references;
use kevel_api::value::Value;

/// Annotation of mirror pods: a kubelet shows its static pods by them.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";

/// The kinds of objects that nodes have to do with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    ConfigMap,
    ResourceSlice,
    Pod,
    VolumeClaim,
    Volume,
    ResourceClaim,
    Secret,
    VolumeAttachment,
    ServiceAccount,
    PodCertificateRequest,
}

impl Kind {
    /// Operations in metrics: an object is added or changed, and deleted.
    pub fn actions(self) -> [&'static str; 2] {
        match self {
            Kind::Pod => ["AddPod", "DeletePod"],
            Kind::Volume => ["AddPV", "DeletePV"],
            Kind::VolumeAttachment => ["AddVolumeAttachment", "DeleteVolumeAttachment"],
            Kind::ResourceSlice => ["AddResourceSlice", "DeleteResourceSlice"],
            Kind::PodCertificateRequest => {
                ["AddPodCertificateRequest", "DeletePodCertificateRequest"]
            }
            // Only led to.
            Kind::ConfigMap
            | Kind::VolumeClaim
            | Kind::ResourceClaim
            | Kind::Secret
            | Kind::ServiceAccount => ["", ""],
        }
    }
}

/// An object, by its kind and by `namespace/name` or `name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Vertex {
    kind: Kind,
    key: Box<str>,
}

impl Vertex {
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        let key = match namespace {
            "" => name.into(),
            namespace => format!("{namespace}/{name}").into(),
        };
        Vertex { kind, key }
    }
}

/// Graph of objects and nodes: for every object the nodes that it leads to, updated as objects change, so that a
/// request needs a look-up only.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// Number of paths from an object to each node.
    reach: HashMap<Vertex, BTreeMap<Arc<str>, u32>>,
    /// Edges that an object (a pod, an attachment, ...) contributes.
    edges: HashMap<Vertex, Arc<Edges>>,
    volumes: HashMap<Vertex, Volume>,
    /// The volumes that are bound to a claim.
    bound: HashMap<Vertex, BTreeSet<Vertex>>,
}

/// Ways to a node that follow from an object: from itself, and from all that it names. A pod of a megabyte names some
/// ten thousand objects.
#[derive(Debug)]
struct Edges {
    node: Arc<str>,
    from: Vec<Vertex>,
}

impl Edges {
    /// The ways from an object; `None` if it has no node.
    fn new(vertex: &Vertex, object: &Value) -> Option<Self> {
        let node: Arc<str> = object.str_at(&["spec", "nodeName"]).into();
        if node.is_empty() {
            return None;
        }
        let mut from = vec![vertex.clone()];
        if vertex.kind == Kind::Pod {
            from.extend(needed_by(object));
        }
        Some(Edges { node, from })
    }
}

/// Most ways that are changed while the graph is locked: kubelets' requests wait for it.
const LOCKED_EDGES: usize = 256;

/// Takes in an object as it is now; `None` when it is gone. New ways are there before old ones go: a node does not lose
/// in between what both lead to.
pub(super) fn set(graph: &RwLock<Graph>, kind: Kind, key: &str, object: Option<&Value>) {
    let write = || graph.write().unwrap_or_else(PoisonError::into_inner);
    let vertex = Vertex { kind, key: key.into() };
    if kind == Kind::Volume {
        return write().set_volume(vertex, object);
    }
    let new = object.and_then(|object| Edges::new(&vertex, object)).map(Arc::new);
    let old = match &new {
        Some(new) => write().edges.insert(vertex, new.clone()),
        None => write().edges.remove(&vertex),
    };
    let change = |edges: &Edges, change: fn(&mut Graph, &Vertex, &Arc<str>)| {
        for part in edges.from.chunks(LOCKED_EDGES) {
            let mut graph = write();
            part.iter().for_each(|from| change(&mut graph, from, &edges.node));
            drop(graph);
            kevel_compute::charge(4 * part.len());
        }
    };
    new.iter().for_each(|new| change(new, Graph::gain));
    old.iter().for_each(|old| change(old, Graph::lose));
}

/// A bound PersistentVolume: the nodes of pods that mount its claim need it and its secrets.
#[derive(Debug)]
struct Volume {
    claim: Vertex,
    needed: Vec<Vertex>,
}

impl Graph {
    /// Whether an object has to do with a node.
    pub fn leads(&self, from: &Vertex, node: &str) -> bool {
        self.reach.get(from).is_some_and(|nodes| nodes.contains_key(node))
    }

    fn set_volume(&mut self, volume: Vertex, object: Option<&Value>) {
        if let Some(old) = self.volumes.remove(&volume) {
            for node in self.nodes(&old.claim) {
                old.needed.iter().for_each(|from| self.lose(from, &node));
            }
            if let Some(bound) = self.bound.get_mut(&old.claim) {
                bound.remove(&volume);
                if bound.is_empty() {
                    self.bound.remove(&old.claim);
                }
            }
        }
        let Some(object) = object else { return };
        let Some(claim) = object.at(&["spec", "claimRef"]) else { return };
        let (namespace, name) = (claim.str_at(&["namespace"]), claim.str_at(&["name"]));
        let claim = Vertex::new(Kind::VolumeClaim, namespace, name);
        let secrets = references::persistent_volume_secrets(object).into_iter();
        let secrets = secrets.map(|(namespace, name)| Vertex::new(Kind::Secret, namespace, name));
        let needed: Vec<Vertex> = std::iter::once(volume.clone()).chain(secrets).collect();
        for node in self.nodes(&claim) {
            needed.iter().for_each(|from| self.gain(from, &node));
        }
        self.bound.entry(claim.clone()).or_default().insert(volume.clone());
        self.volumes.insert(volume, Volume { claim, needed });
    }

    fn nodes(&self, from: &Vertex) -> Vec<Arc<str>> {
        self.reach.get(from).into_iter().flat_map(BTreeMap::keys).cloned().collect()
    }

    /// Adds a path from an object to a node.
    fn gain(&mut self, from: &Vertex, node: &Arc<str>) {
        let nodes = self.reach.entry(from.clone()).or_default();
        let ways = nodes.entry(node.clone()).or_default();
        *ways += 1;
        if *ways == 1 {
            self.behind(from).iter().for_each(|needed| self.gain(needed, node));
        }
    }

    /// Removes a path from an object to a node.
    fn lose(&mut self, from: &Vertex, node: &Arc<str>) {
        let Some(nodes) = self.reach.get_mut(from) else { return };
        let Some(ways) = nodes.get_mut(node) else { return };
        *ways -= 1;
        if *ways > 0 {
            return;
        }
        nodes.remove(node);
        if nodes.is_empty() {
            self.reach.remove(from);
        }
        self.behind(from).iter().for_each(|needed| self.lose(needed, node));
    }

    /// The volumes that are bound to a claim, and their secrets: nodes that need the claim need them, too.
    fn behind(&self, claim: &Vertex) -> Vec<Vertex> {
        if claim.kind != Kind::VolumeClaim {
            return Vec::new();
        }
        let volumes = self.bound.get(claim).into_iter().flatten();
        volumes
            .filter_map(|volume| self.volumes.get(volume))
            .flat_map(|v| v.needed.clone())
            .collect()
    }
}

/// The objects that a node needs to run a pod; none of a mirror pod, which the node itself can create.
fn needed_by(pod: &Value) -> Vec<Vertex> {
    if pod.at(&["metadata", "annotations", MIRROR]).is_some() {
        return Vec::new();
    }
    let claims = references::pod_volume_claims(pod);
    let account = Some(pod.str_at(&["spec", "serviceAccountName"])).filter(|name| !name.is_empty());
    let lists: [(Kind, Vec<&str>); 5] = [
        (Kind::ServiceAccount, account.into_iter().collect()),
        (Kind::Secret, references::pod_secrets(pod)),
        (Kind::ConfigMap, references::pod_config_maps(pod)),
        (Kind::VolumeClaim, claims.iter().map(String::as_str).collect()),
        (Kind::ResourceClaim, references::pod_resource_claims(pod)),
    ];
    let namespace = pod.str_at(&["metadata", "namespace"]);
    let all = lists.into_iter().flat_map(|(kind, names)| {
        names.into_iter().map(move |name| {
            kevel_compute::charge(4);
            Vertex::new(kind, namespace, name)
        })
    });
    all.collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
pub(super) mod model;

#[cfg(test)]
mod tests {
    use super::*;
    use kevel_codec::json::{Unknown, decode_any};

    fn read(text: &str) -> Value {
        decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value
    }

    /// Asserts that an object leads to exactly these of the nodes `a`, `b`, `c`.
    fn assert_leads(graph: &RwLock<Graph>, kind: Kind, key: &str, nodes: &str) {
        let vertex = Vertex { kind, key: key.into() };
        let found: String = ["a", "b", "c"]
            .into_iter()
            .filter(|n| graph.read().unwrap().leads(&vertex, n))
            .collect();
        assert_eq!(found, nodes, "{kind:?} {key}");
    }

    fn pod(name: &str, node: &str, rest: &str) -> Value {
        read(&format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"n"}},"spec":{{"nodeName":"{node}"{rest}}}}}"#
        ))
    }

    #[test]
    fn objects_of_a_pod_lead_to_its_node() {
        let graph = RwLock::<Graph>::default();
        let rest = r#","serviceAccountName":"sa","imagePullSecrets":[{"name":"pull"}],
            "initContainers":[{"envFrom":[{"secretRef":{"name":"s1"}},{"configMapRef":{"name":"c1"}}]}],
            "containers":[{"env":[{"valueFrom":{"secretKeyRef":{"name":"s2"}}},{"valueFrom":{"configMapKeyRef":{"name":"c2"}}}]}],
            "ephemeralContainers":[{"envFrom":[{"secretRef":{"name":"s3"}}]}],
            "volumes":[{"name":"v","ephemeral":{}},{"persistentVolumeClaim":{"claimName":"pvc"}},
                {"secret":{"secretName":"s4"}},{"configMap":{"name":"c3"}},{"csi":{"nodePublishSecretRef":{"name":"s5"}}},
                {"projected":{"sources":[{"secret":{"name":"s6"}},{"configMap":{"name":"c4"}}]}}],
            "resourceClaims":[{"name":"x","resourceClaimName":"rc"},{"name":"y","resourceClaimTemplateName":"t"}]"#;
        set(&graph, Kind::Pod, "n/p", Some(&pod("p", "a", rest)));
        let keys = [
            (Kind::Pod, "n/p"),
            (Kind::ServiceAccount, "n/sa"),
            (Kind::Secret, "n/pull"),
            (Kind::Secret, "n/s1"),
            (Kind::Secret, "n/s2"),
            (Kind::Secret, "n/s3"),
            (Kind::Secret, "n/s4"),
            (Kind::Secret, "n/s5"),
            (Kind::Secret, "n/s6"),
            (Kind::ConfigMap, "n/c1"),
            (Kind::ConfigMap, "n/c2"),
            (Kind::ConfigMap, "n/c3"),
            (Kind::ConfigMap, "n/c4"),
            (Kind::VolumeClaim, "n/p-v"),
            (Kind::VolumeClaim, "n/pvc"),
            (Kind::ResourceClaim, "n/rc"),
        ];
        for (kind, key) in keys {
            assert_leads(&graph, kind, key, "a");
        }
        assert_eq!(graph.read().unwrap().reach.len(), keys.len());
        // One that came to another node, and one that is gone.
        set(&graph, Kind::Pod, "n/p", Some(&pod("p", "b", rest)));
        assert_leads(&graph, Kind::Secret, "n/s1", "b");
        set(&graph, Kind::Pod, "n/p", None);
        let left = graph.read().unwrap();
        assert!(left.reach.is_empty() && left.edges.is_empty());
        drop(left);
        // A mirror of what a node runs by itself leads to nothing but itself.
        let mirror = r#"{"metadata":{"name":"m","namespace":"n","annotations":{"kubernetes.io/config.mirror":""}},"spec":{"nodeName":"a","serviceAccountName":"sa"}}"#;
        set(&graph, Kind::Pod, "n/m", Some(&read(mirror)));
        assert_leads(&graph, Kind::Pod, "n/m", "a");
        assert_leads(&graph, Kind::ServiceAccount, "n/sa", "");
    }

    #[test]
    fn a_volume_follows_its_claim() {
        let volume = |claim: &str| {
            read(&format!(
                r#"{{"spec":{{"claimRef":{{"namespace":"n","name":"{claim}"}},"csi":{{"nodeStageSecretRef":{{"namespace":"m","name":"s"}},"controllerPublishSecretRef":{{"namespace":"m","name":"no"}}}}}}}}"#
            ))
        };
        let mounts = r#","volumes":[{"persistentVolumeClaim":{"claimName":"c"}}]"#;
        let shows = |graph: &RwLock<Graph>, nodes: &str| {
            assert_leads(graph, Kind::Volume, "v", nodes);
            assert_leads(graph, Kind::Secret, "m/s", nodes);
            assert_leads(graph, Kind::Secret, "m/no", "");
        };
        // Whichever is heard of first.
        for volume_first in [true, false] {
            let graph = RwLock::<Graph>::default();
            if volume_first {
                set(&graph, Kind::Volume, "v", Some(&volume("c")));
                shows(&graph, "");
            }
            set(&graph, Kind::Pod, "n/p", Some(&pod("p", "a", mounts)));
            set(&graph, Kind::Pod, "n/q", Some(&pod("q", "a", mounts)));
            set(&graph, Kind::Pod, "n/r", Some(&pod("r", "b", mounts)));
            if !volume_first {
                set(&graph, Kind::Volume, "v", Some(&volume("c")));
            }
            shows(&graph, "ab");
            set(&graph, Kind::Pod, "n/p", None);
            shows(&graph, "ab");
            set(&graph, Kind::Pod, "n/q", None);
            shows(&graph, "b");
            set(&graph, Kind::Volume, "v", Some(&volume("other")));
            shows(&graph, "");
            set(&graph, Kind::Volume, "v", Some(&volume("c")));
            shows(&graph, "b");
            set(&graph, Kind::Volume, "v", None);
            set(&graph, Kind::Pod, "n/r", None);
            let graph = graph.read().unwrap();
            assert!(graph.reach.is_empty() && graph.bound.is_empty());
        }
    }

    #[test]
    fn node_keeps_secret_while_its_large_pod_is_updated() {
        let graph = RwLock::<Graph>::default();
        let many: Vec<String> = (0..4 * LOCKED_EDGES)
            .map(|number| format!(r#"{{"secretRef":{{"name":"s{number}"}}}}"#))
            .collect();
        let large = |name: &str| {
            let env = format!(r#","containers":[{{"envFrom":[{},{name}]}}]"#, many.join(","));
            pod("p", "a", &env)
        };
        let states = [r#"{"secretRef":{"name":"x"}}"#, r#"{"secretRef":{"name":"y"}}"#].map(large);
        set(&graph, Kind::Pod, "n/p", states.first());
        let last = Vertex::new(Kind::Secret, "n", &format!("s{}", many.len() - 1));
        std::thread::scope(|scope| {
            let updates = scope.spawn(|| {
                states.iter().cycle().take(20).for_each(|state| {
                    set(&graph, Kind::Pod, "n/p", Some(state));
                });
            });
            while !updates.is_finished() {
                assert!(graph.read().unwrap().leads(&last, "a"));
            }
        });
        assert_leads(&graph, Kind::Secret, "n/x", "");
        assert_leads(&graph, Kind::Secret, "n/y", "a");
        set(&graph, Kind::Pod, "n/p", None);
        assert!(graph.read().unwrap().reach.is_empty());
    }
}
