//! Deletion of namespaces.

use kevel_test_support::until;
use serde_json::{Value, json};

use super::{cluster, create_namespace, exists};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/doomed/widgets";

fn definition() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

fn condition(namespace: &Value, of: &str) -> Value {
    let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == of).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_namespace_tells_of_aggregated_apis_that_are_down() {
    let cluster = cluster().await;
    create_namespace(&cluster, "doomed").await;
    let service = json!({
        "metadata": {"name": "v1.down.example.com"},
        "spec": {
            "group": "down.example.com",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"namespace": "default", "name": "none"},
            "insecureSkipTLSVerify": true,
        },
    });
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    cluster.admin.create(services, &service).await;
    until(async || {
        let (_, group) = cluster.admin.get("/apis").await;
        group.to_string().contains("down.example.com")
    })
    .await;
    cluster.admin.delete("/api/v1/namespaces/doomed").await;
    let failure = "NamespaceDeletionDiscoveryFailure";
    let failed = |namespace: &Value| condition(namespace, failure)["status"] == "True";
    let namespace = cluster.until_ok("GET /api/v1/namespaces/doomed", "", failed).await;
    assert_eq!(
        condition(&namespace, failure)["message"],
        "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of \
         server APIs: down.example.com/v1: stale GroupVersion discovery: down.example.com/v1",
    );
    cluster.admin.delete(&format!("{services}/v1.down.example.com")).await;
    until(async || !exists(&cluster, "/api/v1/namespaces/doomed").await).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_namespace_waits_for_finalizers_of_custom_resources() {
    let cluster = cluster().await;
    cluster.admin.create(DEFINITIONS, &definition()).await;
    create_namespace(&cluster, "doomed").await;
    until(async || exists(&cluster, WIDGETS).await).await;
    let held = json!({
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "held", "finalizers": ["example.com/hold"]},
    });
    cluster.admin.create(WIDGETS, &held).await;
    let pod = json!({
        "metadata": {"name": "pod"},
        "spec": {"containers": [{"name": "a", "image": "b"}], "automountServiceAccountToken": false},
    });
    let account = "/api/v1/namespaces/doomed/serviceaccounts/default";
    until(async || exists(&cluster, account).await).await;
    cluster.admin.create("/api/v1/namespaces/doomed/pods", &pod).await;

    cluster.admin.delete("/api/v1/namespaces/doomed").await;
    let waits = |namespace: &Value| {
        condition(namespace, "NamespaceFinalizersRemaining")["status"] == "True"
    };
    let namespace = cluster.until_ok("GET /api/v1/namespaces/doomed", "", waits).await;
    assert_eq!(namespace["status"]["phase"], "Terminating");
    assert_eq!(
        condition(&namespace, "NamespaceFinalizersRemaining")["message"],
        "Some content in the namespace has finalizers remaining: \
         example.com/hold in 1 resource instances",
    );
    assert_eq!(
        condition(&namespace, "NamespaceContentRemaining")["message"],
        "Some resources are remaining: widgets.example.com has 1 resource instances",
    );
    assert!(!exists(&cluster, account).await);

    let free = r#"{"metadata":{"finalizers":null}}"#;
    cluster.ok("admin", &format!("PATCH {WIDGETS}/held"), free).await;
    until(async || !exists(&cluster, "/api/v1/namespaces/doomed").await).await;
    cluster.stop().await;
}
