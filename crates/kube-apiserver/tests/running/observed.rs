//! Metrics, and the debug socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::Server;
use crate::client::{Client, Version, read};

async fn metrics(server: &Server) -> String {
    let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
    let body = read(client.get("/metrics").await.unwrap()).await.unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

#[tokio::test]
async fn metrics_are_hidden_and_left_out_as_flags_say() {
    let former = "apiserver_request_slo_duration_seconds_count";
    let server = Server::start(&["--authorization-mode=AlwaysAllow"]).await;
    let text = metrics(&server).await;
    assert!(!text.contains(former) && text.contains("go_goroutines "), "{text}");
    assert!(text.contains("disabled_metrics_total 0"), "{text}");
    drop(server);
    let server = Server::start(&[
        "--authorization-mode=AlwaysAllow",
        "--show-hidden-metrics-for-version=1.35",
        "--disabled-metrics=go_goroutines,apiserver_current_inflight_requests",
    ])
    .await;
    metrics(&server).await;
    let text = metrics(&server).await;
    assert!(text.contains(former) && text.contains("hidden_metrics_total 0"), "{text}");
    assert!(text.contains("disabled_metrics_total 2"), "{text}");
    for name in ["go_goroutines", "apiserver_current_inflight_requests"] {
        assert!(!text.contains(&format!("{name} ")), "{name}: {text}");
    }
}

/// Answer to a request on a Unix socket.
fn ask(socket: &Path, request: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    let message = format!("{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
    stream.write_all(message.as_bytes()).unwrap();
    stream.write_all(b"Content-Length: 1\r\n\r\n4").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn debug_socket_serves_profiles_and_flags() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("debug.sock");
    let _server = Server::start(&[&format!("--debug-socket-path={}", socket.display())]).await;
    for (request, status, text) in [
        ("GET /debug/pprof/goroutine?debug=1", "200", "goroutine profile"),
        ("GET /debug/flags", "200", "v<br>"),
        ("PUT /debug/flags/v", "200", "successfully set klog.logging.verbosity to 4"),
        ("GET /api/v1/namespaces", "404", ""),
    ] {
        let answer = ask(&socket, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {answer}");
        assert!(answer.contains(text), "{request}: {answer}");
    }
}
