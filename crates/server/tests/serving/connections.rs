//! Tests of requests, responses and connections.

use std::time::Duration;

use http_body_util::BodyExt as _;
use kevel_component::signals::Signals;
use kevel_server::health::{Check, Health};
use kevel_server::serving::Limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::Start;
use crate::client::{Tls, connect, get, http1, http2, post, text};
use crate::handler::Paths;
use kevel_test_support::soon;

#[tokio::test]
async fn both_versions_are_spoken() {
    let server = Start::default().serve(Paths::default());
    let (mut one, _task) = soon(http1(&server)).await;
    let (mut two, _task) = soon(http2(&server)).await;
    for length in [0, 10, 2 << 20] {
        let body = || vec![b'x'; length];
        let answer = soon(text(one.send_request(post("/", body())).await)).await;
        assert_eq!(answer, (200, format!("HTTP/1.1 nobody {length}")));
        let answer = soon(text(two.send_request(post("/", body())).await)).await;
        assert_eq!(answer, (200, format!("HTTP/2.0 nobody {length}")));
    }
    assert_eq!(server.served.connections(), 2);
}

#[tokio::test]
async fn a_stream_comes_piece_by_piece_and_ends() {
    let paths = Paths::default();
    let server = Start::default().serve(paths.clone());
    let (mut one, _task) = soon(http1(&server)).await;
    let (mut two, _task) = soon(http2(&server)).await;
    let mut bodies = vec![
        soon(one.send_request(get("/stream"))).await.unwrap().into_body(),
        soon(two.send_request(get("/stream"))).await.unwrap().into_body(),
    ];
    for body in &mut bodies {
        let piece = soon(body.frame()).await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(piece, "first");
    }
    paths.go.signal();
    for body in bodies {
        assert_eq!(soon(body.collect()).await.unwrap().to_bytes(), "second");
    }
}

#[tokio::test]
async fn what_a_client_no_longer_wants_is_dropped() {
    for path in ["/wait", "/stream"] {
        let paths = Paths::default();
        let server = Start::default().serve(paths.clone());
        let (mut sender, task) = soon(http1(&server)).await;
        let response = tokio::spawn(async move { sender.send_request(get(path)).await });
        soon(paths.arrived.wait()).await;
        task.abort();
        soon(paths.dropped.wait()).await;
        drop(response);

        // With HTTP/2 only the request is cancelled; the connection stays.
        let paths = Paths::default();
        let server = Start::default().serve(paths.clone());
        let (mut sender, _task) = soon(http2(&server)).await;
        let mut other = sender.clone();
        let response = tokio::spawn(async move { sender.send_request(get(path)).await });
        soon(paths.arrived.wait()).await;
        response.abort();
        drop(response.await);
        soon(paths.dropped.wait()).await;
        assert_eq!(soon(text(other.send_request(get("/")).await)).await.0, 200);
    }
}

#[tokio::test]
async fn a_handler_can_have_the_connection_closed() {
    let server = Start::default().serve(Paths::default());
    let (mut sender, ended) = soon(http1(&server)).await;
    assert_eq!(soon(text(sender.send_request(get("/close")).await)).await.1, "closing");
    soon(ended).await.unwrap().unwrap();
    let (mut sender, ended) = soon(http2(&server)).await;
    let response = soon(sender.send_request(get("/close"))).await.unwrap();
    assert!(!response.headers().contains_key("connection"));
    assert_eq!(soon(text(Ok(response))).await.1, "closing");
    // A GOAWAY without an error.
    soon(ended).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let limits = Limits { idle: Duration::from_millis(100), ..Limits::default() };
    let server = Start { limits, ..Start::default() }.serve(Paths::default());
    let (mut one, ended_one) = soon(http1(&server)).await;
    let (mut two, ended_two) = soon(http2(&server)).await;
    assert_eq!(soon(text(one.send_request(get("/")).await)).await.0, 200);
    assert_eq!(soon(text(two.send_request(get("/")).await)).await.0, 200);
    soon(ended_one).await.unwrap().unwrap();
    soon(ended_two).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_busy_connection_is_not_idle() {
    let paths = Paths::default();
    let limits = Limits {
        idle: Duration::from_millis(50),
        header_read: Duration::from_millis(200),
        ..Limits::default()
    };
    let server = Start { limits, ..Start::default() }.serve(paths.clone());
    let (mut one, _task) = soon(http1(&server)).await;
    let (mut two, _task) = soon(http2(&server)).await;
    let one = tokio::spawn(async move { text(one.send_request(get("/wait")).await).await });
    let two = tokio::spawn(async move { text(two.send_request(get("/wait")).await).await });
    soon(paths.arrived.wait()).await;
    // Idle connections are closed meanwhile, one after the other, which takes several idle times.
    for _ in 0..5 {
        let mut silent = soon(connect(&server, Tls::default())).await.unwrap();
        let _ = soon(silent.read(&mut [0; 1])).await;
    }
    paths.go.signal();
    assert_eq!(soon(one).await.unwrap(), (200, "done".to_owned()));
    assert_eq!(soon(two).await.unwrap(), (200, "done".to_owned()));
}

#[tokio::test]
async fn a_request_needs_a_host() {
    let server = Start::default().serve(Paths::default());
    let mut stream = soon(connect(&server, Tls::default())).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    let _ = soon(stream.read_to_string(&mut answer)).await;
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n400 Bad Request: missing required Host header"), "{answer}");
}

#[tokio::test]
async fn http1_header_names_are_in_canonical_case() {
    let server = Start::default().serve(Paths::default());
    let mut stream = soon(connect(&server, Tls::default())).await.unwrap();
    stream.write_all(b"GET /close HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    let _ = soon(stream.read_to_string(&mut answer)).await;
    let head = answer.split("\r\n\r\n").next().unwrap();
    let mut names: Vec<_> =
        head.lines().skip(1).map(|line| line.split(':').next().unwrap()).collect();
    names.sort_unstable();
    let expected = ["Connection", "Content-Length", "Date", "X-Kubernetes-Pf-Flowschema-Uid"];
    assert_eq!(names, expected, "{answer}");
    assert!(head.contains("-Uid: 0Aa"), "{answer}");
}

#[tokio::test]
async fn health_is_served() {
    let signals = Signals::default();
    let mut health = Health::new(Duration::ZERO);
    health.add(Check::ping());
    let server = Start::default().serve(health.install(&signals));
    let (mut sender, _task) = soon(http2(&server)).await;
    let answer = soon(text(sender.send_request(get("/readyz?verbose")).await)).await;
    assert_eq!(answer, (200, "[+]ping ok\n[+]shutdown ok\nreadyz check passed\n".to_owned()));
    signals.shutdown_initiated.signal();
    assert_eq!(soon(text(sender.send_request(get("/readyz")).await)).await.0, 500);
    assert_eq!(soon(text(sender.send_request(get("/nothing")).await)).await.0, 404);
}
