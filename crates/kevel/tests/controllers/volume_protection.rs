//! Finalizers of volumes, claims and their classes.

use kevel_test_support::Cluster;
use kevel_test_support::until;
use serde_json::{Value, json};

use super::{cluster, create_pod, exists};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLASSES: &str = "/apis/storage.k8s.io/v1/volumeattributesclasses";

/// A claim of a class that no volume has.
pub fn claim(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "none",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

/// A volume of a class that no claim has.
pub fn volume(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "unclaimed",
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/tmp/volume"},
        },
    })
}

pub async fn delete_unused_claim(cluster: &Cluster) {
    cluster.admin.create(CLAIMS, &claim("unused")).await;
    cluster.admin.delete(&format!("{CLAIMS}/unused")).await;
}

pub async fn claim_is_gone(cluster: &Cluster) -> bool {
    !exists(cluster, &format!("{CLAIMS}/unused")).await
}

pub async fn delete_unused_volume(cluster: &Cluster) {
    cluster.admin.create(VOLUMES, &volume("unused")).await;
    cluster.admin.delete(&format!("{VOLUMES}/unused")).await;
}

pub async fn volume_is_gone(cluster: &Cluster) -> bool {
    !exists(cluster, &format!("{VOLUMES}/unused")).await
}

async fn create_class(cluster: &Cluster) {
    let class = json!({
        "metadata": {"name": "fast"}, "driverName": "example.com", "parameters": {"iops": "9"},
    });
    cluster.admin.create(CLASSES, &class).await;
}

pub async fn delete_unused_class(cluster: &Cluster) {
    let class = json!({
        "metadata": {"name": "unused"}, "driverName": "example.com", "parameters": {"iops": "9"},
    });
    cluster.admin.create(CLASSES, &class).await;
    cluster.admin.delete(&format!("{CLASSES}/unused")).await;
}

pub async fn class_is_gone(cluster: &Cluster) -> bool {
    !exists(cluster, &format!("{CLASSES}/unused")).await
}

async fn class_is_protected(cluster: &Cluster) -> bool {
    let (_, class) = cluster.admin.get(&format!("{CLASSES}/fast")).await;
    class["metadata"]["finalizers"] == json!(["kubernetes.io/vac-protection"])
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_of_a_scheduled_pod_outlives_its_deletion() {
    let cluster = cluster().await;
    cluster.admin.create(CLAIMS, &claim("used")).await;
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "used"}}]);
    let spec = json!({"nodeName": "node", "volumes": volumes});
    let pods = create_pod(&cluster, "default", "user", &spec).await;
    cluster.admin.delete(&format!("{CLAIMS}/used")).await;
    // The controller has worked on what came later.
    delete_unused_claim(&cluster).await;
    until(async || claim_is_gone(&cluster).await).await;
    assert!(exists(&cluster, &format!("{CLAIMS}/used")).await);
    let now = r#"{"gracePeriodSeconds":0}"#;
    cluster.ok("admin", &format!("DELETE {pods}/user"), now).await;
    until(async || !exists(&cluster, &format!("{CLAIMS}/used")).await).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bound_volume_and_named_class_outlive_their_deletion() {
    let cluster = cluster().await;
    create_class(&cluster).await;
    until(async || class_is_protected(&cluster).await).await;
    let mut bound = volume("bound");
    bound["spec"]["volumeAttributesClassName"] = "fast".into();
    bound["spec"]["csi"] = json!({"driver": "example.com", "volumeHandle": "a"});
    bound["spec"].as_object_mut().unwrap().remove("hostPath");
    let mut owner = claim("owner");
    owner["spec"]["storageClassName"] = "unclaimed".into();
    owner["spec"]["volumeAttributesClassName"] = "fast".into();
    let owner = cluster.admin.create(CLAIMS, &owner).await;
    let reference = json!({
        "namespace": "default", "name": "owner", "uid": owner["metadata"]["uid"],
    });
    bound["spec"]["claimRef"] = reference;
    cluster.admin.create(VOLUMES, &bound).await;
    let phase = r#"{"status":{"phase":"Bound"}}"#;
    cluster.ok("admin", &format!("PATCH {VOLUMES}/bound/status"), phase).await;
    for path in [format!("{VOLUMES}/bound"), format!("{CLASSES}/fast")] {
        cluster.admin.delete(&path).await;
    }
    delete_unused_volume(&cluster).await;
    until(async || volume_is_gone(&cluster).await).await;
    assert!(exists(&cluster, &format!("{VOLUMES}/bound")).await);
    assert!(exists(&cluster, &format!("{CLASSES}/fast")).await);

    cluster.admin.delete(&format!("{CLAIMS}/owner")).await;
    let released = r#"{"status":{"phase":"Released"}}"#;
    let release = format!("PATCH {VOLUMES}/bound/status");
    cluster.until_sent("admin", &release, released, |(code, _)| [200, 404].contains(code)).await;
    until(async || !exists(&cluster, &format!("{VOLUMES}/bound")).await).await;
    until(async || !exists(&cluster, &format!("{CLASSES}/fast")).await).await;
    cluster.stop().await;
}
