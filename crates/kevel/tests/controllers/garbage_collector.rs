//! Propagation of deletions.

use kevel_test_support::Cluster;
use kevel_test_support::until;
use serde_json::{Value, json};

use super::{cluster, create_namespace, create_owned, exists, owner};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn delete(cluster: &Cluster, name: &str, policy: &str) {
    let what = format!("DELETE {MAPS}/{name}");
    let options = json!({"propagationPolicy": policy}).to_string();
    cluster.ok("admin", &what, &options).await;
}

async fn hold(cluster: &Cluster, name: &str, finalizers: &Value) {
    let patch = json!({"metadata": {"finalizers": finalizers}}).to_string();
    cluster.ok("admin", &format!("PATCH {MAPS}/{name}"), &patch).await;
}

async fn gone(cluster: &Cluster, name: &str) {
    until(async || !exists(cluster, &format!("{MAPS}/{name}")).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn background_deletion_collects_dependents_without_other_owners() {
    let cluster = cluster().await;
    let a = create_owned(&cluster, "default", "a", &[]).await;
    let b = create_owned(&cluster, "default", "b", &[]).await;
    let child = create_owned(&cluster, "default", "child", &[owner(&a, true)]).await;
    create_owned(&cluster, "default", "grandchild", &[owner(&child, true)]).await;
    create_owned(&cluster, "default", "shared", &[owner(&a, true), owner(&b, true)]).await;
    let mut missing = owner(&a, true);
    missing["uid"] = "00000000-0000-0000-0000-000000000000".into();
    create_owned(&cluster, "default", "stray", &[missing]).await;
    gone(&cluster, "stray").await;
    delete(&cluster, "a", "Background").await;
    gone(&cluster, "a").await;
    gone(&cluster, "child").await;
    gone(&cluster, "grandchild").await;
    let shared = format!("GET {MAPS}/shared");
    let only_b = |map: &Value| map["metadata"]["ownerReferences"] == json!([owner(&b, true)]);
    cluster.until_ok(&shared, "", only_b).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn foreground_deletion_waits_for_blocking_dependents() {
    let cluster = cluster().await;
    let a = create_owned(&cluster, "default", "a", &[]).await;
    create_owned(&cluster, "default", "blocking", &[owner(&a, true)]).await;
    create_owned(&cluster, "default", "free", &[owner(&a, false)]).await;
    hold(&cluster, "blocking", &json!(["example.com/hold"])).await;
    delete(&cluster, "a", "Foreground").await;
    gone(&cluster, "free").await;
    let deleted = |map: &Value| map["metadata"]["deletionTimestamp"] != Value::Null;
    cluster.until_ok(&format!("GET {MAPS}/blocking"), "", deleted).await;
    assert!(exists(&cluster, &format!("{MAPS}/a")).await);
    hold(&cluster, "blocking", &Value::Null).await;
    gone(&cluster, "blocking").await;
    gone(&cluster, "a").await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn orphaning_deletion_releases_dependents() {
    let cluster = cluster().await;
    let a = create_owned(&cluster, "default", "a", &[]).await;
    create_owned(&cluster, "default", "child", &[owner(&a, true)]).await;
    delete(&cluster, "a", "Orphan").await;
    gone(&cluster, "a").await;
    let child = cluster.ok("admin", &format!("GET {MAPS}/child"), "").await;
    assert_eq!(child["metadata"]["ownerReferences"], Value::Null);
    assert_eq!(child["metadata"]["deletionTimestamp"], Value::Null);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn foreground_deletion_of_a_cycle_ends() {
    let cluster = cluster().await;
    let a = create_owned(&cluster, "default", "a", &[]).await;
    let b = create_owned(&cluster, "default", "b", &[owner(&a, true)]).await;
    let patch = json!({"metadata": {"ownerReferences": [owner(&b, true)]}}).to_string();
    cluster.ok("admin", &format!("PATCH {MAPS}/a"), &patch).await;
    delete(&cluster, "a", "Foreground").await;
    gone(&cluster, "a").await;
    gone(&cluster, "b").await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn owner_in_another_namespace_is_told_and_counts_as_absent() {
    let cluster = cluster().await;
    create_namespace(&cluster, "other").await;
    let far = create_owned(&cluster, "other", "far", &[]).await;
    // A dependent in its own namespace, so that the owner is known.
    create_owned(&cluster, "other", "near", &[owner(&far, true)]).await;
    create_owned(&cluster, "default", "child", &[owner(&far, true)]).await;
    gone(&cluster, "child").await;
    assert!(exists(&cluster, "/api/v1/namespaces/other/configmaps/near").await);
    let uid = far["metadata"]["uid"].as_str().unwrap();
    let message = format!(
        "ownerRef [v1/ConfigMap, namespace: default, name: far, uid: {uid}] does not exist in \
         namespace \"default\""
    );
    let told = |events: &Value| {
        events["items"].as_array().is_some_and(|events| {
            events.iter().any(|event| {
                event["reason"] == "OwnerRefInvalidNamespace" && event["message"] == message
            })
        })
    };
    cluster.until_ok("GET /api/v1/namespaces/default/events", "", told).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dependents_of_custom_resources_are_collected() {
    let cluster = cluster().await;
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    cluster.admin.create(definitions, &definition).await;
    let widgets = "/apis/example.com/v1/widgets";
    until(async || exists(&cluster, widgets).await).await;
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"},
    });
    let widget = cluster.admin.create(widgets, &widget).await;
    let reference = json!({
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "name": "w",
        "uid": widget["metadata"]["uid"],
    });
    create_owned(&cluster, "default", "child", std::slice::from_ref(&reference)).await;
    create_owned(&cluster, "default", "kept", &[]).await;
    cluster.admin.delete(&format!("{widgets}/w")).await;
    gone(&cluster, "child").await;
    assert!(exists(&cluster, &format!("{MAPS}/kept")).await);
    cluster.stop().await;
}
