//! Binding of claims to volumes.

use kevel_test_support::Cluster;
use kevel_test_support::until;
use serde_json::{Value, json};

use super::volume_protection::{claim, volume};
use super::{cluster, create_pod, exists};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

pub async fn create_free_volume(cluster: &Cluster) {
    cluster.admin.create(VOLUMES, &volume("free")).await;
}

pub async fn volume_is_available(cluster: &Cluster) -> bool {
    cluster.admin.get(&format!("{VOLUMES}/free")).await.1["status"]["phase"] == "Available"
}

fn of_class(mut object: Value, class: &str) -> Value {
    object["spec"]["storageClassName"] = class.into();
    object
}

async fn until_phase(cluster: &Cluster, path: &str, phase: &str) -> Value {
    let is_there = |object: &Value| object["status"]["phase"] == phase;
    cluster.until_ok(&format!("GET {path}"), "", is_there).await
}

async fn until_event(cluster: &Cluster, object: &str, reason: &str) -> String {
    let path = format!("GET /api/v1/events?fieldSelector=reason={reason}");
    let about = |event: &&Value| event["involvedObject"]["name"] == object;
    let found = |events: &Value| events["items"].as_array().unwrap().iter().find(about).cloned();
    let events = cluster.until_ok(&path, "", |events| found(events).is_some()).await;
    found(&events).unwrap()["message"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_is_bound_to_the_smallest_volume_and_releases_it() {
    let cluster = cluster().await;
    let mut large = of_class(volume("large"), "manual");
    large["spec"]["capacity"]["storage"] = "5Gi".into();
    cluster.admin.create(VOLUMES, &large).await;
    let mut small = of_class(volume("small"), "manual");
    small["spec"]["persistentVolumeReclaimPolicy"] = "Delete".into();
    cluster.admin.create(VOLUMES, &small).await;
    until_phase(&cluster, &format!("{VOLUMES}/large"), "Available").await;
    until_phase(&cluster, &format!("{VOLUMES}/small"), "Available").await;

    let created = cluster.admin.create(CLAIMS, &of_class(claim("data"), "manual")).await;
    let data = until_phase(&cluster, &format!("{CLAIMS}/data"), "Bound").await;
    assert_eq!(data["spec"]["volumeName"], "small");
    assert_eq!(data["status"]["capacity"], json!({"storage": "1Gi"}));
    assert_eq!(data["status"]["accessModes"], json!(["ReadWriteOnce"]));
    for annotation in ["pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"] {
        assert_eq!(data["metadata"]["annotations"][annotation], "yes");
    }
    let small = until_phase(&cluster, &format!("{VOLUMES}/small"), "Bound").await;
    assert_eq!(small["spec"]["claimRef"]["uid"], created["metadata"]["uid"]);

    // No deleter: the volume stays.
    cluster.admin.delete(&format!("{CLAIMS}/data")).await;
    let small = until_phase(&cluster, &format!("{VOLUMES}/small"), "Failed").await;
    assert_eq!(
        small["status"]["message"],
        r#"error getting deleter volume plugin for volume "small": no deletable volume plugin matched"#,
    );
    until_event(&cluster, "small", "VolumeFailedDelete").await;

    // A retained volume is only released.
    cluster.admin.create(CLAIMS, &of_class(claim("next"), "manual")).await;
    until_phase(&cluster, &format!("{CLAIMS}/next"), "Bound").await;
    cluster.admin.delete(&format!("{CLAIMS}/next")).await;
    until_phase(&cluster, &format!("{VOLUMES}/large"), "Released").await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn delayed_claim_waits_for_its_pod() {
    let cluster = cluster().await;
    let class = json!({
        "metadata": {"name": "late"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    cluster.admin.create(CLASSES, &class).await;
    cluster.admin.create(VOLUMES, &of_class(volume("late"), "late")).await;
    until_phase(&cluster, &format!("{VOLUMES}/late"), "Available").await;
    cluster.admin.create(CLAIMS, &of_class(claim("late"), "late")).await;
    let message = until_event(&cluster, "late", "WaitForFirstConsumer").await;
    assert_eq!(message, "waiting for first consumer to be created before binding");
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "late"}}]);
    create_pod(&cluster, "default", "consumer", &json!({ "volumes": volumes })).await;
    let message = until_event(&cluster, "late", "WaitForPodScheduled").await;
    assert_eq!(message, "waiting for pod consumer to be scheduled");
    let (_, found) = cluster.admin.get(&format!("{CLAIMS}/late")).await;
    assert_eq!(found["status"]["phase"], "Pending");

    // The scheduler reserves the volume.
    let reserved = r#"{"spec":{"claimRef":{"namespace":"default","name":"late"}}}"#;
    cluster.ok("admin", &format!("PATCH {VOLUMES}/late"), reserved).await;
    until_phase(&cluster, &format!("{CLAIMS}/late"), "Bound").await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_default_class_is_assigned_and_its_provisioner_asked() {
    let cluster = cluster().await;
    let mut plain = claim("plain");
    plain["spec"].as_object_mut().unwrap().remove("storageClassName");
    cluster.admin.create(CLAIMS, &plain).await;
    let message = until_event(&cluster, "plain", "FailedBinding").await;
    assert_eq!(
        message,
        "no persistent volumes available for this claim and no storage class is set",
    );
    let annotations = json!({"storageclass.kubernetes.io/is-default-class": "true"});
    let class = json!({
        "metadata": {"name": "standard", "annotations": annotations},
        "provisioner": "example.com/provisioner",
    });
    cluster.admin.create(CLASSES, &class).await;
    let message = until_event(&cluster, "plain", "ExternalProvisioning").await;
    assert!(message.contains("'example.com/provisioner'"), "{message}");
    let (_, plain) = cluster.admin.get(&format!("{CLAIMS}/plain")).await;
    assert_eq!(plain["spec"]["storageClassName"], "standard");
    let provisioner = "volume.kubernetes.io/storage-provisioner";
    assert_eq!(plain["metadata"]["annotations"][provisioner], "example.com/provisioner");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_without_its_volume_is_lost() {
    let cluster = cluster().await;
    cluster.admin.create(VOLUMES, &of_class(volume("doomed"), "manual")).await;
    cluster.admin.create(CLAIMS, &of_class(claim("owner"), "manual")).await;
    until_phase(&cluster, &format!("{CLAIMS}/owner"), "Bound").await;
    cluster.admin.delete(&format!("{VOLUMES}/doomed")).await;
    let free = r#"{"metadata":{"finalizers":null}}"#;
    cluster.ok("admin", &format!("PATCH {VOLUMES}/doomed"), free).await;
    until(async || !exists(&cluster, &format!("{VOLUMES}/doomed")).await).await;
    until_phase(&cluster, &format!("{CLAIMS}/owner"), "Lost").await;
    let message = until_event(&cluster, "owner", "ClaimLost").await;
    assert_eq!(message, "Bound claim has lost its PersistentVolume. Data on the volume is lost!");
    cluster.stop().await;
}
