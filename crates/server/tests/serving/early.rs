//! Responses before the request's body is read.

use std::convert::Infallible;
use std::path::Path;
use std::pin::Pin;
use std::process::Command;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header;
use http_body::Frame;
use http_body_util::BodyExt as _;
use kevel_server::serving::Limits;
use kevel_test_support::{program, soon};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::client::{Tls, connect, get, http1, http2, post, text};
use crate::handler::Paths;
use crate::{Server, Start};

/// Concurrent requests.
const MANY: usize = 40;
/// Sizes below and above the number of bytes discarded before a response.
const SIZES: [usize; 4] = [1, 1 << 10, 100 << 10, 2 << 20];

/// curl stops reading when it is stopped from sending.
#[tokio::test(flavor = "multi_thread")]
async fn curl_gets_every_answer() {
    let Some(program) = program("curl") else { return };
    let server = Start::default().serve(Paths::default());
    for version in ["--http2", "--http1.1"] {
        for size in SIZES {
            let body = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(body.path(), vec![b'x'; size]).unwrap();
            let body = format!("@{}", body.path().display());
            let answers = curl(&program, &server, version, &body).await;
            let right = answers.lines().filter(|line| line.starts_with("403 exit 0")).count();
            assert_eq!(right, MANY, "{version} {size}: {answers}");
        }
    }
}

/// Output of `curl` for concurrent requests, on one connection if possible.
async fn curl(program: &Path, server: &Server, version: &str, body: &str) -> String {
    let mut curl = Command::new(program);
    curl.args(["-sSk", "--no-progress-meter", "--parallel", "--parallel-max", "40"]);
    for request in 0..MANY {
        if request > 0 {
            curl.arg("--next");
        }
        curl.args(["-sSk", version, "--max-time", "20", "-H", "Expect:"]);
        curl.args(["-w", "%{http_code} exit %{exitcode} %{errormsg}\n", "-o", "/dev/null"]);
        curl.args(["--data-binary", body]);
        curl.arg(format!("https://{}/refuse", server.served.address));
    }
    let output = tokio::task::spawn_blocking(move || curl.output().unwrap()).await.unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn streams_of_one_connection_get_every_answer() {
    let server = Start::default().serve(Paths::default());
    let (sender, _task) = soon(http2(&server)).await;
    for (path, code) in [("/refuse", 403), ("/", 200)] {
        for size in [2 << 20, 4 << 20] {
            let mut asked = JoinSet::new();
            for _ in 0..MANY {
                let mut sender = sender.clone();
                let request = post(path, vec![b'x'; size]);
                asked.spawn(async move { text(sender.send_request(request).await).await.0 });
            }
            let answers = soon(asked.join_all()).await;
            assert_eq!(answers, [code; MANY], "{path} {size}");
        }
    }
}

/// A client that sends its whole body first can do so.
#[tokio::test]
async fn unread_request_bodies_are_discarded() {
    let server = Start::default().serve(Paths::default());
    let (mut sender, _task) = soon(http2(&server)).await;
    for pieces in [1, 4, 40, 180] {
        let (say, body) = mpsc::channel(1);
        let body = Endless(body).boxed();
        let request = http::Request::post("https://localhost/refuse").body(body).unwrap();
        let answer = soon(text(sender.send_request(request).await)).await;
        assert_eq!(answer, (403, "no".to_owned()));
        for piece in 0..pieces {
            let sent = soon(say.send(Bytes::from(vec![b'x'; 16 << 10]))).await;
            assert!(sent.is_ok(), "{piece} of {pieces}");
        }
        // The last piece was taken, and the server waits for more.
        soon(async {
            while say.capacity() == 0 {
                tokio::task::yield_now().await
            }
        })
        .await;
        assert!(!say.is_closed(), "{pieces}");
    }
}

#[tokio::test]
async fn a_connection_is_used_again_after_a_small_body() {
    let server = Start::default().serve(Paths::default());
    let (mut sender, _task) = soon(http1(&server)).await;
    for size in [1, 1 << 10, 200 << 10] {
        let answer = soon(sender.send_request(post("/refuse", vec![b'x'; size]))).await.unwrap();
        assert_eq!(answer.headers().get(header::CONNECTION), None, "{size}");
        assert_eq!(soon(text(Ok(answer))).await, (403, "no".to_owned()));
        soon(sender.ready()).await.unwrap();
    }
    assert_eq!(soon(text(sender.send_request(get("/")).await)).await.0, 200);
}

/// The response closes the connection, and arrives whole although the client still sends.
#[tokio::test]
async fn a_connection_ends_in_peace_after_a_large_body() {
    let server = Start::default().serve(Paths::default());
    for (head, size) in [
        ("Content-Length: 8388608", 8 << 20),
        ("Transfer-Encoding: chunked\r\n\r\n800000", 8 << 20),
        ("Content-Length: 300000", 300_000),
    ] {
        let stream = soon(connect(&server, Tls::default())).await.unwrap();
        let (mut input, mut output) = tokio::io::split(stream);
        let head = format!("POST /refuse HTTP/1.1\r\nHost: localhost\r\n{head}\r\n");
        let head = if head.contains("chunked") { head } else { format!("{head}\r\n") };
        output.write_all(head.as_bytes()).await.unwrap();
        // The whole body is sent before a byte is read.
        soon(output.write_all(&vec![b'x'; size])).await.unwrap();
        let answer = soon(read(&mut input)).await;
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
        assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\nno"), "{answer}");
    }
}

#[tokio::test]
async fn who_asks_beforehand_is_told_without_sending() {
    let server = Start::default().serve(Paths::default());
    for (path, first, last) in [
        ("/refuse", "HTTP/1.1 403 Forbidden\r\n", "no"),
        ("/", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 nobody 3"),
    ] {
        let mut stream = soon(connect(&server, Tls::default())).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Expect: 100-continue\r\nContent-Length: 3\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut begin = vec![0; first.len()];
        soon(stream.read_exact(&mut begin)).await.unwrap();
        assert_eq!(String::from_utf8(begin).unwrap(), first);
        if first.contains("100") {
            stream.write_all(b"xyz").await.unwrap();
        }
        let answer = soon(read(&mut stream)).await;
        assert!(answer.ends_with(last), "{answer}");
    }
}

#[tokio::test]
async fn who_does_not_send_is_not_waited_for() {
    let limits = Limits { unread_body: Duration::from_millis(50), streams: 1, ..Limits::default() };
    let server = Start { limits, ..Start::default() }.serve(Paths::default());
    let mut stream = soon(connect(&server, Tls::default())).await.unwrap();
    let head = "POST /refuse HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx";
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = soon(read(&mut stream)).await;
    assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
    // The only stream of a connection is reset for the next request.
    let (mut sender, _task) = soon(http2(&server)).await;
    for _ in 0..3 {
        let (say, body) = mpsc::channel(1);
        let body = Endless(body).boxed();
        let request = http::Request::post("https://localhost/refuse").body(body).unwrap();
        let answer = soon(text(sender.send_request(request).await)).await;
        assert_eq!(answer, (403, "no".to_owned()));
        soon(say.closed()).await;
    }
}

/// A body that does not end by itself.
struct Endless(mpsc::Receiver<Bytes>);

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

async fn read(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}
