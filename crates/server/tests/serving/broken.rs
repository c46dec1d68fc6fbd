//! Tests of aborted responses and upgraded connections.

use http::header;
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::Start;
use crate::client::{get, http1, http2, text};
use crate::handler::Paths;
use kevel_test_support::soon;

#[tokio::test]
async fn an_aborted_request_has_no_answer() {
    let server = Start::default().serve(Paths::default());
    let (mut one, ended) = soon(http1(&server)).await;
    assert!(soon(one.send_request(get("/abort"))).await.is_err());
    assert!(soon(ended).await.unwrap().is_ok(), "the connection is closed");
    // Other streams of the connection continue.
    let (mut two, _task) = soon(http2(&server)).await;
    assert!(soon(two.send_request(get("/abort"))).await.is_err());
    assert_eq!(soon(text(two.send_request(get("/")).await)).await.0, 200);
}

#[tokio::test]
async fn a_part_is_not_taken_for_the_whole() {
    let server = Start::default().serve(Paths::default());
    let (mut one, _task) = soon(http1(&server)).await;
    let (mut two, _task) = soon(http2(&server)).await;
    // Data not written when the response is aborted is lost.
    let whole = async |asked: hyper::Result<http::Response<hyper::body::Incoming>>| {
        asked?.into_body().collect().await.map(|body| body.to_bytes())
    };
    assert!(soon(whole(one.send_request(get("/broken")).await)).await.is_err());
    assert!(soon(whole(two.send_request(get("/broken")).await)).await.is_err());
    assert_eq!(soon(text(two.send_request(get("/")).await)).await.0, 200);
}

#[tokio::test]
async fn shutdown_waits_for_upgraded_connections() {
    let paths = Paths::default();
    let server = Start::default().serve(paths.clone());
    let stream = soon(crate::client::connect(&server, crate::client::Tls::default())).await;
    let stream = TokioIo::new(stream.unwrap());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    let mut request = get("/upgrade");
    request.headers_mut().insert(header::CONNECTION, "upgrade".parse().unwrap());
    request.headers_mut().insert(header::UPGRADE, "echo".parse().unwrap());
    let response = soon(sender.send_request(request)).await.unwrap();
    assert_eq!(response.status().as_u16(), 101);
    let mut stream = TokioIo::new(soon(hyper::upgrade::on(response)).await.unwrap());
    let mut said = [0; 5];
    soon(stream.read_exact(&mut said)).await.unwrap();
    assert_eq!(&said, b"first");

    server.stop.signal();
    soon(server.served.stopped_listening.wait()).await;
    assert_eq!(server.served.connections(), 1);
    paths.go.signal();
    stream.write_all(b"!").await.unwrap();
    let mut said = String::new();
    soon(stream.read_to_string(&mut said)).await.unwrap();
    assert_eq!(said, "second!!");
    soon(server.served.stopped.wait()).await;
}
