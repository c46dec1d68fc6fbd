//! `pods/proxy`, `services/proxy` and `nodes/proxy`.

use std::net::SocketAddr;

use kevel_test_support::soon;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Node, PODS, backend, hostile, reachable, start};

impl Node {
    /// A pod `web` at an address, and a service `web` of it.
    async fn serve_pod(&self, address: SocketAddr) {
        let port = address.port();
        let pod = json!({
            "metadata": {"name": "web"},
            "spec": {"nodeName": "n", "containers": [
                {"name": "c", "image": "i", "ports": [{"containerPort": port}]},
            ]},
        });
        self.cluster.admin.create(PODS, &pod).await;
        self.set_address("web", &address.ip().to_string()).await;
        let ports = json!([{"name": "http", "port": 80, "targetPort": port}]);
        let service = json!({"metadata": {"name": "web"}, "spec": {"ports": ports}});
        self.cluster.admin.create("/api/v1/namespaces/default/services", &service).await;
        let endpoints = json!({
            "metadata": {"name": "web"},
            "subsets": [{
                "addresses": [{
                    "ip": address.ip(),
                    "targetRef": {"kind": "Pod", "namespace": "default", "name": "web"},
                }],
                "ports": [{"name": "http", "port": port}],
            }],
        });
        self.cluster.admin.create("/api/v1/namespaces/default/endpoints", &endpoints).await;
    }

    /// Says where a pod is.
    async fn set_address(&self, pod: &str, ip: &str) {
        let status = json!({"status": {"podIP": ip, "podIPs": [{"ip": ip}]}}).to_string();
        self.cluster.ok("admin", &format!("PATCH {PODS}/{pod}/status"), &status).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_passed_on_with_every_method() {
    let Some(address) = reachable() else { return };
    let node = start(&[]).await;
    let address = backend::start(address).await;
    node.serve_pod(address).await;
    let port = address.port();
    let services = "/api/v1/namespaces/default/services";
    let admin = &node.cluster.admin;
    for (method, path, uri, body) in [
        ("GET", format!("{PODS}/web/proxy/a/b?c=d&c=%2F"), "/a/b?c=d&c=%2F", ""),
        ("POST", format!("{PODS}/web:{port}/proxy/"), "/", "hello"),
        ("PUT", format!("{PODS}/http:web:{port}/proxy/a%2Fb/"), "/a/b/", "hello"),
        ("PATCH", format!("{services}/web:http/proxy/x%20y"), "/x%20y", "{}"),
        ("DELETE", format!("{services}/web:80/proxy/x"), "/x", ""),
        ("GET", format!("{PODS}/web/proxy/../../../etc"), "/etc", ""),
        ("GET", format!("{PODS}/web/proxy/%2e%2e/%2E%2E/etc/"), "/etc/", ""),
    ] {
        let answer = soon(admin.raw(method, &path, &[("x-mine", "1")], body)).await;
        assert_eq!(answer.status().as_u16(), 203, "{path}: {}", answer.body());
        let told: Value = serde_json::from_str(answer.body()).unwrap();
        assert_eq!((&told["method"], &told["uri"]), (&json!(method), &json!(uri)), "{path}");
        assert_eq!(told["body"], body, "{path}");
        let headers = told["headers"].to_string();
        assert!(
            headers.contains("\"x-mine: 1\"") && headers.contains("x-forwarded-for: 127.0.0.1")
        );
        let clean = path.split('?').next().unwrap();
        if !clean.contains('%') && !clean.contains("..") {
            assert!(headers.contains(&format!("x-forwarded-uri: {clean}")), "{headers}");
        }
    }
    let answer = admin.raw("GET", &format!("{PODS}/web/proxy?x=1"), &[], "").await;
    assert_eq!(answer.status().as_u16(), 301);
    assert_eq!(answer.headers()["location"], format!("{PODS}/web/proxy/?x=1"));
    node.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_lead_through_the_proxy() {
    let Some(address) = reachable() else { return };
    let node = start(&[]).await;
    node.serve_pod(backend::start(address).await).await;
    let admin = &node.cluster.admin;
    let page = admin.raw("GET", &format!("{PODS}/web/proxy/page"), &[], "").await;
    let expected = backend::PAGE.replace("\"/x\"", &format!("\"{PODS}/web/proxy/x\""));
    assert_eq!(page.body(), &expected);
    assert!(!page.headers().contains_key("access-control-allow-origin"));
    let moved = admin.raw("GET", &format!("{PODS}/web/proxy/moved"), &[], "").await;
    assert_eq!(moved.headers()["location"], format!("{PODS}/web/proxy/to/"));
    // Redirects are for the client to follow.
    let away = admin.raw("GET", &format!("{PODS}/web/proxy/away"), &[], "").await;
    assert_eq!(away.status().as_u16(), 302);
    assert_eq!(away.headers()["location"], "https://169.254.169.254/latest");
    node.cluster.stop().await;
}

/// Trailers of a server are passed on, except hop-by-hop ones.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_at_the_end_is_passed_on() {
    let Some(address) = reachable() else { return };
    let node = start(&[]).await;
    let said = b"HTTP/1.1 200 OK\r\ntrailer: x-sum, access-control-allow-origin\r\n\
                 transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 7\r\n\
                 access-control-allow-origin: *\r\n\r\n";
    let (at, _) = hostile::says(address, said).await;
    hostile::create_web(&node, address).await;
    let mut client = node.connect().await;
    let request = format!(
        "GET {PODS}/web:{}/proxy/x HTTP/1.1\r\nhost: k\r\nte: trailers\r\nconnection: close\r\n\r\n",
        at.port()
    );
    client.write_all(request.as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    let _ = soon(client.read_to_end(&mut heard)).await;
    let heard = String::from_utf8(heard).unwrap().to_ascii_lowercase();
    assert!(heard.contains("trailer: x-sum"), "{heard}");
    assert!(heard.ends_with("5\r\nhello\r\n0\r\nx-sum: 7\r\n\r\n"), "{heard}");
    node.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_go_on_in_another_protocol() {
    let Some(address) = reachable() else { return };
    let node = start(&[]).await;
    node.serve_pod(backend::start(address).await).await;
    let mut talk = node.connect().await;
    let request = format!(
        "GET {PODS}/web/proxy/talk HTTP/1.1\r\nhost: k\r\nconnection: Upgrade\r\nupgrade: next\r\n\r\n"
    );
    talk.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(soon(talk.read_u8()).await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101 ") && head.contains("upgrade: next"), "{head}");
    for byte in *b"abc" {
        talk.write_u8(byte).await.unwrap();
        talk.flush().await.unwrap();
        assert_eq!(soon(talk.read_u8()).await.unwrap(), byte + 1);
    }
    drop(talk);
    node.cluster.stop().await;
}

/// Addresses that only the server can reach are not proxied to.
#[tokio::test(flavor = "multi_thread")]
async fn loopback_addresses_are_not_proxied() {
    let node = start(&[]).await;
    for ip in ["127.0.0.1", "::1", "169.254.169.254", "::ffff:127.0.0.1", "0.0.0.0"] {
        // Not all are let into a pod's status.
        let status = json!({"status": {"podIP": ip, "podIPs": [{"ip": ip}]}}).to_string();
        node.cluster.send("admin", &format!("PATCH {PODS}/p/status"), &status).await;
        let told = node.cluster.refused("admin", &format!("GET {PODS}/p:443/proxy/"), "").await;
        assert_eq!(told, "400 address not allowed", "{ip}");
    }
    let told = node.cluster.refused("admin", "GET /api/v1/nodes/n/proxy/", "").await;
    assert_eq!(told, "400 address not allowed");
    for name in ["p:80@example.com", "p:x", "ftp:p:80", "a:b:c:d"] {
        let path = format!("GET {PODS}/{name}/proxy/");
        let told = node.cluster.refused("admin", &path, "").await;
        assert_eq!(told, format!("400 invalid pod request \"{name}\""));
    }
    for (path, expected) in [
        ("pods/none/proxy/", "404 pods \"none\" not found"),
        ("services/none/proxy/", "404 services \"none\" not found"),
        ("services/none:80/proxy/", "404 services \"none\" not found"),
        ("services/kubernetes:1/proxy/", "503 no service port 1 found for service \"kubernetes\""),
        // The endpoints of the server itself are no pods.
        (
            "services/https:kubernetes:443/proxy/",
            "503 no endpoints available for service \"https:kubernetes:443\"",
        ),
    ] {
        let path = format!("GET /api/v1/namespaces/default/{path}");
        let found = |(code, _): &(u16, String)| expected.starts_with(&code.to_string());
        let (code, text) = node.cluster.until_sent("admin", &path, "", found).await;
        let told: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(format!("{code} {}", told["message"].as_str().unwrap()), expected, "{path}");
    }
    node.cluster.stop().await;
}

/// A node's kubelet is asked as the server, over TLS; its other ports are not.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_reached_at_its_kubelet_and_other_ports() {
    let Some(address) = reachable() else { return };
    let node = super::start_with(&address.to_string(), &[]).await;
    node.create_node("real", &address.to_string()).await;
    let path = "/api/v1/nodes/real/proxy/containerLogs/a/b/c?x=y";
    let (code, log) = node.cluster.send("admin", &format!("GET {path}"), "").await;
    assert_eq!((code, &*log), (200, "/containerLogs/a/b/c?x=y\n"));
    let port = node.kubelet.address.port();
    let path = format!("GET /api/v1/nodes/real:{port}/proxy/containerLogs/a/b/c");
    assert_eq!(node.cluster.send("admin", &path, "").await.0, 200);
    let other = backend::start(address).await.port();
    let (code, told) =
        node.cluster.send("admin", &format!("GET /api/v1/nodes/real:{other}/proxy/q"), "").await;
    assert_eq!(code, 203, "{told}");
    node.cluster.stop().await;
}
