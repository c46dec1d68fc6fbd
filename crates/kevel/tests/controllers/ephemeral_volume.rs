//! Claims of ephemeral volumes.

use kevel_test_support::Cluster;
use kevel_test_support::until;
use serde_json::json;

use super::{cluster, create_pod, exists};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

pub async fn create_pod_with_volume(cluster: &Cluster) {
    let template = json!({
        "metadata": {"labels": {"of": "scratch"}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "none",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    let volumes = json!([{"name": "data", "ephemeral": {"volumeClaimTemplate": template}}]);
    create_pod(cluster, "default", "scratch", &json!({ "volumes": volumes })).await;
}

pub async fn claim_exists(cluster: &Cluster) -> bool {
    exists(cluster, &format!("{CLAIMS}/scratch-data")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_claim_of_a_pod_is_created_again() {
    let cluster = cluster().await;
    create_pod_with_volume(&cluster).await;
    until(async || claim_exists(&cluster).await).await;
    let (_, first) = cluster.admin.get(&format!("{CLAIMS}/scratch-data")).await;
    let (_, pod) = cluster.admin.get("/api/v1/namespaces/default/pods/scratch").await;
    let owner = &first["metadata"]["ownerReferences"][0];
    assert_eq!(owner["uid"], pod["metadata"]["uid"]);
    assert_eq!([&owner["controller"], &owner["blockOwnerDeletion"]], [true, true]);
    assert_eq!(first["metadata"]["labels"], json!({"of": "scratch"}));
    assert_eq!(first["spec"]["storageClassName"], "none");
    cluster.admin.delete(&format!("{CLAIMS}/scratch-data")).await;
    until(async || {
        let (_, found) = cluster.admin.get(&format!("{CLAIMS}/scratch-data")).await;
        let uid = &found["metadata"]["uid"];
        uid.is_string() && *uid != first["metadata"]["uid"]
    })
    .await;
    cluster.stop().await;
}
