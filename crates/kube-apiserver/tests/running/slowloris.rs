//! Connections on which nothing is ever finished, to the end of the server's patience: that takes half a
//! minute, so it is tried where `KEVEL_SLOWLORIS` says with how many. (In every run: `hostile`, and the same
//! with little patience in `crates/server/tests/serving`.)

use std::time::Duration;

use kevel_test_support::skip;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::client::{Client, Version, connect};
use crate::{Server, amount};

/// The reference's patience for a request's head, and what a busy machine may add to it.
const PATIENCE: Duration = Duration::from_secs(32);
const NOISE: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread")]
async fn heads_that_never_end_are_given_up_in_time() {
    let count = amount("KEVEL_SLOWLORIS", 0);
    if count == 0 {
        return skip("KEVEL_SLOWLORIS, a number of connections");
    }
    let server = Server::start(&[]).await;
    let mut slow = JoinSet::new();
    for number in 0..count {
        let (port, tls) = (server.port, server.tls.clone());
        slow.spawn(async move {
            let started = kevel_clock::monotonic_now();
            match number % 3 {
                0 => half_a_handshake(port).await,
                1 => {
                    drip(
                        connect(port, &tls, Version::Http1).await.unwrap(),
                        "GET /livez HTTP/1.1\r\nX: ",
                    )
                    .await
                }
                _ => drip(connect(port, &tls, Version::Http1).await.unwrap(), "POST / HTT").await,
            }
            started.elapsed()
        });
    }
    // Others are served all the while.
    let mut client = Client::connect(server.port, &server.tls, Version::Http2).await.unwrap();
    let mut ended = Vec::new();
    while ended.len() < count {
        let asked = kevel_clock::monotonic_now();
        let namespaces = client.get("/api/v1/namespaces").await.unwrap();
        assert_eq!(namespaces.status(), 200);
        assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
        let one = tokio::time::timeout(Duration::from_millis(100), slow.join_next()).await;
        ended.extend(one.ok().flatten().map(Result::unwrap));
        assert!(ended.len() == count || !slow.is_empty());
    }
    let longest = ended.iter().max().unwrap();
    assert!(*longest < PATIENCE + NOISE, "{longest:?}");
}

/// First half of a TLS ClientHello.
async fn half_a_handshake(port: u16) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03").await.unwrap();
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

/// Sends a byte from time to time, until the server closes the connection.
async fn drip(mut stream: tokio_rustls::client::TlsStream<TcpStream>, begin: &str) {
    let _ = stream.write_all(begin.as_bytes()).await;
    let (mut reader, mut writer) = tokio::io::split(stream);
    let ends = async { while !matches!(reader.read(&mut [0; 64]).await, Ok(0) | Err(_)) {} };
    let drips = async {
        while writer.write_all(b"x").await.is_ok() && writer.flush().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    tokio::select! {
        () = ends => {}
        () = drips => {}
    }
}
