//! `pods/log`.

use std::future::poll_fn;

use kevel_streaming::testing::client::websocket;
use kevel_streaming::websocket::{CloseCode, Received};
use kevel_test_support::{soon, until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{PODS, start, start_with};

#[tokio::test(flavor = "multi_thread")]
async fn options_are_passed_on_to_the_kubelet() {
    let node = start(&[]).await;
    node.create_pod("two", &["a", "b"]).await;
    let (admin, log) = (&node.cluster.admin, |query: &str| format!("{PODS}/p/log?{query}"));
    for (query, expected) in [
        ("", "/containerLogs/default/p/c"),
        ("container=c", "/containerLogs/default/p/c"),
        (
            "previous=1&timestamps=true&tailLines=0&limitBytes=7&sinceSeconds=3&pretty=1",
            "/containerLogs/default/p/c?limitBytes=7&previous=true&sinceSeconds=3&tailLines=0&timestamps=true",
        ),
        (
            "sinceTime=2026-01-02T03:04:05%2B01:00&follow=false&insecureSkipTLSVerifyBackend=true",
            "/containerLogs/default/p/c?sinceTime=2026-01-02T02%3A04%3A05Z",
        ),
    ] {
        let answer = soon(admin.raw("GET", &log(query), &[], "")).await;
        assert_eq!(answer.headers()["content-type"], "text/plain", "{query}");
        assert_eq!((answer.status().as_u16(), &**answer.body()), (200, &*format!("{expected}\n")));
    }
    for (path, expected) in [
        (
            log("tailLines=-1&limitBytes=0"),
            "422 PodLogOptions \"p\" is invalid: [tailLines: Invalid value: -1: must be greater \
             than or equal to 0, limitBytes: Invalid value: 0: must be greater than 0]",
        ),
        (log("tailLines=x"), "400 strconv.ParseInt: parsing \"x\": invalid syntax"),
        (log("container=x"), "400 container x is not valid for pod p"),
        (
            format!("{PODS}/two/log"),
            "400 a container name must be specified for pod two, choose one of: [a b]",
        ),
        (format!("{PODS}/none/log"), "404 pods \"none\" not found"),
        (
            format!("{PODS}/missing/log"),
            "404 the server could not find the requested resource ( pods/log missing)",
        ),
        (
            format!("{PODS}/moved/log"),
            "500 Get \"https://169.254.169.254/latest\": redirects forbidden",
        ),
    ] {
        assert_eq!(node.cluster.refused("admin", &format!("GET {path}"), "").await, expected);
    }
    let (code, _) = node.cluster.send("admin", &format!("POST {PODS}/p/log"), "").await;
    assert_eq!(code, 405);
    node.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_followed_until_the_client_goes() {
    let node = start(&[]).await;
    let mut client = node.connect().await;
    let request = format!("GET {PODS}/p/log?follow=true HTTP/1.1\r\nhost: k\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    while !heard.ends_with(b"follow=true\n\r\n") {
        assert!(soon(client.read_buf(&mut heard)).await.unwrap() > 0);
    }
    assert_eq!(node.kubelet.connections(), 1);
    drop(client);
    until(async || node.kubelet.connections() == 0).await;
    node.cluster.stop().await;
}

/// A client that does not read holds a few pieces of an endless log, and delays no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_holds_the_kubelet_back() {
    let node = start(&[]).await;
    node.create_pod("loud", &["flood"]).await;
    let mut clients = Vec::new();
    for _ in 0..8 {
        let mut client = node.connect().await;
        let request = format!("GET {PODS}/loud/log HTTP/1.1\r\nhost: k\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let mut heard = [0; 64];
        soon(client.read_exact(&mut heard)).await.unwrap();
        clients.push(client);
    }
    let (code, _) = node.cluster.admin.get(&format!("{PODS}/p")).await;
    assert_eq!(code, 200);
    assert_eq!(node.kubelet.connections(), 8);
    drop(clients);
    until(async || node.kubelet.connections() == 0).await;
    node.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_breaks_off_is_not_taken_for_whole() {
    let node = start(&[]).await;
    node.create_pod("broken", &["broken"]).await;
    let mut client = node.connect().await;
    let request = format!("GET {PODS}/broken/log HTTP/1.1\r\nhost: k\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    let _ = soon(client.read_to_end(&mut heard)).await;
    let heard = String::from_utf8(heard).unwrap();
    assert!(heard.contains("/containerLogs/") && !heard.ends_with("0\r\n\r\n"), "{heard}");
    node.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_without_a_node_has_no_log() {
    let node = start(&[]).await;
    let pod = serde_json::json!({
        "metadata": {"name": "waits"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    node.cluster.admin.create(PODS, &pod).await;
    let (code, body) = node.cluster.send("admin", &format!("GET {PODS}/waits/log"), "").await;
    assert_eq!((code, &*body), (204, ""));
    node.cluster.stop().await;
}

/// A kubelet that cannot prove to be the one is not asked, unless the client says that this does not matter.
#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_proves_who_it_is() {
    let node = start_with("elsewhere.example", &[]).await;
    let url =
        format!("https://127.0.0.1:{}/containerLogs/default/p/c", node.kubelet.address.port());
    let told = node.cluster.refused("admin", &format!("GET {PODS}/p/log"), "").await;
    assert_eq!(
        told,
        format!(
            "500 Get \"{url}\": tls: failed to verify certificate: x509: cannot validate \
             certificate for 127.0.0.1 because it doesn't contain any IP SANs"
        )
    );
    assert_eq!(node.kubelet.requests().len(), 0);
    let insecure = format!("GET {PODS}/p/log?insecureSkipTLSVerifyBackend=true");
    let (code, log) = node.cluster.send("admin", &insecure, "").await;
    assert_eq!((code, &*log), (200, "/containerLogs/default/p/c\n"));
    // One that is not there.
    let gone = serde_json::json!({
        "metadata": {"name": "gone"},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kevel_test_support::free_port()}},
        },
    });
    node.cluster.admin.create("/api/v1/nodes", &gone).await;
    for (pod, on, expected) in [
        ("a", "gone", "connect: connection refused"),
        ("b", "nowhere", "404 pods \"nowhere\" not found"),
    ] {
        let pod = serde_json::json!({
            "metadata": {"name": pod},
            "spec": {"nodeName": on, "containers": [{"name": "c", "image": "i"}]},
        });
        node.cluster.admin.create(PODS, &pod).await;
        let path = format!("GET {PODS}/{}/log", pod["metadata"]["name"].as_str().unwrap());
        let told = node.cluster.refused("admin", &path, "").await;
        assert!(told.ends_with(expected), "{told}");
    }
    node.cluster.stop().await;
}

/// Certificates that are replaced on the disk are the ones that count from then on.
#[tokio::test(flavor = "multi_thread")]
async fn authorities_are_read_again() {
    let node = start(&[]).await;
    let log = format!("GET {PODS}/p/log");
    assert_eq!(node.cluster.send("admin", &log, "").await.0, 200);
    let other = kevel_test_support::Ca::new("others");
    let file = node.cluster.folder.path().join("kubelets.crt");
    std::fs::write(&file, &other.pem).unwrap();
    let unknown = |(code, text): &(u16, String)| *code == 500 && text.contains("unknown authority");
    node.cluster.until(&log, unknown).await;
    std::fs::write(&file, &node.ca.pem).unwrap();
    node.cluster.until(&log, |(code, _)| *code == 200).await;
    node.cluster.stop().await;
}

/// Pages in a browser get a log in messages, after an empty one.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_comes_by_a_websocket() {
    let node = start(&[]).await;
    let target: http::Uri = format!("https://127.0.0.1{PODS}/p/log").parse().unwrap();
    let log = "/containerLogs/default/p/c\n";
    let encoded = kevel_codec::base64::encode(log.as_bytes()).to_string();
    for (protocol, expected) in
        [("", log), ("binary.k8s.io", log), ("base64.binary.k8s.io", &encoded)]
    {
        let io = node.connect().await;
        let (chosen, mut socket) = soon(websocket(io, target.clone(), protocol)).await.unwrap();
        assert_eq!(chosen, protocol);
        let mut messages: Vec<Vec<u8>> = vec![Vec::new()];
        let closed = loop {
            let receive = poll_fn(|context| {
                socket.poll_receive(context, 4096, |_, bytes, last| {
                    messages.last_mut().unwrap().extend_from_slice(bytes);
                    if last {
                        messages.push(Vec::new());
                    }
                })
            });
            match soon(receive).await.unwrap().unwrap() {
                Received::Some => {}
                received => break received,
            }
        };
        assert_eq!(closed, Received::Closed(CloseCode::NORMAL), "{protocol}");
        assert_eq!(messages.len(), 3, "{protocol}");
        assert_eq!(messages[0], b"", "{protocol}");
        assert_eq!(messages[1], expected.as_bytes(), "{protocol}");
    }
    let told = soon(websocket(node.connect().await, target, "other.k8s.io")).await.unwrap_err();
    assert!(told.to_string().starts_with("403"), "{told}");
    node.cluster.stop().await;
}
