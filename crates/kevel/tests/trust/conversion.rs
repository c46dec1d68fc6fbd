//! Webhooks that convert custom resources: `caBundle` of a definition.

use kevel_test_support::{Cluster, PATIENCE, until};
use serde_json::{Value, json};

use crate::{LOCAL_ROWS, local_rows, reviewed};
use kevel_test_support::trust::TrustCell;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn conversion(cell: &TrustCell) -> Value {
    json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"url": cell.url("/convert"), "caBundle": cell.ca_bundle()},
    }})
}

/// Definition of widgets: v1 is served, v2 is stored.
fn definition(cell: &TrustCell) -> Value {
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object"}}})
    };
    json!({"metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [version("v1", false), version("v2", true)],
        "conversion": conversion(cell),
    }})
}

fn convert(_: &str, body: &[u8]) -> String {
    let review: Value = serde_json::from_slice(body).unwrap();
    let mut objects = review["request"]["objects"].clone();
    for object in objects.as_array_mut().unwrap() {
        object["apiVersion"] = review["request"]["desiredAPIVersion"].clone();
    }
    let response = json!({"result": {"status": "Success"}, "convertedObjects": objects});
    reviewed(body, "response", response)
}

#[tokio::test(flavor = "multi_thread")]
async fn conversion_webhooks_are_trusted_as_go_trusts_them() {
    let cluster = Cluster::alone().await;
    let cells = TrustCell::all(local_rows(), convert).await;
    let object =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}});
    let create = async || {
        let (code, text) =
            cluster.send("admin", &format!("POST {WIDGETS}?dryRun=All"), &object.to_string()).await;
        let status: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        let refusal = status["message"].as_str().unwrap_or(&text).to_owned();
        Some(refusal).filter(|_| code != 201)
    };
    let good = cells.iter().find(|cell| cell.row.name == "anchor-good").unwrap();
    cluster.ok("admin", &format!("POST {DEFINITIONS}"), &definition(good).to_string()).await;
    until(async || create().await.is_none()).await;
    let mut tried = 0;
    for cell in &cells {
        let path = format!("PATCH {DEFINITIONS}/widgets.example.com");
        let patch = json!({"spec": {"conversion": conversion(cell)}});
        cluster.ok("admin", &path, &patch.to_string()).await;
        // The definition is followed, not waited for: until then the row before answers.
        let (start, port) =
            (kevel_clock::monotonic_now(), format!(":{}/", cell.peer.address.port()));
        let refusal = loop {
            let before = cell.peer.requests();
            let refusal = create().await;
            let own = refusal.as_ref().is_some_and(|said| said.contains(&port));
            if own || cell.peer.requests() > before {
                break refusal;
            }
            assert!(start.elapsed() < PATIENCE, "{}: {refusal:?}", cell.row.name);
        };
        cell.judge(refusal.as_deref()).await;
        tried += 1;
    }
    assert_eq!(tried, LOCAL_ROWS);
    cluster.stop().await;
}
