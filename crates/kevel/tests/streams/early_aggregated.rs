//! Aggregated API servers that speak too early around a change of protocol.

use std::net::{IpAddr, SocketAddr};

use kevel_test_support::{Ca, until};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::early::{Manner, assert_answer, manners, read_head, tls, upgraded};
use super::{Node, reachable, start};

const NOT_FOUND: &[u8] =
    b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
const DISCOVERY: &[u8] = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";

/// An aggregated server with this manner towards requests for another protocol; its address and CA bundle.
async fn aggregated_server(name: &str, address: IpAddr, manner: Manner) -> (SocketAddr, String) {
    let ca = Ca::new("aggregated");
    let acceptor = tls(&ca.server(&format!("{name}.default.svc")));
    let listener = TcpListener::bind((address, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let path = format!("GET /apis/{name}.example.com/v1 ");
    tokio::spawn(async move {
        while let Ok((io, _)) = listener.accept().await {
            let (acceptor, manner, path) = (acceptor.clone(), manner.clone(), path.clone());
            tokio::spawn(async move {
                let Ok(mut io) = acceptor.accept(io).await else { return };
                let Some(head) = read_head(&mut io).await else { return };
                if head.contains("upgrade: ") || head.contains("Upgrade: ") {
                    return manner.answer(io).await;
                }
                let answer = if head.starts_with(&path) { DISCOVERY } else { NOT_FOUND };
                let _ = io.write_all(answer).await;
                let _ = io.shutdown().await;
            });
        }
    });
    (address, ca.pem)
}

/// Registers the server, and waits until it is available.
async fn register(node: &Node, name: &str, address: SocketAddr, ca: &str) {
    let admin = &node.cluster.admin;
    let service =
        json!({"metadata": {"name": name}, "spec": {"ports": [{"name": "https", "port": 443}]}});
    admin.create("/api/v1/namespaces/default/services", &service).await;
    let slice = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
        "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
        "ports": [{"name": "https", "port": address.port()}],
        "endpoints": [{"addresses": [address.ip()], "conditions": {"ready": true}}],
    });
    admin.create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &slice).await;
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    let api_service = json!({
        "metadata": {"name": format!("v1.{name}.example.com")},
        "spec": {
            "group": format!("{name}.example.com"), "version": "v1",
            "groupPriorityMinimum": 2000, "versionPriority": 200,
            "caBundle": kevel_codec::base64::encode(ca.as_bytes()).to_string(),
            "service": {"namespace": "default", "name": name},
        },
    });
    admin.create(services, &api_service).await;
    until(async || {
        let (_, service) = admin.get(&format!("{services}/v1.{name}.example.com")).await;
        service["status"]["conditions"][0]["status"] == "True"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_aggregated_servers_around_the_agreement_are_kept() {
    let Some(address) = reachable() else { return };
    let node = start(&["--enable-aggregator-routing"]).await;
    // A server that speaks before it is asked has no discovery document, and is not asked anything else.
    for (name, manner, expected) in manners().into_iter().filter(|(name, ..)| *name != "unasked") {
        let (address, ca) = aggregated_server(name, address, manner).await;
        register(&node, name, address, &ca).await;
        let target = format!("/apis/{name}.example.com/v1/namespaces/default/things/a/exec");
        let behind = expected.as_ref().map_or(0, Vec::len);
        let answer = upgraded(&node, &target, behind).await;
        // The aggregator's code for servers that it cannot talk to, as in the reference.
        assert_answer(&target, expected.as_deref(), 503, &answer);
    }
    node.cluster.stop().await;
}
