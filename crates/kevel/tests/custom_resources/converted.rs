//! Objects that a webhook converts, many of them, again and again, and with a webhook that does not answer.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kevel_test_support::Cluster;
use kube::api::{ListParams, PostParams};
use serde_json::json;

use super::webhook::Webhook;
use super::{CustomResources as _, object};

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
        let started = Instant::now();
        let (code, events) = cluster.get(&path).await;
        assert!(started.elapsed() < IN_TIME, "{path}");
        // Neither an event, nor a bookmark that says that it was sent.
        assert_eq!((code, events.as_str()), (200, ""), "{path}");
    }
    cluster.stop().await;
}
