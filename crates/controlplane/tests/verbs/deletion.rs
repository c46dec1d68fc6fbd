//! Deletions that take their time, and updates that create.

use std::sync::Arc;

use kevel_server::authorization::AlwaysDeny;
use kevel_server::storage::Format;
use kevel_test_support::InMemory;

use crate::field;

const PODS: &str = "/api/v1/namespaces/ns/pods";

fn pod(name: &str, node: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"nodeName":"{node}","containers":[{{"name":"c","image":"i"}}]}}}}"#
    )
}

#[tokio::test]
async fn a_pod_that_runs_is_given_time() {
    let server = InMemory::start(Format::Json).await;
    server.ok(&format!("POST {PODS}"), &pod("a", "node"), 201).await;
    let marked = server.ok(&format!("DELETE {PODS}/a"), "", 200).await;
    assert!(marked.contains(r#""deletionGracePeriodSeconds":30"#), "{marked}");
    assert!(marked.contains(r#""generation":2"#), "{marked}");
    // Asking again for as much changes nothing, asking for less does.
    let again = server.ok(&format!("DELETE {PODS}/a"), "", 200).await;
    assert_eq!(field(&again, "resourceVersion"), field(&marked, "resourceVersion"));
    let less = server.ok(&format!("DELETE {PODS}/a?gracePeriodSeconds=5"), "", 200).await;
    assert!(less.contains(r#""deletionGracePeriodSeconds":5"#), "{less}");
    assert!(field(&less, "deletionTimestamp") < field(&marked, "deletionTimestamp"), "{less}");
    server.ok(&format!("GET {PODS}/a"), "", 200).await;
    let gone = server.ok(&format!("DELETE {PODS}/a?gracePeriodSeconds=0"), "", 200).await;
    assert!(gone.contains(r#""deletionGracePeriodSeconds":0"#), "{gone}");
    server.ok(&format!("GET {PODS}/a"), "", 404).await;
}

#[tokio::test]
async fn a_pod_that_runs_nowhere_goes_at_once() {
    let server = InMemory::start(Format::Json).await;
    server.ok(&format!("POST {PODS}"), &pod("a", ""), 201).await;
    let gone = server.ok(&format!("DELETE {PODS}/a"), "", 200).await;
    assert!(gone.contains(r#""kind":"Pod""#) && gone.contains("deletionTimestamp"), "{gone}");
    server.ok(&format!("GET {PODS}/a"), "", 404).await;
}

#[tokio::test]
async fn dependents_are_left_to_the_garbage_collector() {
    let server = InMemory::start(Format::Json).await;
    let jobs = "/apis/batch/v1/namespaces/ns/jobs";
    let job = r#"{"metadata":{"name":"NAME"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}"#;
    let cases = [
        ("a", "", r#""finalizers":["orphan"]"#),
        ("b", r#"{"propagationPolicy":"Foreground"}"#, r#""finalizers":["foregroundDeletion"]"#),
        ("c", r#"{"orphanDependents":true}"#, r#""finalizers":["orphan"]"#),
        ("d", r#"{"propagationPolicy":"Background"}"#, r#""status":"Success""#),
    ];
    for (name, options, expected) in cases {
        server.ok(&format!("POST {jobs}"), &job.replace("NAME", name), 201).await;
        let deleted = server.ok(&format!("DELETE {jobs}/{name}"), options, 200).await;
        assert!(deleted.contains(expected), "{name}: {deleted}");
    }
    let both = r#"{"orphanDependents":true,"propagationPolicy":"Orphan"}"#;
    let refused = server.ok(&format!("DELETE {jobs}/a"), both, 422).await;
    assert!(refused.contains("orphanDependents and deletionPropagation cannot be both set"));
}

#[tokio::test]
async fn some_updates_create_for_those_who_may() {
    let leases = "/apis/coordination.k8s.io/v1/namespaces/ns/leases";
    let lease = r#"{"metadata":{"name":"l"},"spec":{"holderIdentity":"me"}}"#;
    let map = r#"{"metadata":{"name":"m"}}"#;
    let maps = "/api/v1/namespaces/ns/configmaps";
    let server = InMemory::start(Format::Json).await;
    server.ok(&format!("PUT {leases}/l"), lease, 201).await;
    let unversioned = server.ok(&format!("PUT {leases}/l"), lease, 422).await;
    assert!(
        unversioned.contains("metadata.resourceVersion: Invalid value: 0: must be specified"),
        "{unversioned}"
    );
    server.ok(&format!("PUT {maps}/m"), map, 404).await;

    let strict = InMemory::with(Format::Json, Arc::new(AlwaysDeny)).await;
    strict.ok(&format!("PUT {leases}/l"), lease, 403).await;
    strict.ok(&format!("GET {leases}/l"), "", 404).await;
    let config = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}}"#;
    let apply = format!("PATCH {maps}/m?fieldManager=me");
    strict.typed(&apply, config, 403, "application/apply-patch+yaml").await;
    strict.ok(&format!("GET {maps}/m"), "", 404).await;
}
