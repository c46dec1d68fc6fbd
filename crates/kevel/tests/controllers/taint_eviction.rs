//! Eviction of pods by taints.

use std::time::Duration;

use kevel::ManualClock;
use kevel_test_support::Cluster;
use kevel_test_support::until;
use serde_json::{Value, json};

use super::{cluster_of, create_pod};

const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";

async fn create_tainted_node(cluster: &Cluster) {
    let taints = json!([{"key": "example.com/leave", "effect": "NoExecute"}]);
    let node = json!({"metadata": {"name": "tainted"}, "spec": {"taints": taints}});
    cluster.admin.create(NODES, &node).await;
}

pub async fn create_intolerant_pod(cluster: &Cluster) {
    create_tainted_node(cluster).await;
    create_pod(cluster, "default", "intolerant", &json!({"nodeName": "tainted"})).await;
}

async fn is_deleted(cluster: &Cluster, pod: &str) -> bool {
    let (code, pod) = cluster.admin.get(&format!("{PODS}/{pod}")).await;
    code == 404 || pod["metadata"]["deletionTimestamp"].is_string()
}

pub async fn pod_is_deleted(cluster: &Cluster) -> bool {
    is_deleted(cluster, "intolerant").await
}

#[tokio::test(flavor = "multi_thread")]
async fn tolerated_taint_evicts_when_its_time_is_over() {
    let manual = ManualClock::at_present();
    let cluster = cluster_of("taint-eviction-controller", &manual).await;
    create_intolerant_pod(&cluster).await;
    let tolerations =
        json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]);
    let spec = json!({"nodeName": "tainted", "tolerations": tolerations});
    create_pod(&cluster, "default", "patient", &spec).await;
    until(async || pod_is_deleted(&cluster).await).await;
    let (_, pod) = cluster.admin.get(&format!("{PODS}/intolerant")).await;
    let target = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|it| it["type"] == "DisruptionTarget").unwrap_or_default()
    };
    assert_eq!(target(&pod)["reason"], "DeletionByTaintManager");
    assert_eq!(target(&pod)["message"], "Taint manager: deleting due to NoExecute taint");
    assert!(!is_deleted(&cluster, "patient").await);

    // Without the taint, the deletion is cancelled; with it, the time begins again.
    let cured = r#"{"spec":{"taints":null}}"#;
    let events = "GET /api/v1/events?fieldSelector=reason=TaintManagerEviction";
    let about = |events: &Value, message: &str| {
        events["items"].as_array().unwrap().iter().any(|event| event["message"] == message)
    };
    let retaint = json!({"spec": {"taints": [{"key": "again", "effect": "NoExecute"}]}});
    let patch = format!("PATCH {NODES}/tainted");
    // The controller has scheduled the deletion before it is cancelled.
    create_pod(&cluster, "default", "last", &json!({"nodeName": "tainted"})).await;
    until(async || is_deleted(&cluster, "last").await).await;
    cluster.ok("admin", &patch, cured).await;
    let cancelled = "Cancelling deletion of Pod default/patient";
    cluster.until_ok(events, "", |events| about(events, cancelled)).await;
    manual.advance(Duration::from_secs(61));
    cluster.ok("admin", &patch, &retaint.to_string()).await;
    create_pod(&cluster, "default", "next", &json!({"nodeName": "tainted"})).await;
    until(async || is_deleted(&cluster, "next").await).await;
    assert!(!is_deleted(&cluster, "patient").await);
    // Again and again: the controller may hear of the taint later than of the pod.
    until(async || {
        manual.advance(Duration::from_secs(61));
        is_deleted(&cluster, "patient").await
    })
    .await;
    cluster.stop().await;
}
