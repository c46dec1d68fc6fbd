//! Tests of the controllers one by one, on definitions and objects in memory.

use kevel_api::value::Value;
use kevel_codec::base64;
use kevel_codec::json::{Unknown, decode_any};
use kevel_registry::admission::Admission;
use kevel_registry::resource::Cbor;
use kevel_server::delegate::Delegate;
use kevel_server::endpoints::{Endpoints, MIN_REQUEST_TIMEOUT};
use kevel_store::Engine;
use kevel_store::cache::Caches;
use kevel_store::embedded::{Embedded, Options};
use kevel_test_support::Ca;

use super::*;
use crate::built_in::BuiltIn;
use crate::definitions::DefinitionForm;
use crate::server::Extensions;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Definitions and custom objects in memory, without tasks: a test runs each controller itself.
struct ControllersUnderTest {
    context: Arc<Context>,
    serving: Serving,
    engine: Arc<dyn Engine>,
}

impl ControllersUnderTest {
    /// A server with keys of a built-in kind in the group `example.com`.
    fn new() -> Self {
        let engine: Arc<dyn Engine> = Arc::new(Embedded::memory(Options::default()).unwrap());
        let options = RestOptions {
            prefix: "/registry".to_owned(),
            engine: engine.clone(),
            caches: Arc::new(Caches::start(engine.clone(), "/registry/")),
            resolve: Arc::new(|_, name, _| Err(format!("service \"{name}\" not found"))),
            registry: Default::default(),
            egress: Default::default(),
            converted: Arc::default(),
            built_in: BuiltIn::new([], ["/registry/example.com/builtins/".to_owned()]),
            cbor: Cbor(false),
            storage_version_hash: false,
            observed_generations: true,
        };
        let extensions = Extensions::new(options, DefinitionForm::Served);
        let endpoints = Arc::new(Endpoints {
            admission: Admission::new(Vec::new()),
            authorizer: None,
            min_request_timeout: MIN_REQUEST_TIMEOUT,
            connecters: Default::default(),
            features: Default::default(),
            shard_selectors: None,
        });
        let delegate = Delegate {
            name: "definitions",
            resources: extensions.definitions.clone(),
            owns_groups: false,
            endpoints: endpoints.clone(),
            paths: Vec::new(),
            next: Some(Arc::new(extensions.custom_resources(endpoints))),
        };
        let client = Client::new(Arc::new(delegate));
        let Controllers { context, serving, .. } = extensions.controllers(client).unwrap();
        ControllersUnderTest { context, serving, engine }
    }

    /// Creates a definition of `example.com`, and lets the informer hear of it.
    async fn define(&mut self, plural: &str, names: &str, metadata: &str, spec: &str) -> String {
        let name = format!("{plural}.example.com");
        let text = format!(
            r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
                "metadata":{{"name":"{name}"{metadata}}},
                "spec":{{"group":"example.com","scope":"Namespaced",
                    "names":{{"plural":"{plural}",{names}}},
                    "versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":
                        {{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}}]{spec}}}}}"#
        );
        self.context.client.create(DEFINITIONS, &json(&text)).await.unwrap();
        self.hear(&name).await;
        name
    }

    /// Current definition, once the cache has it.
    async fn current(&self, name: &str) -> Option<Value> {
        self.context.definitions.cache.snapshot(At::Consistent).await.unwrap();
        self.context.find(name)
    }

    async fn hear(&mut self, name: &str) {
        match self.current(name).await {
            Some(definition) => hear(&self.context, &mut self.serving, &definition),
            None => forget(&self.context, &mut self.serving, name),
        }
    }

    /// Lets the controllers of names and of the establishment judge a definition.
    async fn establish(&mut self, name: &str) {
        self.current(name).await;
        naming::reconcile(&self.context, name).await.unwrap();
        self.hear(name).await;
        establishing::reconcile(&self.context, name).await.unwrap();
        self.hear(name).await;
    }

    async fn condition(&self, name: &str, ty: &str) -> String {
        let definition = self.current(name).await.unwrap();
        let found = Definition(&definition).condition(ty);
        found.map_or(String::new(), |found| format!("{} {}", found.status, found.reason))
    }

    /// Number of stored values below a prefix.
    async fn stored(&self, prefix: &str) -> u64 {
        self.engine.count(prefix.as_bytes()).await.unwrap()
    }

    fn is_served(&self, plural: &str, version: &str) -> bool {
        self.context.custom.current().get("example.com", version, plural).is_some()
    }
}

fn json(text: &str) -> Value {
    decode_any(text.as_bytes(), Unknown::Ignore).expect(text).value
}

/// Keys that wait in a queue.
async fn waiting(queue: &WorkQueue) -> Vec<String> {
    let mut keys = Vec::new();
    while !queue.is_empty() {
        let key = queue.next().await.unwrap();
        queue.done(&key);
        keys.push(key);
    }
    keys.sort();
    keys
}

/// Of two definitions that want the same kind, the second is neither established nor served until the first is gone.
#[tokio::test]
async fn a_definition_waits_for_its_names() {
    let mut world = ControllersUnderTest::new();
    let first = world.define("widgets", r#""kind":"Widget""#, "", "").await;
    world.establish(&first).await;
    let second = world.define("gadgets", r#""kind":"Widget""#, "", "").await;
    let unrelated = world.define("cogs", r#""kind":"Cog""#, "", "").await;
    world.establish(&unrelated).await;
    // However often it is judged.
    for _ in 0..2 {
        world.establish(&second).await;
        assert_eq!(
            world.condition(&second, condition::NAMES_ACCEPTED).await,
            "False ListKindConflict"
        );
        assert_eq!(world.condition(&second, condition::ESTABLISHED).await, "False NotAccepted");
        assert!(!world.is_served("gadgets", "v1"));
    }
    assert_eq!(world.condition(&first, condition::NAMES_ACCEPTED).await, "True NoConflicts");
    assert_eq!(world.condition(&first, condition::ESTABLISHED).await, "True InitialNamesAccepted");
    assert!(world.is_served("widgets", "v1"));
    world.context.client.delete(&format!("{DEFINITIONS}/{first}")).await.unwrap();
    world.current(&first).await;
    finalizing::reconcile(&world.context, &first).await.unwrap();
    waiting(&world.context.naming).await;
    world.hear(&first).await;
    assert!(!world.is_served("widgets", "v1"));
    assert_eq!(waiting(&world.context.naming).await, [&*first]);
    naming::reconcile(&world.context, &first).await.unwrap();
    assert_eq!(waiting(&world.context.naming).await, [&*second]);
    world.establish(&second).await;
    assert_eq!(world.condition(&second, condition::NAMES_ACCEPTED).await, "True NoConflicts");
    assert_eq!(world.condition(&second, condition::ESTABLISHED).await, "True InitialNamesAccepted");
    assert!(world.is_served("gadgets", "v1"));
}

#[tokio::test]
async fn definitions_with_invalid_ca_bundles_are_not_established() {
    let mut world = ControllersUnderTest::new();
    let valid = base64::encode(Ca::new("webhooks").pem.as_bytes()).to_string();
    let (garbage, empty) = (base64::encode(b"no certificate").to_string(), String::new());
    for (plural, bundle, expected) in [
        ("nones", &empty, "True InitialNamesAccepted"),
        ("valids", &valid, "True InitialNamesAccepted"),
        ("invalids", &garbage, "False InvalidCABundle"),
    ] {
        let bundle = match bundle.is_empty() {
            true => String::new(),
            false => format!(r#","caBundle":"{bundle}""#),
        };
        let conversion = format!(
            r#","conversion":{{"strategy":"Webhook","webhook":{{"conversionReviewVersions":["v1"],
                "clientConfig":{{"url":"https://localhost:1/"{bundle}}}}}}}"#
        );
        let kind = format!(r#""kind":"Kind{plural}""#);
        let name = world.define(plural, &kind, "", &conversion).await;
        world.establish(&name).await;
        assert_eq!(world.condition(&name, condition::ESTABLISHED).await, expected, "{plural}");
    }
}

/// A definition goes with its objects, unless they are not its own; one that is not being deleted keeps them.
#[tokio::test]
async fn objects_go_with_definitions_that_are_deleted() {
    let held = r#","finalizers":["example.com/hold","customresourcecleanup.apiextensions.k8s.io"]"#;
    for (plural, established, served, deleted, objects, expected) in [
        ("kept", true, true, false, 2, ""),
        ("served", true, true, true, 0, "False InstanceDeletionCompleted"),
        ("unserved", true, false, true, 0, "False InstanceDeletionCompleted"),
        ("unestablished", false, false, true, 2, "False NeverEstablished"),
        ("builtins", true, false, true, 2, "False OverlappingBuiltInResource"),
    ] {
        let mut world = ControllersUnderTest::new();
        let name = world.define(plural, &format!(r#""kind":"Kind{plural}""#), held, "").await;
        let prefix = format!("/registry/example.com/{plural}/");
        for object in ["a", "b"] {
            let text = format!(
                r#"{{"apiVersion":"example.com/v1","kind":"Kind{plural}","metadata":{{"name":"{object}","namespace":"ns","uid":"{object}"}}}}"#
            );
            let key = format!("{prefix}ns/{object}");
            world.engine.create(key.as_bytes(), text.into(), None).await.unwrap();
        }
        if established {
            world.establish(&name).await;
        }
        let path = format!("{DEFINITIONS}/{name}");
        if !served {
            let mut definition = world.current(&name).await.unwrap();
            let versions = definition.at_mut(&["spec", "versions"]).and_then(Value::as_list_mut);
            let version = versions.and_then(|versions| versions[0].as_map_mut()).unwrap();
            version.insert("served", false.into());
            world.context.client.update(&path, &definition).await.unwrap();
            world.hear(&name).await;
        }
        assert_eq!(world.is_served(plural, "v1"), served, "{plural}");
        if deleted {
            world.context.client.delete(&path).await.unwrap();
            world.hear(&name).await;
        }
        finalizing::reconcile(&world.context, &name).await.unwrap();
        assert_eq!(world.stored(&prefix).await, objects, "{plural}");
        assert_eq!(world.condition(&name, condition::TERMINATING).await, expected, "{plural}");
        let definition = world.current(&name).await.unwrap();
        let finalizers = definition.list_at(&["metadata", "finalizers"]);
        assert_eq!(finalizers.len(), if deleted { 1 } else { 2 }, "{plural}");
    }
}

/// Objects may be deleted by others at the same time.
#[tokio::test]
async fn objects_that_are_gone_already_are_deleted() {
    let mut world = ControllersUnderTest::new();
    let name = world.define("widgets", r#""kind":"Widget""#, "", "").await;
    world.establish(&name).await;
    let collection = "/apis/example.com/v1/namespaces/ns/widgets";
    let object = |name: &str| {
        json(&format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"{name}"}}}}"#
        ))
    };
    for name in ["a", "b"] {
        world.context.client.create(collection, &object(name)).await.unwrap();
    }
    let row = world.context.custom.current().get("example.com", "v1", "widgets").cloned().unwrap();
    let keys = ["ns/a", "ns/gone", "ns/b"].map(str::to_owned);
    let errors = finalizing::delete_together(&row, &keys).await;
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(world.stored("/registry/example.com/widgets/").await, 0);
}

/// Rows follow each change of a definition, and go with it.
#[tokio::test]
async fn definitions_are_served_as_they_are_now() {
    let mut world = ControllersUnderTest::new();
    let name = world.define("widgets", r#""kind":"Widget""#, "", "").await;
    assert!(!world.is_served("widgets", "v1"), "its names are not accepted yet");
    world.establish(&name).await;
    let definition = world.current(&name).await.unwrap();
    let version = |name: &str, served: bool| {
        format!(
            r#"{{"name":"{name}","served":{served},"storage":{},"schema":{{"openAPIV3Schema":{{"type":"object"}}}}}}"#,
            name == "v1"
        )
    };
    for (versions, v1, v2) in [
        (vec![version("v1", true)], true, false),
        (vec![version("v1", true), version("v2", true)], true, true),
        (vec![version("v1", false), version("v2", true)], false, true),
        (vec![version("v1", false), version("v2", false)], false, false),
        (vec![version("v1", true), version("v2", false)], true, false),
    ] {
        let mut changed = definition.clone();
        changed.make_map(&["spec"]).insert("versions", json(&format!("[{}]", versions.join(","))));
        world.serving.serve(Definition(&changed));
        let served = ["v1", "v2"].map(|version| world.is_served("widgets", version));
        assert_eq!(served, [v1, v2], "{versions:?}");
    }
    // Others of that name are other definitions.
    world.serving.retain(&[json(r#"{"metadata":{"name":"gadgets.example.com"}}"#)]);
    assert!(!world.is_served("widgets", "v1"));
    world.serving.serve(Definition(&definition));
    assert!(world.is_served("widgets", "v1"));
    world.serving.remove(&name);
    assert!(!world.is_served("widgets", "v1"));
}
