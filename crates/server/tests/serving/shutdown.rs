//! Tests of shutdown.

use std::time::Duration;

use http_body_util::BodyExt as _;
use kevel_test_support::{soon, until};
use tokio::net::TcpStream;

use crate::Start;
use crate::client::{get, http1, http2, text};
use crate::handler::Paths;

#[tokio::test]
async fn requests_under_way_are_answered_and_new_connections_refused() {
    let paths = Paths::default();
    let server = Start::default().serve(paths.clone());
    let (mut one, ended_one) = soon(http1(&server)).await;
    let (mut two, ended_two) = soon(http2(&server)).await;
    let (mut idle, ended_idle) = soon(http2(&server)).await;
    assert_eq!(soon(text(idle.send_request(get("/")).await)).await.0, 200);
    let mut late = two.clone();
    let one = tokio::spawn(async move { text(one.send_request(get("/wait")).await).await });
    let two = tokio::spawn(async move { text(two.send_request(get("/wait")).await).await });
    let most = || paths.most.load(std::sync::atomic::Ordering::SeqCst);
    until(async || most() >= 2).await;

    server.stop.signal();
    soon(server.served.stopped_listening.wait()).await;
    TcpStream::connect(server.served.address).await.unwrap_err();
    soon(ended_idle).await.unwrap().unwrap();
    // Requests that cross the GOAWAY are answered; then the client stops using the connection.
    let refused = async { while late.send_request(get("/")).await.is_ok() {} };
    soon(refused).await;
    assert!(!server.served.stopped.is_signaled());

    paths.go.signal();
    assert_eq!(soon(one).await.unwrap(), (200, "done".to_owned()));
    assert_eq!(soon(two).await.unwrap(), (200, "done".to_owned()));
    soon(ended_one).await.unwrap().unwrap();
    soon(ended_two).await.unwrap().unwrap();
    soon(server.served.stopped.wait()).await;
    assert_eq!(server.served.connections(), 0);
}

#[tokio::test]
async fn a_stream_under_way_ends_cleanly() {
    let paths = Paths::default();
    let server = Start::default().serve(paths.clone());
    let (mut one, _task) = soon(http1(&server)).await;
    let (mut two, _task) = soon(http2(&server)).await;
    let bodies = [
        soon(one.send_request(get("/stream"))).await.unwrap().into_body(),
        soon(two.send_request(get("/stream"))).await.unwrap().into_body(),
    ];
    server.stop.signal();
    soon(server.served.stopped_listening.wait()).await;
    paths.go.signal();
    for body in bodies {
        assert_eq!(soon(body.collect()).await.unwrap().to_bytes(), "firstsecond");
    }
    soon(server.served.stopped.wait()).await;
}

#[tokio::test]
async fn what_does_not_end_is_cut_off_after_its_time() {
    let paths = Paths::default();
    let shutdown_timeout = Duration::from_millis(50);
    let server = Start { shutdown_timeout, ..Start::default() }.serve(paths.clone());
    let (mut sender, _task) = soon(http2(&server)).await;
    let request = tokio::spawn(async move { sender.send_request(get("/wait")).await });
    soon(paths.arrived.wait()).await;
    server.stop.signal();
    soon(server.served.stopped.wait()).await;
    soon(paths.dropped.wait()).await;
    soon(request).await.unwrap().unwrap_err();
}
