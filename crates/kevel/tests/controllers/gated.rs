//! Controllers behind feature gates: PodGroups, trust bundles, storage versions, pools of devices.

use std::time::Duration;

use kevel::ManualClock;
use kevel_test_support::Cluster;
use kevel_test_support::until;
use serde_json::{Value, json};

use super::{cluster, create_pod, exists, gated};

const GROUPS: &str = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups";
const BUNDLES: &str = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles";
const VERSIONS: &str = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions";
const REQUESTS: &str = "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";

async fn create_group(cluster: &Cluster, name: &str) {
    let policy = json!({"gang": {"minCount": 1}});
    let group = json!({"metadata": {"name": name}, "spec": {"schedulingPolicy": policy}});
    cluster.admin.create(GROUPS, &group).await;
}

pub async fn delete_unused_group(cluster: &Cluster) {
    create_group(cluster, "unused").await;
    cluster.admin.delete(&format!("{GROUPS}/unused")).await;
}

pub async fn group_is_gone(cluster: &Cluster) -> bool {
    !exists(cluster, &format!("{GROUPS}/unused")).await
}

/// Bundles of the server's signer.
async fn bundles(cluster: &Cluster) -> Vec<Value> {
    let (_, list) = cluster.admin.get(BUNDLES).await;
    let all = list["items"].as_array().cloned().unwrap_or_default();
    all.into_iter().filter(|bundle| bundle["spec"]["signerName"] == SIGNER).collect()
}

pub async fn bundle_is_published(cluster: &Cluster) -> bool {
    !bundles(cluster).await.is_empty()
}

/// Creates a StorageVersion with entries of these servers.
async fn create_storage_version(cluster: &Cluster, name: &str, servers: &[(&str, &str)]) {
    let version = json!({"metadata": {"name": name}, "spec": {}});
    cluster.admin.create(VERSIONS, &version).await;
    let entries: Vec<Value> = servers
        .iter()
        .map(|(server, encoding)| {
            json!({
                "apiServerID": server, "encodingVersion": encoding, "decodableVersions": ["v1", "v2"],
            })
        })
        .collect();
    let mut status = json!({"storageVersions": entries});
    if servers.iter().all(|(_, encoding)| *encoding == servers[0].1) {
        status["commonEncodingVersion"] = servers[0].1.into();
    }
    let patch = json!({"status": status}).to_string();
    cluster.ok("admin", &format!("PATCH {VERSIONS}/{name}/status"), &patch).await;
}

pub async fn register_lost_server(cluster: &Cluster) {
    create_storage_version(cluster, "example.com.lost", &[("gone", "v1")]).await;
}

pub async fn lost_server_is_forgotten(cluster: &Cluster) -> bool {
    !exists(cluster, &format!("{VERSIONS}/example.com.lost")).await
}

async fn ask_pools(cluster: &Cluster, name: &str, driver: &str) {
    let request = json!({"metadata": {"name": name}, "spec": {"driver": driver}});
    cluster.admin.create(REQUESTS, &request).await;
}

pub async fn ask_pools_of_no_driver(cluster: &Cluster) {
    ask_pools(cluster, "empty", "none.example.com").await;
}

pub async fn pools_are_counted(cluster: &Cluster) -> bool {
    cluster.admin.get(&format!("{REQUESTS}/empty")).await.1["status"]["poolCount"] == 0
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_group_outlives_its_deletion_until_its_pods_end() {
    let cluster = cluster().await;
    create_group(&cluster, "used").await;
    let member = json!({"nodeName": "node", "schedulingGroup": {"podGroupName": "used"}});
    let pods = create_pod(&cluster, "default", "member", &member).await;
    cluster.admin.delete(&format!("{GROUPS}/used")).await;
    // The controller has worked on what came later.
    delete_unused_group(&cluster).await;
    until(async || group_is_gone(&cluster).await).await;
    assert!(exists(&cluster, &format!("{GROUPS}/used")).await);
    let ended = r#"{"status":{"phase":"Succeeded"}}"#;
    cluster.ok("admin", &format!("PATCH {pods}/member/status"), ended).await;
    until(async || !exists(&cluster, &format!("{GROUPS}/used")).await).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bundle_of_the_servers_signer_is_published() {
    let cluster = cluster().await;
    until(async || bundle_is_published(&cluster).await).await;
    let published = bundles(&cluster).await.remove(0);
    let (_, map) =
        cluster.admin.get("/api/v1/namespaces/default/configmaps/kube-root-ca.crt").await;
    assert_eq!(published["spec"]["trustBundle"], map["data"]["ca.crt"]);
    // One of a former CA is removed, one of another signer stays.
    let bundle = |name: &str, signer: &str| {
        let spec = json!({"signerName": signer, "trustBundle": published["spec"]["trustBundle"]});
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let other = bundle("example.com:other:a", "example.com/other");
    cluster.admin.create(BUNDLES, &other).await;
    let old = bundle("kubernetes.io:kube-apiserver-serving:old", SIGNER);
    cluster.admin.create(BUNDLES, &old).await;
    until(async || bundles(&cluster).await.len() == 1).await;
    assert_eq!(bundles(&cluster).await[0]["metadata"]["name"], published["metadata"]["name"]);
    assert!(exists(&cluster, &format!("{BUNDLES}/example.com:other:a")).await);
    // A deleted one is made again.
    let path = format!("{BUNDLES}/{}", published["metadata"]["name"].as_str().unwrap());
    cluster.admin.delete(&path).await;
    until(async || bundle_is_published(&cluster).await).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_servers_without_identity_are_removed() {
    let cluster = cluster().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let selector = "labelSelector=apiserver.kubernetes.io%2Fidentity%3Dkube-apiserver";
    let (_, found) = cluster.admin.get(&format!("{leases}?{selector}")).await;
    let server = found["items"][0]["metadata"]["name"].as_str().unwrap().to_owned();
    let other = json!({
        "metadata": {"name": "other", "labels": {"apiserver.kubernetes.io/identity": "kube-apiserver"}},
        "spec": {
            "holderIdentity": "other", "leaseDurationSeconds": 3600,
            "renewTime": "2999-01-01T00:00:00.000000Z",
        },
    });
    cluster.admin.create(leases, &other).await;
    let name = "example.com.shared";
    create_storage_version(&cluster, name, &[(&server, "v2"), ("other", "v1")]).await;
    register_lost_server(&cluster).await;
    until(async || lost_server_is_forgotten(&cluster).await).await;
    let (_, shared) = cluster.admin.get(&format!("{VERSIONS}/{name}")).await;
    assert_eq!(shared["status"]["storageVersions"].as_array().unwrap().len(), 2);

    cluster.admin.delete(&format!("{leases}/other")).await;
    let agreed = |version: &Value| version["status"]["commonEncodingVersion"] == "v2";
    let shared = cluster.until_ok(&format!("GET {VERSIONS}/{name}"), "", agreed).await;
    assert_eq!(shared["status"]["storageVersions"][0]["apiServerID"], server.as_str());
    assert_eq!(shared["status"]["conditions"][0]["status"], "True");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pools_are_counted_once_they_are_published_as_a_whole() {
    let manual = ManualClock::at_present();
    let flag = "--controllers=resourcepoolstatusrequest-controller";
    let builder = gated(kevel::Server::builder()).clock(&manual).flag(flag);
    let cluster = Cluster::with(builder).await;
    let slice = |name: &str, generation: u64, devices: &[&str]| {
        let devices: Vec<Value> = devices.iter().map(|name| json!({"name": name})).collect();
        let pool = json!({"name": "pool", "generation": generation, "resourceSliceCount": 2});
        let spec = json!({
            "driver": "d.example.com", "nodeName": "node", "pool": pool, "devices": devices,
        });
        json!({"metadata": {"name": name}, "spec": spec})
    };
    cluster.admin.create(SLICES, &slice("old", 1, &["z"])).await;
    cluster.admin.create(SLICES, &slice("first", 2, &["a", "b"])).await;
    ask_pools(&cluster, "asked", "d.example.com").await;
    ask_pools_of_no_driver(&cluster).await;
    until(async || pools_are_counted(&cluster).await).await;
    let path = format!("{REQUESTS}/asked");
    assert_eq!(cluster.admin.get(&path).await.1["status"], Value::Null);

    cluster.admin.create(SLICES, &slice("second", 2, &["c"])).await;
    let answered = |request: &Value| request["status"]["poolCount"] == 1;
    let asked = cluster.until_ok(&format!("GET {path}"), "", answered).await;
    let pool = json!({
        "driver": "d.example.com", "poolName": "pool", "nodeName": "node", "generation": 2,
        "resourceSliceCount": 2, "totalDevices": 3, "allocatedDevices": 0, "availableDevices": 3,
        "unavailableDevices": 0,
    });
    assert_eq!(asked["status"]["pools"], json!([pool]));
    assert_eq!(asked["status"]["conditions"][0]["message"], "Calculated status for 1 pools");

    until(async || {
        manual.advance(Duration::from_secs(60 * 60));
        !exists(&cluster, &path).await
    })
    .await;
    cluster.stop().await;
}
