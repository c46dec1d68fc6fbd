//! Controllers beside a kube-controller-manager.

use std::time::Duration;

use kevel::ManualClock;
use kevel_api::time::MicroTime;
use kevel_test_support::Cluster;
use kevel_test_support::until;
use serde_json::json;

use super::{create_namespace, exists};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

async fn account_appears(cluster: &Cluster, namespace: &str) {
    create_namespace(cluster, namespace).await;
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
    until(async || exists(cluster, &path).await).await;
}

/// Whether the ServiceAccount of a new namespace is missing after all controllers of another namespace's could work:
/// the kube-controller-manager's own write is acknowledged.
async fn account_is_missing(cluster: &Cluster, namespace: &str) -> bool {
    create_namespace(cluster, namespace).await;
    for round in 0..50 {
        let map = format!("round-{round}");
        super::create_owned(cluster, namespace, &map, &[]).await;
    }
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
    !exists(cluster, &path).await
}

#[tokio::test(flavor = "multi_thread")]
async fn controllers_stop_while_a_controller_manager_holds_its_lease() {
    let manual = ManualClock::at_present();
    let builder = kevel::Server::builder().clock(&manual);
    let cluster = Cluster::with(builder).await;
    account_appears(&cluster, "before").await;
    let lease = json!({
        "metadata": {"name": "kube-controller-manager"},
        "spec": {
            "holderIdentity": "manager",
            "leaseDurationSeconds": 15,
            "renewTime": MicroTime::now(&manual.clock()).to_string(),
        },
    });
    cluster.admin.create(LEASES, &lease).await;
    assert!(account_is_missing(&cluster, "during").await);
    manual.advance(Duration::from_secs(16));
    account_appears(&cluster, "after").await;
    let path = "/api/v1/namespaces/during/serviceaccounts/default";
    until(async || exists(&cluster, path).await).await;

    // A manager that gives up its lease names no holder.
    let name = "kube-controller-manager";
    let taken = json!({"spec": {
        "holderIdentity": "second", "renewTime": MicroTime::now(&manual.clock()).to_string(),
    }});
    let patch = format!("PATCH {LEASES}/{name}");
    cluster.ok("admin", &patch, &taken.to_string()).await;
    assert!(account_is_missing(&cluster, "second").await);
    cluster.ok("admin", &patch, r#"{"spec":{"holderIdentity":null}}"#).await;
    account_appears(&cluster, "free").await;
    cluster.stop().await;
}
