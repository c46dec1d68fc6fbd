//! Subresources: scales, bindings, evictions, ephemeral containers.

use kevel_registry::storage::Format;
use kevel_test_support::InMemory;

use crate::field;

const PODS: &str = "/api/v1/namespaces/ns/pods";
const MERGE: &str = "application/merge-patch+json";

fn pod(name: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","labels":{{"app":"web"}}}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}"#
    )
}

#[tokio::test]
async fn a_scale_is_a_view_on_its_object() {
    let server = InMemory::start(Format::Json).await;
    let deployments = "/apis/apps/v1/namespaces/ns/deployments";
    let web = r#"{"metadata":{"name":"web"},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;
    let made = server.ok(&format!("POST {deployments}"), web, 201).await;
    let at = format!("{deployments}/web/scale");
    let scale = server.ok(&format!("GET {at}"), "", 200).await;
    assert!(scale.starts_with(r#"{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"web","namespace":"ns","uid":""#), "{scale}");
    assert!(
        scale.ends_with(
            "\"spec\":{\"replicas\":2},\"status\":{\"replicas\":0,\"selector\":\"app=web\"}}\n"
        ),
        "{scale}"
    );
    let wanted = scale.replace(r#""spec":{"replicas":2}"#, r#""spec":{"replicas":5}"#);
    let scaled = server.ok(&format!("PUT {at}?fieldManager=me"), &wanted, 200).await;
    assert!(scaled.contains(r#""spec":{"replicas":5}"#), "{scaled}");
    let object = server.ok(&format!("GET {deployments}/web"), "", 200).await;
    assert!(object.contains(r#""generation":2"#), "{object}");
    assert!(object.contains(r#""replicas":5"#), "{object}");
    assert!(
        object.contains(r#""fieldsV1":{"f:spec":{"f:replicas":{}}},"subresource":"scale""#),
        "{object}"
    );
    // What was read before is not the latest.
    server.ok(&format!("PUT {at}"), &wanted, 409).await;
    let patched =
        server.typed(&format!("PATCH {at}"), r#"{"spec":{"replicas":1}}"#, 200, MERGE).await;
    assert!(patched.contains(r#""spec":{"replicas":1}"#), "{patched}");
    let refused =
        server.typed(&format!("PATCH {at}"), r#"{"spec":{"replicas":-1}}"#, 422, MERGE).await;
    assert!(
        refused.contains(r#"Scale.autoscaling \"web\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0"#),
        "{refused}"
    );
    assert_eq!(field(&made, "uid"), field(&patched, "uid"));
}

#[tokio::test]
async fn a_binding_puts_a_pod_on_a_node() {
    let server = InMemory::start(Format::Json).await;
    server.ok(&format!("POST {PODS}"), &pod("a"), 201).await;
    let binding =
        r#"{"metadata":{"name":"a","annotations":{"x":"y"}},"target":{"kind":"Node","name":"n1"}}"#;
    let at = format!("POST {PODS}/a/binding");
    let answer = server.ok(&at, binding, 201).await;
    assert!(answer.contains(r#""status":"Success""#), "{answer}");
    let bound = server.ok(&format!("GET {PODS}/a"), "", 200).await;
    for expected in [r#""nodeName":"n1""#, r#""type":"PodScheduled""#, r#""x":"y""#] {
        assert!(bound.contains(expected), "{expected}: {bound}");
    }
    let twice = server.ok(&at, binding, 409).await;
    assert!(
        twice.contains(r#"Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"n1\""#),
        "{twice}"
    );
    server.ok("POST /api/v1/namespaces/ns/bindings", binding, 409).await;
    server
        .ok(&format!("POST {PODS}/none/binding"), &binding.replace("\"a\"", "\"none\""), 404)
        .await;
}

#[tokio::test]
async fn evictions_keep_within_budgets() {
    let server = InMemory::start(Format::Json).await;
    let eviction = |name: &str| format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
    for name in ["a", "b", "c"] {
        server.ok(&format!("POST {PODS}"), &pod(name), 201).await;
    }
    // A pod that has not started may be evicted at once.
    let evicted = server.ok(&format!("POST {PODS}/a/eviction"), &eviction("a"), 201).await;
    assert!(evicted.contains(r#""status":"Success""#), "{evicted}");
    server.ok(&format!("GET {PODS}/a"), "", 404).await;
    let running =
        r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#;
    for name in ["b", "c"] {
        server.typed(&format!("PATCH {PODS}/{name}/status"), running, 200, MERGE).await;
    }
    let budgets = "/apis/policy/v1/namespaces/ns/poddisruptionbudgets";
    let budget = r#"{"metadata":{"name":"web"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"web"}}}}"#;
    server.ok(&format!("POST {budgets}"), budget, 201).await;
    let unseen = server.ok(&format!("POST {PODS}/b/eviction"), &eviction("b"), 429).await;
    assert!(unseen.contains("web is still being processed by the server"), "{unseen}");
    let seen = r#"{"status":{"observedGeneration":1,"disruptionsAllowed":1,"currentHealthy":2,"desiredHealthy":1,"expectedPods":2}}"#;
    server.typed(&format!("PATCH {budgets}/web/status"), seen, 200, MERGE).await;
    server.ok(&format!("POST {PODS}/b/eviction"), &eviction("b"), 201).await;
    server.ok(&format!("GET {PODS}/b"), "", 404).await;
    let spent = server.ok(&format!("GET {budgets}/web"), "", 200).await;
    assert!(spent.contains(r#""disruptedPods":{"b":"#), "{spent}");
    let refused = server.ok(&format!("POST {PODS}/c/eviction"), &eviction("c"), 429).await;
    assert!(
        refused.contains("Cannot evict pod as it would violate the pod's disruption budget."),
        "{refused}"
    );
    server.ok(&format!("GET {PODS}/c"), "", 200).await;
}

#[tokio::test]
async fn containers_are_added_to_look_into_a_pod() {
    let server = InMemory::start(Format::Json).await;
    server.ok(&format!("POST {PODS}"), &pod("a"), 201).await;
    let at = format!("PATCH {PODS}/a/ephemeralcontainers");
    let strategic = "application/strategic-merge-patch+json";
    let debug = r#"{"metadata":{"labels":{"no":"no"}},"spec":{"nodeName":"no","ephemeralContainers":[{"name":"debug","image":"busybox"}]}}"#;
    let debugged = server.typed(&at, debug, 200, strategic).await;
    assert!(debugged.contains(r#""ephemeralContainers":[{"name":"debug""#), "{debugged}");
    assert!(!debugged.contains(r#""no""#), "nothing else is written: {debugged}");
    let other = r#"{"spec":{"ephemeralContainers":[{"name":"debug","image":"other"}]}}"#;
    let refused = server.typed(&at, other, 422, strategic).await;
    assert!(
        refused.contains(r#"existing ephemeral containers \"debug\" may not be changed"#)
            || refused.contains("may not be changed"),
        "{refused}"
    );
}
