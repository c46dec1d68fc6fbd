//! Endpoints and EndpointSlices of Services.

use kevel_test_support::Cluster;
use serde_json::{Value, json};

use super::cluster;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";
const PODS: &str = "/api/v1/namespaces/default/pods";
pub const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// Creates a Service of the pods with the label `app`.
pub async fn select(cluster: &Cluster, name: &str) {
    create_service(cluster, name, json!({"selector": {"app": name}})).await;
}

/// Creates a Service without a selector, and its Endpoints.
pub async fn point(cluster: &Cluster, name: &str) {
    create_service(cluster, name, json!({})).await;
    let subsets = json!([{
        "addresses": [{"ip": "10.9.9.9", "hostname": "h"}, {"ip": "fd00::9"}],
        "notReadyAddresses": [{"ip": "10.9.9.8"}],
        "ports": [{"name": "web", "port": 8080}],
    }]);
    let endpoints = json!({
        "metadata": {"name": name, "labels": {"l": "1"}, "annotations": {"a": "1"}},
        "subsets": subsets,
    });
    cluster.admin.create(ENDPOINTS, &endpoints).await;
}

async fn create_service(cluster: &Cluster, name: &str, more: Value) {
    let mut spec = json!({"ports": [{"name": "web", "port": 80, "targetPort": "http"}]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let service = json!({"metadata": {"name": name, "labels": {"team": "a"}}, "spec": spec});
    cluster.admin.create(SERVICES, &service).await;
}

async fn create_node(cluster: &Cluster, name: &str, zone: &str) {
    let labels = json!({"topology.kubernetes.io/zone": zone});
    let node = json!({"metadata": {"name": name, "labels": labels}});
    cluster.admin.create("/api/v1/nodes", &node).await;
}

/// Creates a pod on a node, with an address.
async fn create_pod(cluster: &Cluster, app: &str, name: &str, ips: &[&str], ready: bool) {
    let ports = json!([{"name": "http", "containerPort": 8080}]);
    let pod = json!({
        "metadata": {"name": name, "labels": {"app": app}, "finalizers": ["example.com/hold"]},
        "spec": {
            "nodeName": "n", "hostname": name, "subdomain": app,
            "automountServiceAccountToken": false,
            "containers": [{"name": "c", "image": "i", "ports": ports}],
        },
    });
    cluster
        .until("GET /api/v1/namespaces/default/serviceaccounts/default", |(code, _)| *code == 200)
        .await;
    cluster.admin.create(PODS, &pod).await;
    set_status(cluster, name, ips, ready).await;
}

async fn set_status(cluster: &Cluster, name: &str, ips: &[&str], ready: bool) {
    let status = if ready { "True" } else { "False" };
    let ips: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    let condition = json!({
        "type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({"status": {
        "phase": "Running", "podIP": ips[0]["ip"], "podIPs": ips, "conditions": [condition],
    }});
    cluster.ok("admin", &format!("PATCH {PODS}/{name}/status"), &status.to_string()).await;
}

/// Slices of a Service, by address type.
async fn slices(cluster: &Cluster, service: &str, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let path = format!("GET {SLICES}?labelSelector=kubernetes.io/service-name={service}");
    let sorted = |list: &Value| {
        let mut items = list["items"].as_array().cloned().unwrap_or_default();
        items.sort_by_key(|slice| slice["addressType"].to_string());
        items
    };
    sorted(&cluster.until_ok(&path, "", |list| wanted(&sorted(list))).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn slices_follow_the_pods_of_a_service() {
    let cluster = cluster().await;
    create_node(&cluster, "n", "z").await;
    select(&cluster, "s").await;
    let empty = slices(&cluster, "s", |slices| slices.len() == 1).await;
    assert_eq!(empty[0]["ports"], Value::Null);
    create_pod(&cluster, "s", "p", &["10.1.0.1"], true).await;
    let ready = |at: usize, ready: bool| {
        move |slices: &[Value]| slices[0]["endpoints"][at]["conditions"]["ready"] == ready
    };
    let found = slices(&cluster, "s", ready(0, true)).await;
    let slice = &found[0];
    assert_eq!(found.len(), 1);
    assert_eq!(slice["metadata"]["name"], empty[0]["metadata"]["name"], "the slice is reused");
    assert_eq!(slice["addressType"], "IPv4");
    assert_eq!(slice["ports"], json!([{"name": "web", "port": 8080, "protocol": "TCP"}]));
    let labels = json!({
        "team": "a",
        "kubernetes.io/service-name": "s",
        MANAGED_BY: "endpointslice-controller.k8s.io",
    });
    assert_eq!(slice["metadata"]["labels"], labels);
    assert_eq!(slice["metadata"]["ownerReferences"][0]["kind"], "Service");
    let trigger =
        &slice["metadata"]["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"];
    assert_eq!(trigger, "2026-01-01T00:00:00Z");
    let (_, pod) = cluster.admin.get(&format!("{PODS}/p")).await;
    let target = json!({
        "kind": "Pod", "namespace": "default", "name": "p", "uid": pod["metadata"]["uid"],
    });
    let endpoint = json!({
        "addresses": ["10.1.0.1"],
        "conditions": {"ready": true, "serving": true, "terminating": false},
        "hostname": "p", "nodeName": "n", "zone": "z", "targetRef": target,
    });
    assert_eq!(slice["endpoints"], json!([endpoint]));

    set_status(&cluster, "p", &["10.1.0.1"], false).await;
    slices(&cluster, "s", ready(0, false)).await;
    set_status(&cluster, "p", &["10.1.0.1"], true).await;
    slices(&cluster, "s", ready(0, true)).await;
    cluster.admin.delete(&format!("{PODS}/p")).await;
    let found = slices(&cluster, "s", ready(0, false)).await;
    let conditions = json!({"ready": false, "serving": true, "terminating": true});
    assert_eq!(found[0]["endpoints"][0]["conditions"], conditions);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn headless_dual_stack_service_has_slices_of_both_families() {
    let ranges = "--service-cluster-ip-range=10.0.0.0/24,fd00::/112";
    let cluster = Cluster::start(&["--controllers=*", ranges]).await;
    create_node(&cluster, "n", "z").await;
    create_pod(&cluster, "both", "p", &["10.1.0.1", "fd00::1:1"], false).await;
    let spec = json!({
        "selector": {"app": "both"}, "clusterIP": "None", "ipFamilyPolicy": "RequireDualStack",
        "publishNotReadyAddresses": true,
    });
    create_service(&cluster, "both", spec).await;
    let full = |slices: &[Value]| {
        slices.len() == 2 && slices.iter().all(|slice| slice["endpoints"][0].is_object())
    };
    let found = slices(&cluster, "both", full).await;
    for (slice, address_type, address) in
        [(&found[0], "IPv4", "10.1.0.1"), (&found[1], "IPv6", "fd00::1:1")]
    {
        assert_eq!(slice["addressType"], address_type);
        assert_eq!(slice["endpoints"][0]["addresses"], json!([address]));
        let conditions = json!({"ready": true, "serving": false, "terminating": false});
        assert_eq!(slice["endpoints"][0]["conditions"], conditions);
        assert_eq!(slice["metadata"]["labels"]["service.kubernetes.io/headless"], "");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_follow_the_pods_of_a_service() {
    let cluster = cluster().await;
    create_node(&cluster, "n", "z").await;
    select(&cluster, "s").await;
    create_pod(&cluster, "s", "a", &["10.1.0.2"], true).await;
    create_pod(&cluster, "s", "b", &["10.1.0.1"], false).await;
    let read = format!("GET {ENDPOINTS}/s");
    cluster.until(&read, |(code, _)| *code == 200).await;
    let both = |found: &Value| {
        let subset = &found["subsets"][0];
        subset["addresses"].is_array() && subset["notReadyAddresses"].is_array()
    };
    let found = cluster.until_ok(&read, "", both).await;
    let labels = json!({"team": "a", "endpoints.kubernetes.io/managed-by": "endpoint-controller"});
    assert_eq!(found["metadata"]["labels"], labels);
    let subset = &found["subsets"][0];
    assert_eq!(subset["ports"], json!([{"name": "web", "port": 8080, "protocol": "TCP"}]));
    let ready = &subset["addresses"][0];
    assert_eq!((&ready["ip"], &ready["nodeName"]), (&json!("10.1.0.2"), &json!("n")));
    assert_eq!((&ready["hostname"], &ready["targetRef"]["name"]), (&json!("a"), &json!("a")));
    assert_eq!(subset["notReadyAddresses"][0]["ip"], "10.1.0.1");

    set_status(&cluster, "b", &["10.1.0.1"], true).await;
    let sorted = |found: &Value| {
        let addresses = &found["subsets"][0]["addresses"];
        addresses[0]["ip"] == "10.1.0.1" && addresses[1]["ip"] == "10.1.0.2"
    };
    cluster.until_ok(&read, "", sorted).await;
    cluster.admin.delete(&format!("{SERVICES}/s")).await;
    cluster.until(&read, |(code, _)| *code == 404).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_of_services_without_selector_are_mirrored() {
    let cluster = cluster().await;
    point(&cluster, "s").await;
    let found = slices(&cluster, "s", |slices| slices.len() == 2).await;
    let labels = json!({
        "l": "1",
        "kubernetes.io/service-name": "s",
        MANAGED_BY: "endpointslicemirroring-controller.k8s.io",
    });
    assert_eq!(found[0]["metadata"]["labels"], labels);
    assert_eq!(found[0]["metadata"]["annotations"], json!({"a": "1"}));
    assert_eq!(found[0]["metadata"]["ownerReferences"][0]["kind"], "Endpoints");
    let endpoints = json!([
        {"addresses": ["10.9.9.8"], "conditions": {"ready": false}},
        {"addresses": ["10.9.9.9"], "conditions": {"ready": true}, "hostname": "h"},
    ]);
    assert_eq!(found[0]["endpoints"], endpoints);
    assert_eq!(found[1]["endpoints"][0]["addresses"], json!(["fd00::9"]));

    let patch =
        json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}});
    cluster.ok("admin", &format!("PATCH {ENDPOINTS}/s"), &patch.to_string()).await;
    slices(&cluster, "s", <[Value]>::is_empty).await;
    cluster.stop().await;
}
