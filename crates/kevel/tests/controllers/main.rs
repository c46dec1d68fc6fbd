//! Controllers of kube-controller-manager in a server that runs alone.

#![allow(clippy::unwrap_used)]

mod certificates;
mod disruption;
mod endpoints;
mod ephemeral_volume;
mod every_controller;
mod garbage_collector;
mod gated;
mod identity;
mod lease;
mod namespace;
mod node_lifecycle;
mod pod_garbage_collector;
mod policy_status;
mod resource_claim;
mod resource_quota;
mod service_cidr;
mod storage_version_migrator;
mod taint_eviction;
mod tokens;
mod ttl_after_finished;
mod volume_binder;
mod volume_protection;

use kevel::ManualClock;
use kevel_test_support::Cluster;
use serde_json::{Value, json};

/// All controllers, those that are off by default included.
const ALL: &str = "*,bootstrap-signer-controller,token-cleaner-controller";

/// Gates of controllers that are off by default, and the APIs of their objects.
const GATED: [&str; 2] = [
    "--feature-gates=ClusterTrustBundle=true,DRAResourcePoolStatus=true,GenericWorkload=true,\
     PodCertificateRequest=true,StorageVersionAPI=true,StorageVersionMigrator=true",
    "--runtime-config=certificates.k8s.io/v1beta1=true,internal.apiserver.k8s.io/v1alpha1=true,\
     resource.k8s.io/v1alpha3=true,scheduling.k8s.io/v1alpha2=true,\
     storagemigration.k8s.io/v1beta1=true",
];

/// A server with all controllers.
async fn cluster() -> Cluster {
    cluster_with(ALL).await
}

/// A server with these controllers, and all gates that controllers need.
async fn cluster_with(controllers: &str) -> Cluster {
    let [gates, apis] = GATED;
    Cluster::start(&[&format!("--controllers={controllers}"), gates, apis]).await
}

/// A server on which all gates are on that controllers need.
fn gated(builder: kevel::Builder) -> kevel::Builder {
    GATED.iter().fold(builder, |builder, flag| builder.flag(*flag))
}

/// A server with one controller, and a clock that the test advances.
async fn cluster_of(controller: &str, clock: &ManualClock) -> Cluster {
    let flag = format!("--controllers={controller}");
    Cluster::with(kevel::Server::builder().clock(clock).flag(&flag)).await
}

/// Creates a namespace.
async fn create_namespace(cluster: &Cluster, name: &str) {
    let namespace = json!({"metadata": {"name": name}});
    cluster.admin.create("/api/v1/namespaces", &namespace).await;
}

/// Creates a ConfigMap with these owners, and returns it.
async fn create_owned(cluster: &Cluster, namespace: &str, name: &str, owners: &[Value]) -> Value {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let map = json!({"metadata": {"name": name, "ownerReferences": owners}});
    cluster.admin.create(&path, &map).await
}

/// Reference to a ConfigMap as owner.
fn owner(map: &Value, blocks: bool) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": map["metadata"]["name"],
        "uid": map["metadata"]["uid"],
        "blockOwnerDeletion": blocks,
    })
}

/// Whether a path is found.
async fn exists(cluster: &Cluster, path: &str) -> bool {
    cluster.admin.get(path).await.0 == 200
}

/// Creates a pod with these fields of its spec, and the ServiceAccount that it needs; returns the path of the pods.
async fn create_pod(cluster: &Cluster, namespace: &str, name: &str, spec: &Value) -> String {
    let path = format!("/api/v1/namespaces/{namespace}");
    let account = json!({"metadata": {"name": "default"}});
    cluster.admin.post(&format!("{path}/serviceaccounts"), &account).await;
    let mut spec = spec.clone();
    spec["containers"] = json!([{"name": "a", "image": "b"}]);
    spec["automountServiceAccountToken"] = false.into();
    let pod = json!({"metadata": {"name": name}, "spec": spec});
    cluster.admin.create(&format!("{path}/pods"), &pod).await;
    format!("{path}/pods")
}
