//! Aggregated API servers.

use kevel_clock::Stopwatch;
use kevel_test_support::{Ca, Cluster, soon, until, write_pair};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::dripping::{BODY, Dripping, HEAD, Protocol};
use super::{LATE, base64, on_time};

const PATH: &str = "/apis/wardle.example.com/v1alpha1";
/// Time that the reference gives an aggregated server for its discovery document.
const DISCOVERY_SECONDS: u64 = 5;

async fn aggregating(server: &Dripping) -> Cluster {
    let folder = tempfile::tempdir().unwrap();
    let front_proxy = Ca::new("front-proxy");
    write_pair(folder.path(), "proxy", &front_proxy.client("aggregator"));
    let file = |name: &str| folder.path().join(name).display().to_string();
    let flags = vec![
        "--enable-aggregator-routing".to_owned(),
        format!("--proxy-client-cert-file={}", file("proxy.crt")),
        format!("--proxy-client-key-file={}", file("proxy.key")),
    ];
    let cluster = Cluster::on(folder, flags).await;
    let service = json!({
        "metadata": {"name": "wardle"}, "spec": {"ports": [{"name": "https", "port": 443}]},
    });
    cluster.admin.create("/api/v1/namespaces/default/services", &service).await;
    let slice = json!({
        "metadata": {"name": "wardle-1", "labels": {"kubernetes.io/service-name": "wardle"}},
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": server.address.port()}],
        "endpoints": [{"addresses": [server.address.ip()], "conditions": {"ready": true}}],
    });
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    cluster.admin.create(slices, &slice).await;
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    let name = "v1alpha1.wardle.example.com";
    let api_service = json!({
        "metadata": {"name": name},
        "spec": {
            "group": "wardle.example.com", "version": "v1alpha1",
            "groupPriorityMinimum": 2000, "versionPriority": 200, "caBundle": base64(&server.ca),
            "service": {"namespace": "default", "name": "wardle"},
        },
    });
    cluster.admin.create(services, &api_service).await;
    until(async || {
        let (_, service) = cluster.admin.get(&format!("{services}/{name}")).await;
        service["status"]["conditions"][0]["status"] == "True"
    })
    .await;
    cluster
}

/// The whole of an answer by HTTP/1.1, up to where it breaks off.
async fn answer(cluster: &Cluster, path: &str) -> String {
    let mut client = cluster.connect().await;
    let request = format!("GET {path} HTTP/1.1\r\nhost: kubernetes\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn dripping_aggregated_servers_end_with_the_request() {
    aggregated_ends_with_request(Protocol::Http1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dripping_http2_aggregated_servers_end_with_the_request() {
    aggregated_ends_with_request(Protocol::Http2).await;
}

/// An answer that has not begun is 504; one that has is broken off, so that no client takes it for whole.
async fn aggregated_ends_with_request(protocol: Protocol) {
    let server = Dripping::speaking("wardle.default.svc", protocol).await;
    let cluster = aggregating(&server).await;
    let head = format!("GET {PATH}/namespaces/default{HEAD}?timeout=1s");
    let refused = on_time(cluster.refused("admin", &head, "")).await;
    assert_eq!(refused, "504 Timeout: request did not complete within the allotted timeout");
    until(async || server.open() == 0).await;

    let body = format!("{PATH}/namespaces/default{BODY}?timeout=1s");
    let told = on_time(answer(&cluster, &body)).await;
    assert!(told.starts_with("HTTP/1.1 200 OK\r\n"), "{told}");
    let (_, told) = told.split_once("\r\n\r\n").unwrap();
    assert!(told.starts_with('{') && told.len() < 1000, "{told}");
    until(async || server.open() == 0).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dripping_discovery_documents_end_after_five_seconds() {
    discovery_ends_after_five_seconds(Protocol::Http1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dripping_http2_discovery_documents_end_after_five_seconds() {
    discovery_ends_after_five_seconds(Protocol::Http2).await;
}

/// Clients ask for every discovery document at once: one that drips does not hold them for a minute.
async fn discovery_ends_after_five_seconds(protocol: Protocol) {
    let server = Dripping::speaking("wardle.default.svc", protocol).await;
    let cluster = aggregating(&server).await;
    until(async || server.open() == 0).await;
    server.drip_everywhere();
    let started = Stopwatch::start();
    let told = soon(answer(&cluster, PATH)).await;
    let took = started.elapsed();
    assert!(told.starts_with("HTTP/1.1 200 OK\r\n"), "{told}");
    assert!(took.as_secs() + 1 >= DISCOVERY_SECONDS, "{took:?}");
    assert!(took < std::time::Duration::from_secs(DISCOVERY_SECONDS) + LATE, "{took:?}");
    cluster.stop().await;
}
