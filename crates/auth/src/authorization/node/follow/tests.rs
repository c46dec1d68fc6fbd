//! The graph of an authorizer that follows a store beside a search through the objects.

use kevel_component::signals::Signal;
use kevel_controlplane::{StorageOptions, storages};
use kevel_registry::backends::{Backend, Backends};
use kevel_registry::storage::Format;
use kevel_store::embedded::{Embedded, Options};
use kevel_store::{Engine, Revision};
use kevel_test_support::until;

use super::super::graph::Vertex;
use super::super::graph::model::{PodFacts, Random, World};
use super::*;

/// A store of Pods with an authorizer that follows it.
struct Followed {
    backends: Backends,
    pods: Arc<Storage>,
    node: Arc<NodeAuthorizer>,
    /// Number of the last Pod that showed that everything before was heard.
    round: usize,
}

impl Followed {
    fn start() -> Self {
        let engine: Arc<dyn Engine> = Arc::new(Embedded::memory(Options::default()).unwrap());
        let backends = Backends::new(Backend::new(engine, "/registry/"));
        let options = StorageOptions::new(Format::Json);
        let storages = storages(|row| row.on, &options, &backends).unwrap();
        let node = Arc::new(NodeAuthorizer::new(Default::default()));
        node.follow(&storages, &Tasks::new(Signal::new("stop")));
        let pods = storages.required("", "pods").unwrap();
        Followed { backends, pods, node, round: 0 }
    }

    /// Writes an object that may be there; `None` deletes it.
    async fn write(&self, key: &str, text: Option<String>) {
        let key = self.pods.key_of(key);
        let engine = &self.backends.default.engine;
        let old = engine.get(&key, None).await.unwrap().entry;
        let old: Option<Revision> = old.map(|entry| entry.mod_revision);
        let text = text.map(|text| {
            text.replacen('{', r#"{"kind":"Pod","apiVersion":"v1","#, 1).into_bytes().into()
        });
        match (text, old) {
            (Some(text), None) => drop(engine.create(&key, text, None).await.unwrap()),
            (Some(text), Some(old)) => drop(engine.update(&key, text, old, None).await.unwrap()),
            (None, Some(old)) => drop(engine.delete(&key, old).await.unwrap()),
            (None, None) => {}
        }
    }

    /// Waits until the authorizer has heard of everything.
    async fn heard(&mut self) {
        self.round += 1;
        let (name, node) = (format!("last-{}", self.round), format!("node-{}", self.round));
        let text = format!(
            r#"{{"metadata":{{"namespace":"n","name":"{name}"}},"spec":{{"nodeName":"{node}"}}}}"#
        );
        self.write(&format!("n/{name}"), Some(text)).await;
        let vertex = Vertex::new(Kind::Pod, "n", &name);
        until(async || self.node.graph.read().unwrap().leads(&vertex, &node)).await;
    }
}

#[tokio::test]
async fn followed_graph_equals_a_search_through_the_stored_objects() {
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    let (mut followed, mut world, mut led) = (Followed::start(), World::default(), 0);
    for _ in 0..60 {
        for _ in 0..6 {
            let (namespace, name) = (["n", "m"][random.below(2)], format!("p{}", random.below(3)));
            let key = format!("{namespace}/{name}");
            let text = match random.below(5) {
                0 => {
                    world.pods.remove(&key);
                    None
                }
                // A change of nothing that matters.
                1 | 2 if world.pods.contains_key(&key) => {
                    let status = format!(r#"{{"status":{{"message":"{}"}},"#, random.below(9));
                    let text = world.pods[&key].text();
                    Some(text.replacen('{', &status, 1))
                        .filter(|_| !text.contains("\"status\""))
                        .or(Some(text))
                }
                _ => {
                    let pod = PodFacts::random(&mut random, namespace, name);
                    let text = pod.text();
                    world.pods.insert(key.clone(), pod);
                    Some(text)
                }
            };
            followed.write(&key, text).await;
        }
        followed.heard().await;
        led += world.assert_equal(&followed.node.graph.read().unwrap());
    }
    assert!(led > 100, "{led}");
}

#[tokio::test]
async fn references_anywhere_in_a_stored_pod_are_followed() {
    let mut followed = Followed::start();
    let text = |container: &str, annotation: &str| {
        format!(
            r#"{{"metadata":{{"namespace":"n","name":"p","annotations":{{"{annotation}":"x"}}}},"spec":{{"nodeName":"a","{container}":[{{"env":[{{"name":"E","valueFrom":{{"secretKeyRef":{{"name":"s","key":"k"}}}}}}],"envFrom":[{{"configMapRef":{{"name":"c"}}}}]}}],"resourceClaims":[{{"name":"x","resourceClaimTemplateName":"t"}}]}},"status":{{"resourceClaimStatuses":[{{"name":"x","resourceClaimName":"r"}}]}}}}"#
        )
    };
    let found = [(Kind::Secret, "s"), (Kind::ConfigMap, "c"), (Kind::ResourceClaim, "r")];
    for (container, annotation, expected) in [
        ("containers", "other", true),
        ("initContainers", "other", true),
        ("initContainers", "kubernetes.io/config.mirror", false),
        ("ephemeralContainers", "other", true),
        ("others", "other", false),
    ] {
        followed.write("n/p", Some(text(container, annotation))).await;
        followed.heard().await;
        let graph = followed.node.graph.read().unwrap();
        for (kind, name) in found {
            let is_claim = kind == Kind::ResourceClaim && annotation == "other";
            let leads = graph.leads(&Vertex::new(kind, "n", name), "a");
            assert_eq!(leads, expected || is_claim, "{container} {annotation} {kind:?}");
        }
    }
}
