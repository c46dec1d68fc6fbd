//! Pods that no kubelet deletes.

use std::time::Duration;

use kevel::ManualClock;
use kevel_test_support::Cluster;
use kevel_test_support::until;
use serde_json::{Value, json};

use super::{cluster_of, create_pod, exists};

const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";

/// Deletes a pod that has no node, and that a finalizer holds.
pub async fn delete_unscheduled(cluster: &Cluster) {
    create_pod(cluster, "default", "unscheduled", &json!({})).await;
    let held = r#"{"metadata":{"finalizers":["example.com/hold"]}}"#;
    cluster.ok("admin", &format!("PATCH {PODS}/unscheduled"), held).await;
    cluster.admin.delete(&format!("{PODS}/unscheduled")).await;
}

pub async fn unscheduled_has_failed(cluster: &Cluster) -> bool {
    let (_, pod) = cluster.admin.get(&format!("{PODS}/unscheduled")).await;
    pod["status"]["phase"] == "Failed"
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_a_missing_node_are_deleted_after_quarantine() {
    let manual = ManualClock::at_present();
    let cluster = cluster_of("podgc", &manual).await;
    let node = json!({"metadata": {"name": "known"}});
    cluster.admin.create(NODES, &node).await;
    for (name, node) in [("kept", "known"), ("orphan", "gone"), ("held", "gone")] {
        create_pod(&cluster, "default", name, &json!({ "nodeName": node })).await;
    }
    let held = r#"{"metadata":{"finalizers":["example.com/hold"]}}"#;
    cluster.ok("admin", &format!("PATCH {PODS}/held"), held).await;
    delete_unscheduled(&cluster).await;
    until(async || unscheduled_has_failed(&cluster).await).await;
    assert!(exists(&cluster, &format!("{PODS}/orphan")).await);

    // Again and again: the quarantine begins when the controller hears of the pod.
    until(async || {
        manual.advance(Duration::from_secs(41));
        !exists(&cluster, &format!("{PODS}/orphan")).await
    })
    .await;
    let failed = |pod: &Value| pod["status"]["phase"] == "Failed";
    let pod = cluster.until_ok(&format!("GET {PODS}/held"), "", failed).await;
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    let target = conditions.iter().find(|known| known["type"] == "DisruptionTarget").unwrap();
    assert_eq!(target["reason"], "DeletionByPodGC");
    assert_eq!(target["message"], "PodGC: node no longer exists");
    assert!(exists(&cluster, &format!("{PODS}/kept")).await);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_pods_leave_a_node_out_of_service() {
    let cluster = super::cluster().await;
    cluster.admin.create(NODES, &json!({"metadata": {"name": "broken"}})).await;
    create_pod(&cluster, "default", "stuck", &json!({"nodeName": "broken"})).await;
    cluster.admin.delete(&format!("{PODS}/stuck")).await;
    assert!(exists(&cluster, &format!("{PODS}/stuck")).await);
    let taint = json!({"spec": {"taints": [
        {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"},
    ]}});
    cluster.ok("admin", &format!("PATCH {NODES}/broken"), &taint.to_string()).await;
    until(async || !exists(&cluster, &format!("{PODS}/stuck")).await).await;
    cluster.stop().await;
}
