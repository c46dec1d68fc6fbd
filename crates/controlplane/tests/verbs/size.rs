//! Objects that the store does not take whole.

use std::sync::Arc;

use kevel_controlplane::service::PortRange;
use kevel_registry::storage::Format;
use kevel_store::Engine;
use kevel_store::embedded::{Embedded, Options};
use kevel_test_support::InMemory;

use crate::CM;

const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
/// Room for an object of so many keys without its managed fields, and not with them.
const KEYS: usize = 200;
const LIMIT: usize = 5000;

async fn small_store() -> InMemory {
    let options = Options { max_entry_bytes: LIMIT, ..Options::default() };
    let engine: Arc<dyn Engine> = Arc::new(Embedded::memory(options).unwrap());
    let ports = PortRange { base: 30000, size: 10 };
    InMemory::with_services(engine, Format::Json, "10.0.0.0/24", ports).await
}

fn keys(of: usize) -> String {
    let keys: Vec<String> = (0..of).map(|key| format!(r#""key-{key:03}":"v""#)).collect();
    format!("{{{}}}", keys.join(","))
}

#[tokio::test]
async fn object_too_large_is_stored_without_managed_fields() {
    let server = small_store().await;
    let object = |name: &str, data: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{data}}}"#
        )
    };
    let large = keys(KEYS);
    let made = server.ok(&format!("POST {CM}"), &object("created", &large), 201).await;
    assert!(!made.contains("managedFields") && made.contains("key-199"), "{made}");
    assert_eq!(server.ok(&format!("GET {CM}/created"), "", 200).await, made);
    // What is there already is not written again.
    let again = server.ok(&format!("PUT {CM}/created"), &object("created", &large), 200).await;
    assert_eq!(again, made);
    for (name, media) in [("updated", "application/json"), ("patched", MERGE)] {
        let small = server.ok(&format!("POST {CM}"), &object(name, r#"{"a":"b"}"#), 201).await;
        assert!(small.contains("managedFields"), "{small}");
        let verb = if media == MERGE { "PATCH" } else { "PUT" };
        let what = format!("{verb} {CM}/{name}");
        let written = server.typed(&what, &object(name, &large), 200, media).await;
        assert!(!written.contains("managedFields") && written.contains("key-199"), "{written}");
    }
    // Who applies has asked for ownership.
    let what = format!("PATCH {CM}/applied?fieldManager=m");
    let refused = server.typed(&what, &object("applied", &large), 500, APPLY).await;
    assert!(
        refused.contains(r#""message":"etcdserver: request is too large","code":500"#),
        "{refused}"
    );
    // Too large at any rate.
    let refused = server.ok(&format!("POST {CM}"), &object("huge", &keys(10 * KEYS)), 500).await;
    assert!(
        refused.contains(r#""message":"etcdserver: request is too large","code":500"#),
        "{refused}"
    );
}

#[tokio::test]
async fn service_too_large_keeps_cluster_ip() {
    let server = small_store().await;
    let services = "/api/v1/namespaces/ns/services";
    let service = |name: &str, ip: &str| {
        let annotations = keys(KEYS);
        format!(
            r#"{{"metadata":{{"name":"{name}","annotations":{annotations}}},"spec":{{"clusterIP":"{ip}","ports":[{{"port":80}}]}}}}"#
        )
    };
    let made = server.ok(&format!("POST {services}"), &service("a", "10.0.0.7"), 201).await;
    assert!(!made.contains("managedFields") && made.contains("10.0.0.7"), "{made}");
    // Its address is taken.
    let refused = server.ok(&format!("POST {services}"), &service("b", "10.0.0.7"), 422).await;
    assert!(refused.contains("provided IP is already allocated"), "{refused}");
}
