//! `componentstatuses`: what the server finds out about its neighbours.

use kevel_test_support::Cluster;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_does_not_answer_is_unhealthy() {
    let cluster = Cluster::alone().await;
    let path = "/api/v1/componentstatuses";
    let list = cluster.ok("admin", &format!("GET {path}"), "").await;
    assert_eq!(list["metadata"], json!({}));
    let names: Vec<_> =
        list["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["controller-manager", "etcd-0", "scheduler"]);
    let store = cluster.ok("admin", &format!("GET {path}/etcd-0"), "").await;
    assert_eq!(
        store,
        json!({
            "kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": "etcd-0"},
            "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}],
        })
    );
    let told = cluster.refused("admin", &format!("GET {path}/none"), "").await;
    assert_eq!(told, "404 componentstatus \"none\" not found");
    let one = format!("GET {path}?fieldSelector=metadata.name%3Dscheduler");
    let one = cluster.ok("admin", &one, "").await;
    assert_eq!(one["items"].as_array().unwrap().len(), 1);
    let none = cluster.ok("admin", &format!("GET {path}?labelSelector=a"), "").await;
    assert_eq!(none["items"], json!([]));
    let accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let (_, table) = cluster.send_with("admin", &format!("GET {path}"), &accept, "").await;
    let table: serde_json::Value = serde_json::from_str(&table).unwrap();
    assert_eq!(table["rows"][1]["cells"], json!(["etcd-0", "Healthy", "ok", ""]));
    cluster.stop().await;
}
