//! Objects that a webhook converts, many of them, again and again, and with a webhook that does not answer.

use std::sync::atomic::Ordering;
use std::time::Duration;

use kevel_test_support::{Cluster, until};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::webhook::Webhook;
use super::{CustomResources as _, failure, object};

/// Less than a webhook's call may take: what takes longer has waited for one.
const IN_TIME: Duration = Duration::from_secs(20);

/// Creates objects whose spec has so many bytes, past the webhook.
async fn create(cluster: &Cluster, name: &str, count: usize, bytes: usize) {
    let stored = cluster.objects("v2", "Widget");
    for number in 0..count {
        let spec = json!({"host": "x".repeat(bytes), "port": number.to_string()});
        let new = object("v2", "Widget", &format!("{name}-{number}"), spec);
        stored.create(&PostParams::default(), &new).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn converted_lists_are_served_whatever_their_size() {
    let webhook = Webhook::start().await;
    let cluster = Cluster::alone().await;
    cluster.define(webhook.definition()).await;
    let v1 = cluster.objects("v1", "Widget");
    // Few large objects, then many small ones: either way more than a webhook may answer at once.
    for (name, count, bytes) in [("large", 10, 1 << 20), ("small", 500, 20_000)] {
        create(&cluster, name, count, bytes).await;
        for params in [ListParams::default(), ListParams::default().limit(500)] {
            let before = webhook.converted.load(Ordering::Relaxed);
            let listed = v1.list(&params).await.unwrap();
            assert_eq!(listed.items.len(), count, "{name}");
            for item in &listed.items {
                assert_eq!(item.types.as_ref().unwrap().api_version, "example.com/v1");
                let text = item.data["spec"]["hostPort"].as_str().unwrap();
                assert!(text.len() > bytes && text.contains("x:"), "{}", item.name_any());
            }
            let asked = webhook.converted.load(Ordering::Relaxed) - before;
            let expected = if params.limit.is_none() { count } else { 0 };
            assert_eq!(asked, expected, "each object is converted once: {name}");
        }
        let gone = v1.delete_collection(&DeleteParams::default(), &ListParams::default()).await;
        assert_eq!(gone.unwrap().left().unwrap().items.len(), count, "{name}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hung_webhook_leaves_converted_objects_served() {
    let webhook = Webhook::start().await;
    let cluster = Cluster::alone().await;
    cluster.define(webhook.definition()).await;
    create(&cluster, "a", 3, 1).await;
    let v1 = cluster.objects("v1", "Widget");
    let list = "/apis/example.com/v1/widgets";
    let (get, watch) = (
        "/apis/example.com/v1/namespaces/default/widgets/a-1",
        format!("{list}?watch=1&resourceVersion=0&timeoutSeconds=1"),
    );
    // Without the list's own resourceVersion, which other writes move on.
    let reads = async || {
        let listed: serde_json::Value = serde_json::from_str(&cluster.get(list).await.1).unwrap();
        (listed["items"].clone(), cluster.get(get).await)
    };
    let before = reads().await;
    assert!(before.0.as_array().is_some_and(|items| items.len() == 3), "{before:?}");
    assert_eq!(before.1.0, 200, "{before:?}");
    webhook.hangs.store(true, Ordering::Relaxed);
    let started = kevel_clock::monotonic_now();
    assert_eq!(reads().await, before);
    let (code, events) = cluster.get(&watch).await;
    assert_eq!((code, events.matches("ADDED").count()), (200, 3), "{events}");
    assert!(started.elapsed() < IN_TIME);
    webhook.hangs.store(false, Ordering::Relaxed);
    // What has changed is converted again: the object, or the definition.
    let patch = Patch::Merge(json!({"spec": {"port": "9"}}));
    cluster.objects("v2", "Widget").patch("a-1", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(v1.get("a-1").await.unwrap().data["spec"], json!({"hostPort": "x:9"}));
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/hostPort";
    let patch = json!([{"op": "remove", "path": path}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
    let name = "widgets.example.com";
    cluster.definitions().patch(name, &PatchParams::default(), &patch).await.unwrap();
    let pruned = async || v1.get("a-1").await.unwrap().data["spec"] == json!({});
    until(pruned).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_ends_in_time_while_conversion_hangs() {
    let webhook = Webhook::start().await;
    let cluster = Cluster::alone().await;
    cluster.define(webhook.definition()).await;
    create(&cluster, "a", 1, 1).await;
    webhook.hangs.store(true, Ordering::Relaxed);
    // Whether the state that it begins with has to be converted, or a change.
    let revision = cluster.objects("v2", "Widget").list(&ListParams::default()).await.unwrap();
    let revision = revision.metadata.resource_version.unwrap();
    create(&cluster, "b", 1, 1).await;
    for from in ["", "0", &revision] {
        let options = "watch=1&timeoutSeconds=1&allowWatchBookmarks=true";
        let path = format!("/apis/example.com/v1/widgets?{options}&resourceVersion={from}");
        let started = kevel_clock::monotonic_now();
        let (code, events) = cluster.get(&path).await;
        assert!(started.elapsed() < IN_TIME, "{path}");
        // Neither an event, nor a bookmark that says that it was sent.
        assert_eq!((code, events.as_str()), (200, ""), "{path}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn converted_annotations_above_limit_are_refused() {
    let webhook = Webhook::start().await;
    let cluster = Cluster::alone().await;
    cluster.define(webhook.definition()).await;
    let new = object("v2", "Widget", "annotated", json!({"host": "x"}));
    let (v1, v2) = (cluster.objects("v1", "Widget"), cluster.objects("v2", "Widget"));
    v2.create(&PostParams::default(), &new).await.unwrap();
    let (code, message) = failure(v1.get("annotated").await);
    let why = "Internal error occurred: conversion webhook for example.com/v2, Kind=Widget returned invalid metadata: \
        metadata.annotation: Too long: may not be more than 262144 bytes";
    assert_eq!((code, message.as_str()), (500, why));
    assert_eq!(failure(v1.list(&ListParams::default()).await).0, 500);
    let new = object("v1", "Widget", "annotated", json!({"hostPort": "x:1"}));
    assert_eq!(failure(v1.replace("annotated", &PostParams::default(), &new).await).0, 500);
    v2.get("annotated").await.unwrap();
    cluster.stop().await;
}
