//! The graph beside a naive search through the objects, which come, change and go at random.

use std::collections::BTreeMap;

use kevel_codec::json::{Unknown, decode_any};

use super::*;

const NODES: [&str; 3] = ["a", "b", "c"];
/// Kinds that say their node themselves, and name nothing else.
const OF_NODE: [Kind; 3] =
    [Kind::VolumeAttachment, Kind::ResourceSlice, Kind::PodCertificateRequest];

/// Numbers that look random, the same in every run.
pub(in super::super) struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    /// A node, or none.
    fn node(&mut self) -> String {
        NODES.get(self.below(4)).copied().unwrap_or_default().to_owned()
    }

    fn numbers(&mut self, end: usize) -> Vec<usize> {
        (0..self.below(3)).map(|_| self.below(end)).collect()
    }
}

/// The facts of a pod that matter here.
#[derive(Clone, Debug)]
pub(in super::super) struct PodFacts {
    namespace: &'static str,
    name: String,
    node: String,
    mirror: bool,
    account: Option<usize>,
    secrets: Vec<usize>,
    config_maps: Vec<usize>,
    claims: Vec<usize>,
    /// Whether there is a volume with a claim of its own.
    ephemeral: bool,
    resource_claims: Vec<usize>,
    extended: Option<usize>,
}

#[derive(Clone, Debug)]
struct VolumeFacts {
    /// Namespace and name; none while it is not bound.
    claim: Option<(&'static str, String)>,
    secret: Option<usize>,
}

#[derive(Debug, Default)]
pub(in super::super) struct World {
    pub pods: BTreeMap<String, PodFacts>,
    volumes: BTreeMap<String, VolumeFacts>,
    others: BTreeMap<(Kind, String), String>,
}

fn read(text: &str) -> Value {
    decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value
}

fn list(of: &[usize], item: impl Fn(&usize) -> String) -> String {
    of.iter().map(item).collect::<Vec<_>>().join(",")
}

impl PodFacts {
    pub fn random(random: &mut Random, namespace: &'static str, name: String) -> Self {
        PodFacts {
            namespace,
            name,
            node: random.node(),
            mirror: random.below(6) == 0,
            account: Some(random.below(2)).filter(|_| random.below(2) == 0),
            secrets: random.numbers(3),
            config_maps: random.numbers(2),
            claims: random.numbers(3),
            ephemeral: random.below(4) == 0,
            resource_claims: random.numbers(2),
            extended: Some(random.below(2)).filter(|_| random.below(4) == 0),
        }
    }

    fn object(&self) -> Value {
        read(&self.text())
    }

    pub fn text(&self) -> String {
        let (namespace, name, node) = (self.namespace, &self.name, &self.node);
        let annotations = match self.mirror {
            true => r#","annotations":{"kubernetes.io/config.mirror":"x"}"#,
            false => "",
        };
        let account = self.account.map(|n| format!(r#","serviceAccountName":"sa{n}""#));
        let secrets = list(&self.secrets, |n| format!(r#"{{"name":"s{n}"}}"#));
        let mut volumes: Vec<String> = Vec::new();
        let claim = |n| format!(r#"{{"persistentVolumeClaim":{{"claimName":"c{n}"}}}}"#);
        volumes.extend(self.claims.iter().map(claim));
        let config_map = |n| format!(r#"{{"configMap":{{"name":"m{n}"}}}}"#);
        volumes.extend(self.config_maps.iter().map(config_map));
        volumes.extend(self.ephemeral.then(|| r#"{"name":"own","ephemeral":{}}"#.to_owned()));
        let volumes = volumes.join(",");
        let claims = list(&self.resource_claims, |n| {
            format!(r#"{{"name":"x","resourceClaimName":"r{n}"}}"#)
        });
        let extended = self.extended.map(|n| {
            format!(r#","status":{{"extendedResourceClaimStatus":{{"resourceClaimName":"r{n}"}}}}"#)
        });
        let (account, extended) = (account.unwrap_or_default(), extended.unwrap_or_default());
        format!(
            r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}"{annotations}}},"spec":{{"nodeName":"{node}"{account},"imagePullSecrets":[{secrets}],"volumes":[{volumes}],"resourceClaims":[{claims}]}}{extended}}}"#
        )
    }

    /// Whether the pod names an object.
    fn names(&self, kind: Kind, namespace: &str, name: &str) -> bool {
        let has = |prefix: &str, of: &[usize]| of.iter().any(|n| format!("{prefix}{n}") == name);
        !self.mirror
            && self.namespace == namespace
            && match kind {
                Kind::Secret => has("s", &self.secrets),
                Kind::ConfigMap => has("m", &self.config_maps),
                Kind::ServiceAccount => has("sa", self.account.as_slice()),
                Kind::ResourceClaim => {
                    has("r", &self.resource_claims) || has("r", self.extended.as_slice())
                }
                Kind::VolumeClaim => {
                    let own = format!("{}-own", self.name);
                    has("c", &self.claims) || (self.ephemeral && own == name)
                }
                _ => false,
            }
    }
}

impl VolumeFacts {
    fn random(random: &mut Random) -> Self {
        let namespace = ["n", "m"][random.below(2)];
        let name = match random.below(4) {
            0 => format!("p{}-own", random.below(3)),
            number => format!("c{}", number - 1),
        };
        VolumeFacts {
            claim: Some((namespace, name)).filter(|_| random.below(5) > 0),
            secret: Some(random.below(3)).filter(|_| random.below(2) == 0),
        }
    }

    /// Secrets of volumes are in the namespace `m`.
    fn object(&self) -> Value {
        let claim = self.claim.as_ref().map(|(namespace, name)| {
            format!(r#""claimRef":{{"namespace":"{namespace}","name":"{name}"}},"#)
        });
        let secret = self.secret.map(|n| {
            format!(r#""nodeStageSecretRef":{{"namespace":"m","name":"s{n}"}},"controllerExpandSecretRef":{{"namespace":"m","name":"no"}}"#)
        });
        let (claim, secret) = (claim.unwrap_or_default(), secret.unwrap_or_default());
        read(&format!(r#"{{"spec":{{{claim}"csi":{{{secret}}}}}}}"#))
    }
}

impl World {
    /// Whether an object leads to a node, looked for through all pods and volumes.
    fn leads(&self, kind: Kind, namespace: &str, name: &str, node: &str) -> bool {
        let key = Vertex::new(kind, namespace, name).key;
        match kind {
            Kind::Pod => self.pods.get(&*key).is_some_and(|pod| pod.node == node),
            _ if OF_NODE.contains(&kind) => {
                self.others.get(&(kind, key.into())).is_some_and(|own| own == node)
            }
            Kind::Volume => self.volumes.get(name).is_some_and(|volume| self.mounts(volume, node)),
            _ => {
                let by_volume = kind == Kind::Secret
                    && namespace == "m"
                    && self.volumes.values().any(|volume| {
                        let secret = volume.secret.map(|n| format!("s{n}"));
                        secret.as_deref() == Some(name) && self.mounts(volume, node)
                    });
                let mut pods = self.pods.values().filter(|pod| pod.node == node);
                by_volume || pods.any(|pod| pod.names(kind, namespace, name))
            }
        }
    }

    fn mounts(&self, volume: &VolumeFacts, node: &str) -> bool {
        let Some((namespace, claim)) = &volume.claim else { return false };
        self.leads(Kind::VolumeClaim, namespace, claim, node)
    }

    /// Changes one object here and in the graph.
    fn change(&mut self, random: &mut Random, graph: &RwLock<Graph>) {
        let is_gone = random.below(4) == 0;
        match random.below(8) {
            0..4 => {
                let (namespace, name) =
                    (["n", "m"][random.below(2)], format!("p{}", random.below(3)));
                let key = format!("{namespace}/{name}");
                let pod = PodFacts::random(random, namespace, name);
                let object = (!is_gone).then(|| pod.object());
                set(graph, Kind::Pod, &key, object.as_ref());
                match is_gone {
                    true => self.pods.remove(&key),
                    false => self.pods.insert(key, pod),
                };
            }
            4..7 => {
                let (key, volume) = (format!("v{}", random.below(3)), VolumeFacts::random(random));
                let object = (!is_gone).then(|| volume.object());
                set(graph, Kind::Volume, &key, object.as_ref());
                match is_gone {
                    true => self.volumes.remove(&key),
                    false => self.volumes.insert(key, volume),
                };
            }
            _ => {
                let (kind, key) = (OF_NODE[random.below(3)], format!("o{}", random.below(2)));
                let node = random.node();
                let object = read(&format!(r#"{{"spec":{{"nodeName":"{node}"}}}}"#));
                set(graph, kind, &key, (!is_gone).then_some(&object));
                match is_gone {
                    true => self.others.remove(&(kind, key)),
                    false => self.others.insert((kind, key), node),
                };
            }
        }
    }

    pub fn assert_equal(&self, graph: &Graph) -> usize {
        let mut led = 0;
        let mut compare = |kind: Kind, namespace: &str, name: &str| {
            for node in NODES.into_iter().chain([""]) {
                let expected = !node.is_empty() && self.leads(kind, namespace, name, node);
                let found = graph.leads(&Vertex::new(kind, namespace, name), node);
                assert_eq!(found, expected, "{kind:?} {namespace}/{name} {node}: {self:?}");
                led += usize::from(found);
            }
        };
        let named = [
            (Kind::Secret, "s"),
            (Kind::ConfigMap, "m"),
            (Kind::ServiceAccount, "sa"),
            (Kind::VolumeClaim, "c"),
            (Kind::ResourceClaim, "r"),
            (Kind::Pod, "p"),
        ];
        for number in 0..3 {
            for namespace in ["n", "m"] {
                for (kind, prefix) in named {
                    compare(kind, namespace, &format!("{prefix}{number}"));
                }
                compare(Kind::VolumeClaim, namespace, &format!("p{number}-own"));
            }
            compare(Kind::Volume, "", &format!("v{number}"));
            OF_NODE.iter().for_each(|kind| compare(*kind, "", &format!("o{number}")));
        }
        compare(Kind::Secret, "m", "no");
        led
    }
}

#[test]
fn graph_equals_a_search_through_the_objects() {
    let (mut random, mut led, mut all) = (Random(0x2545_F491_4F6C_DD1D), 0, 0);
    for _ in 0..60 {
        let (graph, mut world) = (RwLock::<Graph>::default(), World::default());
        for _ in 0..80 {
            world.change(&mut random, &graph);
            led += world.assert_equal(&graph.read().unwrap());
            all += 1;
        }
        for key in world.pods.keys() {
            set(&graph, Kind::Pod, key, None);
        }
        for key in world.volumes.keys() {
            set(&graph, Kind::Volume, key, None);
        }
        for (kind, key) in world.others.keys() {
            set(&graph, *kind, key, None);
        }
        let graph = graph.read().unwrap();
        let (reach, edges) = (graph.reach.len(), graph.edges.len());
        assert_eq!((reach, edges, graph.volumes.len(), graph.bound.len()), (0, 0, 0, 0));
    }
    assert!(led > all, "{led} ways in {all} states");
}

/// A pod with claims in several parts of its edges changes while the volume of one of them comes and goes.
#[test]
fn pods_and_volumes_that_change_at_once_leave_no_way() {
    let graph = RwLock::<Graph>::default();
    let claims: Vec<String> = (0..3 * LOCKED_EDGES)
        .map(|n| format!(r#"{{"persistentVolumeClaim":{{"claimName":"c{n:04}"}}}}"#))
        .collect();
    let pod = |node: &str| {
        let volumes = claims.join(",");
        read(&format!(
            r#"{{"metadata":{{"namespace":"n","name":"p"}},"spec":{{"nodeName":"{node}","volumes":[{volumes}]}}}}"#
        ))
    };
    let pods = ["a", "b"].map(pod);
    let volume = |claim: &str| {
        read(&format!(
            r#"{{"spec":{{"claimRef":{{"namespace":"n","name":"{claim}"}},"csi":{{"nodeStageSecretRef":{{"namespace":"m","name":"s"}}}}}}}}"#
        ))
    };
    let volumes = ["c0001", "c0700"].map(volume);
    let secret = Vertex::new(Kind::Secret, "m", "s");
    std::thread::scope(|scope| {
        let change = scope.spawn(|| {
            for pod in pods.iter().cycle().take(21) {
                set(&graph, Kind::Pod, "n/p", Some(pod));
            }
        });
        let mut number = 0;
        while !change.is_finished() {
            number += 1;
            set(&graph, Kind::Volume, "v", volumes.get(number % 3));
            assert!(!graph.read().unwrap().leads(&secret, "c"));
        }
    });
    for (volume, leads) in [(volumes.first(), [true, false]), (None, [false, false])] {
        set(&graph, Kind::Volume, "v", volume);
        assert_eq!(["a", "b"].map(|node| graph.read().unwrap().leads(&secret, node)), leads);
    }
    set(&graph, Kind::Pod, "n/p", None);
    assert!(graph.read().unwrap().reach.is_empty());
}
