//! ServiceCIDRs.

use kevel_test_support::Cluster;
use serde_json::{Value, json};

use super::cluster;

pub const RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";
const SERVICES: &str = "/api/v1/namespaces/default/services";

/// Creates a ServiceCIDR of one range.
pub async fn create_range(cluster: &Cluster, name: &str, cidr: &str) {
    let range = json!({"metadata": {"name": name}, "spec": {"cidrs": [cidr]}});
    cluster.admin.create(RANGES, &range).await;
}

fn ready(range: &Value) -> Option<&Value> {
    range["status"]["conditions"].as_array()?.iter().find(|found| found["type"] == "Ready")
}

#[tokio::test(flavor = "multi_thread")]
async fn service_cidr_in_use_is_not_deleted() {
    let cluster = cluster().await;
    create_range(&cluster, "more", "192.168.7.0/24").await;
    let read = format!("GET {RANGES}/more");
    let is_ready = |range: &Value| ready(range).is_some_and(|ready| ready["status"] == "True");
    let range = cluster.until_ok(&read, "", is_ready).await;
    let finalizers = json!(["networking.k8s.io/service-cidr-finalizer"]);
    assert_eq!(range["metadata"]["finalizers"], finalizers);
    assert_eq!(ready(&range).unwrap()["message"], "Kubernetes Service CIDR is ready");

    let spec = json!({"clusterIP": "192.168.7.9", "ports": [{"port": 80}]});
    let service = json!({"metadata": {"name": "uses"}, "spec": spec}).to_string();
    cluster
        .until_sent("admin", &format!("POST {SERVICES}"), &service, |(code, _)| *code == 201)
        .await;
    cluster.admin.delete(&format!("{RANGES}/more")).await;
    let waits = |range: &Value| ready(range).is_some_and(|ready| ready["status"] == "False");
    let range = cluster.until_ok(&read, "", waits).await;
    let condition = ready(&range).unwrap();
    assert_eq!(condition["reason"], "Terminating");
    assert_eq!(
        condition["message"],
        "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a \
         new ServiceCIDR",
    );

    cluster.admin.delete(&format!("{SERVICES}/uses")).await;
    cluster.until(&read, |(code, _)| *code == 404).await;
    cluster.stop().await;
}
