//! Which nodes have to do with which objects.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use kevel_api::references;
use kevel_api::value::Value;

/// On pods that a node shows of what it runs by itself.
const MIRROR: &str = "kubernetes.io/config.mirror";

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
    /// What metrics call it when such an object comes or changes, and when it goes.
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

/// For every object the nodes that it leads to, worked out as objects come and go: what is asked
/// is looked up, never searched for.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// How many ways lead from an object to a node.
    reach: HashMap<Vertex, BTreeMap<Arc<str>, u32>>,
    /// What an object (a pod, an attachment, ...) contributes to that.
    edges: HashMap<Vertex, (Arc<str>, Vec<Vertex>)>,
    volumes: HashMap<Vertex, Volume>,
    /// The volumes that are bound to a claim.
    bound: HashMap<Vertex, BTreeSet<Vertex>>,
}

/// What follows from a persistent volume: whoever mounts its claim needs it, and its secrets.
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

    /// Takes in an object as it is now; `None` when it is gone.
    pub fn set(&mut self, kind: Kind, key: &str, object: Option<&Value>) {
        let vertex = Vertex { kind, key: key.into() };
        if kind == Kind::Volume {
            return self.set_volume(vertex, object);
        }
        if let Some((node, old)) = self.edges.remove(&vertex) {
            old.iter().for_each(|from| self.lose(from, &node));
        }
        let Some(object) = object else { return };
        let node: Arc<str> = object.str_at(&["spec", "nodeName"]).into();
        if node.is_empty() {
            return;
        }
        let mut from = vec![vertex.clone()];
        if kind == Kind::Pod {
            from.extend(needed_by(object));
        }
        from.iter().for_each(|from| self.gain(from, &node));
        self.edges.insert(vertex, (node, from));
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

    /// Another way from an object to a node.
    fn gain(&mut self, from: &Vertex, node: &Arc<str>) {
        let nodes = self.reach.entry(from.clone()).or_default();
        let ways = nodes.entry(node.clone()).or_default();
        *ways += 1;
        if *ways == 1 {
            self.behind(from).iter().for_each(|needed| self.gain(needed, node));
        }
    }

    /// One way less.
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

    /// What whoever has to do with a claim has to do with, too.
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

/// What a node needs to run a pod. A node must not get at anything by a pod that it made itself.
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
        names.into_iter().map(move |name| Vertex::new(kind, namespace, name))
    });
    all.collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevel_codec::json::{Unknown, decode_any};

    fn read(text: &str) -> Value {
        decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value
    }

    /// `kind namespace/name` leads to these of the nodes `a`, `b`, `c`.
    fn assert_leads(graph: &Graph, kind: Kind, key: &str, nodes: &str) {
        let vertex = Vertex { kind, key: key.into() };
        let found: String =
            ["a", "b", "c"].into_iter().filter(|n| graph.leads(&vertex, n)).collect();
        assert_eq!(found, nodes, "{kind:?} {key}");
    }

    fn pod(name: &str, node: &str, rest: &str) -> Value {
        read(&format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"n"}},"spec":{{"nodeName":"{node}"{rest}}}}}"#
        ))
    }

    #[test]
    fn a_pod_leads_to_its_node_from_all_that_it_names() {
        let mut graph = Graph::default();
        let rest = r#","serviceAccountName":"sa","imagePullSecrets":[{"name":"pull"}],
            "initContainers":[{"envFrom":[{"secretRef":{"name":"s1"}},{"configMapRef":{"name":"c1"}}]}],
            "containers":[{"env":[{"valueFrom":{"secretKeyRef":{"name":"s2"}}},{"valueFrom":{"configMapKeyRef":{"name":"c2"}}}]}],
            "ephemeralContainers":[{"envFrom":[{"secretRef":{"name":"s3"}}]}],
            "volumes":[{"name":"v","ephemeral":{}},{"persistentVolumeClaim":{"claimName":"pvc"}},
                {"secret":{"secretName":"s4"}},{"configMap":{"name":"c3"}},{"csi":{"nodePublishSecretRef":{"name":"s5"}}},
                {"projected":{"sources":[{"secret":{"name":"s6"}},{"configMap":{"name":"c4"}}]}}],
            "resourceClaims":[{"name":"x","resourceClaimName":"rc"},{"name":"y","resourceClaimTemplateName":"t"}]"#;
        graph.set(Kind::Pod, "n/p", Some(&pod("p", "a", rest)));
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
        assert_eq!(graph.reach.len(), keys.len());
        // One that came to another node, and one that is gone.
        graph.set(Kind::Pod, "n/p", Some(&pod("p", "b", rest)));
        assert_leads(&graph, Kind::Secret, "n/s1", "b");
        graph.set(Kind::Pod, "n/p", None);
        assert!(graph.reach.is_empty() && graph.edges.is_empty());
        // A mirror of what a node runs by itself leads to nothing but itself.
        let mirror = r#"{"metadata":{"name":"m","namespace":"n","annotations":{"kubernetes.io/config.mirror":""}},"spec":{"nodeName":"a","serviceAccountName":"sa"}}"#;
        graph.set(Kind::Pod, "n/m", Some(&read(mirror)));
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
        let shows = |graph: &Graph, nodes: &str| {
            assert_leads(graph, Kind::Volume, "v", nodes);
            assert_leads(graph, Kind::Secret, "m/s", nodes);
            assert_leads(graph, Kind::Secret, "m/no", "");
        };
        // Whichever is heard of first.
        for volume_first in [true, false] {
            let mut graph = Graph::default();
            if volume_first {
                graph.set(Kind::Volume, "v", Some(&volume("c")));
                shows(&graph, "");
            }
            graph.set(Kind::Pod, "n/p", Some(&pod("p", "a", mounts)));
            graph.set(Kind::Pod, "n/q", Some(&pod("q", "a", mounts)));
            graph.set(Kind::Pod, "n/r", Some(&pod("r", "b", mounts)));
            if !volume_first {
                graph.set(Kind::Volume, "v", Some(&volume("c")));
            }
            shows(&graph, "ab");
            graph.set(Kind::Pod, "n/p", None);
            shows(&graph, "ab");
            graph.set(Kind::Pod, "n/q", None);
            shows(&graph, "b");
            graph.set(Kind::Volume, "v", Some(&volume("other")));
            shows(&graph, "");
            graph.set(Kind::Volume, "v", Some(&volume("c")));
            shows(&graph, "b");
            graph.set(Kind::Volume, "v", None);
            graph.set(Kind::Pod, "n/r", None);
            assert!(graph.reach.is_empty() && graph.bound.is_empty());
        }
    }
}
