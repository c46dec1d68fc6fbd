//! Tests with malicious or broken clients.

use std::sync::atomic::Ordering;
use std::time::Duration;

use kevel_server::serving::Limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::Start;
use crate::client::{Tls, connect, get, http1, http2, text};
use crate::handler::Paths;
use kevel_test_support::soon;

fn hurried() -> Start {
    let limits = Limits { header_read: Duration::from_millis(100), ..Limits::default() };
    Start { limits, ..Start::default() }
}

#[tokio::test]
async fn plain_http_is_told_where_it_is() {
    let server = Start::default().serve(Paths::default());
    for request in ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", "POST /api HTTP/1.1\r\n\r\n"] {
        let mut stream = TcpStream::connect(server.served.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        soon(stream.read_to_string(&mut answer)).await.unwrap();
        assert_eq!(
            answer,
            "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
        );
    }
}

#[tokio::test]
async fn missing_or_invalid_handshake_closes_the_connection() {
    let server = hurried().serve(Paths::default());
    for begin in [&b""[..], b"\x16\x03\x01\x02\x00\x01\x00", b"\x00\x01\x02\x03\x04\x05", b"SSH-2"]
    {
        let mut stream = TcpStream::connect(server.served.address).await.unwrap();
        stream.write_all(begin).await.unwrap();
        let mut answer = Vec::new();
        let _ = soon(stream.read_to_end(&mut answer)).await;
        assert!(answer.len() < 16, "at most an alert: {answer:?}");
    }
    assert_eq!(server.served.handshake_errors.count(), 4);
}

#[tokio::test]
async fn a_head_that_comes_too_slowly_is_not_waited_for() {
    let server = hurried().serve(Paths::default());
    for begin in ["", "GET / HTT", "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n"] {
        let mut stream = soon(connect(&server, Tls::default())).await.unwrap();
        stream.write_all(begin.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = soon(stream.read_to_end(&mut answer)).await;
        assert_eq!(answer, b"", "{begin:?}");
    }
    // Sending byte by byte does not extend the time.
    let mut stream = soon(connect(&server, Tls::default())).await.unwrap();
    let dripping = async {
        while stream.write_all(b"x").await.is_ok() && stream.flush().await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    soon(dripping).await;
}

#[tokio::test]
async fn headers_have_a_limit() {
    let server = Start::default().serve(Paths::default());
    let with_header = |length: usize| {
        let mut request = get("/");
        request.headers_mut().insert("a", "x".repeat(length).parse().unwrap());
        request
    };
    for (length, status) in [(900 << 10, 200), (1100 << 10, 431)] {
        let (mut sender, _task) = soon(http1(&server)).await;
        assert_eq!(soon(text(sender.send_request(with_header(length)).await)).await.0, status);
    }
    let (mut sender, _task) = soon(http2(&server)).await;
    assert_eq!(soon(text(sender.send_request(with_header(900 << 10)).await)).await.0, 200);
    // The client knows the limit, and may not even send the request.
    if let Ok(response) = soon(sender.send_request(with_header(1100 << 10))).await {
        assert_eq!(response.status().as_u16(), 431);
    }
}

#[tokio::test]
async fn many_headers_are_no_problem() {
    let server = Start::default().serve(Paths::default());
    let mut request = get("/");
    for number in 0..500 {
        let name = http::HeaderName::from_bytes(format!("x-remote-extra-{number}").as_bytes());
        request.headers_mut().insert(name.unwrap(), "y".parse().unwrap());
    }
    let (mut sender, _task) = soon(http1(&server)).await;
    assert_eq!(soon(text(sender.send_request(request).await)).await.0, 200);
}

#[tokio::test]
async fn rapid_resets_cost_no_more_than_the_streams_allowed() {
    let paths = Paths::default();
    let server = Start::default().serve(paths.clone());
    let (sender, _task) = soon(http2(&server)).await;
    for _ in 0..100 {
        // Each task sends a request and cancels it at once.
        let waves: Vec<_> = (0..100)
            .map(|_| {
                let mut sender = sender.clone();
                tokio::spawn(async move {
                    let asked = sender.send_request(get("/wait"));
                    let _ = tokio::time::timeout(Duration::from_micros(1), asked).await;
                })
            })
            .collect();
        for wave in waves {
            soon(wave).await.unwrap();
        }
        if sender.is_closed() {
            break;
        }
    }
    assert!(paths.most.load(Ordering::SeqCst) <= 100);
    let (mut other, _task) = soon(http2(&server)).await;
    assert_eq!(soon(text(other.send_request(get("/")).await)).await.0, 200);
}
