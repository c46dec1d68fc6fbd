//! Proxies that do not do what they should.

use kevel_streaming::channel::ERROR;
use kevel_test_support::{Ca, free_port, soon, until, write_pair};
use tokio::io::AsyncWriteExt as _;

use super::proxy::{Behaviour, Proxy, Way};
use super::{Behind, KUBELET, PODS, configure, message, start, start_behind};

/// Error of a log that cannot be read.
async fn told(behind: &Behind) -> String {
    let (code, text) = behind.log().await;
    let url = format!("Get \"https://{}/containerLogs/default/p/c\": ", behind.kubelet_address());
    let message = message(&text);
    let why = message.strip_prefix(&url).unwrap_or_else(|| panic!("{message}"));
    format!("{code} {why}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_does_not_connect_is_told_of() {
    let behind = start(Way::Uds).await;
    let proxy = behind.cluster.folder.path().join("proxy.sock").display().to_string();
    let address = behind.kubelet_address();
    let unread =
        format!("reading HTTP response from CONNECT to {address} via proxy {proxy} failed: ");
    for (said, expected) in [
        (
            "HTTP/1.1 503 Service Unavailable\r\n\r\nno agents",
            format!(
                "proxy error from {proxy} while dialing {address}, code 503: 503 Service Unavailable"
            ),
        ),
        ("", format!("{unread}unexpected EOF")),
        ("SSH-2.0-OpenSSH\r\n\r\n", format!("{unread}malformed HTTP response \"SSH-2.0-OpenSSH\"")),
        (
            "HTTP/1.1 200 OK\r\n\r\nhello",
            format!("unexpected 5 bytes of buffered data from CONNECT proxy \"{proxy}\""),
        ),
    ] {
        behind.proxy.behave(Behaviour::Say(said));
        assert_eq!(told(&behind).await, format!("500 {expected}"), "{said:?}");
    }
    assert_eq!(behind.failed("proxy", "uds").await, 4.0);
    // The proxy is dialled again with each request.
    behind.proxy.behave(Behaviour::Connect);
    assert_eq!(behind.log().await.0, 200);
    std::fs::remove_file(&proxy).unwrap();
    let mut command = behind.begin_exec("command=echo").await;
    soon(command.converse(b"", |_| false)).await.unwrap();
    let said = String::from_utf8_lossy(command.heard(ERROR)).into_owned();
    let expected = format!("dial unix {proxy}: connect: no such file or directory");
    assert!(said.contains(&expected), "{said}");
    assert_eq!(behind.failed("connect", "uds").await, 1.0);
    behind.cluster.stop().await;
}

impl Behind {
    /// Count of failed dials by CONNECT.
    async fn failed(&self, stage: &str, transport: &str) -> f64 {
        let labels =
            format!("protocol=\"http_connect\",stage=\"{stage}\",transport=\"{transport}\"");
        self.metric(&format!("apiserver_egress_dialer_dial_failure_count{{{labels}}}")).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_that_does_not_connect_is_told_of() {
    let behind = start(Way::Grpc).await;
    for (said, expected) in [
        ("failed to dial: no route", "failed to dial: no route"),
        ("", "tunnel closed"),
        ("HTTP, not gRPC", "tunnel closed"),
    ] {
        behind.proxy.behave(Behaviour::Say(said));
        assert_eq!(told(&behind).await, format!("500 {expected}"), "{said:?}");
    }
    until(async || behind.proxy.connections() == 0).await;
    behind.proxy.behave(Behaviour::Connect);
    assert_eq!(behind.log().await.0, 200);
    behind.cluster.stop().await;
}

/// Clients need not wait as long as the server would.
#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_proxy_blocks_no_other_request() {
    for way in [Way::Tls, Way::Uds, Way::Grpc] {
        let behind = start(way).await;
        behind.proxy.behave(Behaviour::Hang);
        let mut clients = Vec::new();
        for what in ["log", "log?follow=true"] {
            let mut client = behind.cluster.connect().await;
            let request = format!("GET {PODS}/p/{what} HTTP/1.1\r\nhost: k\r\n\r\n");
            client.write_all(request.as_bytes()).await.unwrap();
            clients.push(client);
        }
        let command = behind.begin_exec("command=cat").await;
        until(async || behind.proxy.asked(&behind.kubelet_address()) == 3).await;
        // Others are served.
        assert_eq!(behind.cluster.admin.get("/api/v1/nodes/n").await.0, 200);
        drop((clients, command));
        until(async || behind.proxy.connections() == 0).await;
        behind.cluster.stop().await;
    }
}

/// No request is sent to another server than the intended one, nor to one that does not trust this server.
#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_is_believed_by_its_certificate() {
    let verify = "tls: failed to verify certificate: x509: ";
    for (change, expected) in [
        (
            ("tlsServerName: proxy.test", "tlsServerName: other.test"),
            format!("500 {verify}certificate is valid for proxy.test, not other.test"),
        ),
        (
            (", tlsServerName: proxy.test", ""),
            format!(
                "500 {verify}cannot validate certificate for 127.0.0.1 because it doesn't contain any \
                 IP SANs"
            ),
        ),
        (
            ("proxies.crt", "others.crt"),
            format!("500 {verify}certificate signed by unknown authority"),
        ),
        (("egress.", "others."), "remote error: tls: ".to_owned()),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (proxy, connection) = Proxy::start(Way::Tls, folder.path()).await;
        let others = Ca::new("others");
        write_pair(folder.path(), "others", &others.client("apiserver"));
        if change.0 == "proxies.crt" {
            std::fs::write(folder.path().join("others.crt"), &others.pem).unwrap();
        }
        let connection = connection.replace(change.0, change.1);
        let behind = start_behind(folder, proxy, &connection, KUBELET).await;
        let told = told(&behind).await;
        assert!(
            told == expected || told.contains("via proxy") && told.contains(&expected),
            "{told}"
        );
        assert_eq!(behind.proxy.asked(&behind.kubelet_address()), 0);
        behind.cluster.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_is_not_there_is_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let connection = format!(
        "{{proxyProtocol: HTTPConnect, transport: {{tcp: {{url: 'http://127.0.0.1:{port}'}}}}}}"
    );
    let (proxy, _) = Proxy::start(Way::Tcp, folder.path()).await;
    let behind = start_behind(folder, proxy, &connection, KUBELET).await;
    let refused = format!("500 dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert_eq!(told(&behind).await, refused);
    assert_eq!(behind.failed("connect", "tcp").await, 1.0);
    behind.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_makes_no_sense_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let flag = configure(folder.path(), &[("cluster", "{proxyProtocol: GRPC}")]);
    let started = kevel::Server::builder().flag(flag).start().await;
    assert_eq!(
        started.err().unwrap().to_string(),
        "failed to validate egress selector configuration: service.connection.transport: Required \
         value: transport must be set for GRPC"
    );
    let flag = format!("--egress-selector-config-file={}/none", folder.path().display());
    let started = kevel::Server::builder().flag(flag).start().await;
    let expected =
        format!("egress-selector-config-file {}/none does not exist", folder.path().display());
    assert_eq!(started.err().unwrap().to_string(), expected);
}
