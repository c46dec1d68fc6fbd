//! Tests of SPDY streams over real sockets.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Random, sockets, soon, tasks, unhex, until};
use http::{HeaderMap, HeaderValue};
use kevel_streaming::spdy::{
    self, CreateError, Ending, Error, MAX_OUT, MAX_REPLIES, MAX_STREAMS, ResetStatus, WINDOW,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

fn headers(values: &[&'static str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append("streamtype", HeaderValue::from_static(value));
    }
    headers
}

#[tokio::test]
async fn streams_go_both_ways_and_end_each_by_itself() {
    let (near, far) = sockets().await;
    let (client, client_driver) = spdy::client(near);
    let (server, server_driver) = spdy::server(far);
    let drivers = (tokio::spawn(client_driver), tokio::spawn(server_driver));
    let mut asked = client.create_stream(&headers(&["stdin"])).unwrap();
    let incoming = soon("a stream", server.accept()).await.unwrap();
    assert_eq!(incoming.headers(), &headers(&["stdin"]));
    let mut answering = incoming.accept();
    soon("a reply", asked.opened()).await.unwrap();

    asked.write_all(b"question").await.unwrap();
    asked.shutdown().await.unwrap();
    assert!(asked.write_all(b"more").await.is_err(), "it has said that there is no more");
    let mut heard = String::new();
    soon("the question", answering.read_to_string(&mut heard)).await.unwrap();
    assert_eq!((heard.as_str(), answering.ending()), ("question", Some(Ending::Finished)));

    answering.write_all(b"answer").await.unwrap();
    answering.shutdown().await.unwrap();
    heard.clear();
    soon("the answer", asked.read_to_string(&mut heard)).await.unwrap();
    assert_eq!(heard, "answer");

    client.close();
    soon("the client's end", drivers.0).await.unwrap().unwrap();
    soon("the server's end", drivers.1).await.unwrap().unwrap();
    assert!(server.accept().await.is_none());
    assert_eq!(client.create_stream(&headers(&[])).unwrap_err(), CreateError::Closed);
}

#[tokio::test]
async fn a_stream_that_is_dropped_or_refused_is_reset() {
    let (near, far) = sockets().await;
    let (client, client_driver) = spdy::client(near);
    let (server, server_driver) = spdy::server(far);
    tokio::spawn(client_driver);
    tokio::spawn(server_driver);

    let refused = client.create_stream(&headers(&["a"])).unwrap();
    soon("a stream", server.accept()).await.unwrap().refuse();
    assert_eq!(soon("a refusal", refused.opened()).await, Err(CreateError::Reset));

    let mut kept = client.create_stream(&headers(&["b"])).unwrap();
    let mut dropped = soon("a stream", server.accept()).await.unwrap().accept();
    dropped.write_all(b"last").await.unwrap();
    drop(dropped);
    let mut heard = String::new();
    soon("its end", kept.read_to_string(&mut heard)).await.unwrap();
    // Data received before the reset count.
    assert_eq!((heard.as_str(), kept.ending()), ("last", Some(Ending::Reset)));
    assert!(kept.write_all(b"x").await.is_err());
}

/// A reader that does not read holds a window, and TCP holds the rest.
#[tokio::test]
async fn a_stalled_reader_holds_no_more_than_a_window() {
    let (near, far) = sockets().await;
    let (client, client_driver) = spdy::client(near);
    let (server, server_driver) = spdy::server(far);
    tokio::spawn(client_driver);
    tokio::spawn(server_driver);
    let mut stalled = client.create_stream(&headers(&["a"])).unwrap();
    let sender = soon("a stream", server.accept()).await.unwrap().accept();
    soon("a reply", stalled.opened()).await.unwrap();
    const TOTAL: usize = 32 << 20;
    let sending = tokio::spawn(async move {
        (&sender).write_all(&vec![7; TOTAL]).await.unwrap();
        sender.finish();
        sender
    });
    until("a full window", || client.unread() >= WINDOW).await;
    // As long as the reader does not read, the sender stays blocked.
    for _ in 0..50 {
        tokio::task::yield_now().await;
        assert!(client.unread() <= WINDOW + (32 << 10), "{}", client.unread());
        assert!(server.unsent() <= MAX_OUT + (33 << 10), "{}", server.unsent());
    }
    assert!(!sending.is_finished());
    let mut all = Vec::new();
    soon("all of it", stalled.read_to_end(&mut all)).await.unwrap();
    assert!(all.len() == TOTAL && all.iter().all(|byte| *byte == 7));
    assert_eq!(client.unread(), 0);
    sending.await.unwrap();
}

#[tokio::test]
async fn ten_megabytes_each_way_on_several_streams() {
    const LENGTH: usize = 10 << 20;
    let before = tasks();
    let (near, far) = sockets().await;
    let (client, client_driver) = spdy::client(near);
    let (server, server_driver) = spdy::server(far);
    tokio::spawn(client_driver);
    tokio::spawn(server_driver);
    tokio::spawn(async move {
        while let Some(incoming) = server.accept().await {
            let stream = incoming.accept();
            tokio::spawn(async move {
                tokio::io::copy(&mut &stream, &mut &stream).await.unwrap();
                stream.finish();
                // Until the client has received it, as dropping the stream would reset it.
                let _ = tokio::io::copy(&mut &stream, &mut tokio::io::sink()).await;
            });
        }
    });
    let mut all = tokio::task::JoinSet::new();
    for number in 0..4u64 {
        let stream = client.create_stream(&headers(&["data"])).unwrap();
        all.spawn(async move {
            stream.opened().await.unwrap();
            let sent = Random(number + 1).bytes(LENGTH);
            let mut heard = Vec::new();
            let (written, read) = tokio::join!(
                async {
                    (&stream).write_all(&sent).await?;
                    (&stream).shutdown().await
                },
                async { (&stream).read_to_end(&mut heard).await }
            );
            written.unwrap();
            read.unwrap();
            assert_eq!(common::hash(&heard), common::hash(&sent));
        });
    }
    soon("all streams", async { while all.join_next().await.is_some_and(|one| one.is_ok()) {} })
        .await;
    assert!(all.is_empty());
    drop(client);
    until("no task left", || tasks() == before).await;
}

/// Either side disconnects without GOAWAY: the other's streams end, and no call hangs.
#[tokio::test]
async fn a_connection_that_is_lost_ends_its_streams() {
    let (near, far) = sockets().await;
    let (client, driver) = spdy::client(near);
    let driving = tokio::spawn(driver);
    let mut stream = client.create_stream(&headers(&["a"])).unwrap();
    let opening = client.create_stream(&headers(&["b"])).unwrap();
    drop(far);
    let ended = soon("the driver", driving).await.unwrap();
    assert!(matches!(ended, Err(Error::Lost | Error::Io(_))), "{ended:?}");
    assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
    assert_eq!(stream.ending(), Some(Ending::Lost));
    assert_eq!(opening.opened().await, Err(CreateError::Closed));

    // The same after the driver is dropped.
    let (near, _far) = sockets().await;
    let (client, driver) = spdy::client(near);
    let stream = client.create_stream(&headers(&["a"])).unwrap();
    drop(driver);
    assert_eq!(stream.opened().await, Err(CreateError::Closed));
}

/// Replies to a peer that sends these bytes.
async fn told(server: bool, bytes: &[u8]) -> Vec<u8> {
    let (mut peer, far) = sockets().await;
    let (connection, driver) = if server { spdy::server(far) } else { spdy::client(far) };
    peer.write_all(bytes).await.unwrap();
    peer.shutdown().await.unwrap();
    let _ = soon("the driver", driver).await;
    drop(connection);
    let mut answer = Vec::new();
    let _ = soon("an end", peer.read_to_end(&mut answer)).await;
    answer
}

#[tokio::test]
async fn a_peer_is_told_what_the_rules_say() {
    let ping = unhex("800300060000000400000001");
    assert_eq!(told(true, &ping).await, ping, "a ping is answered");
    assert_eq!(told(false, &ping).await, b"", "the answer to one's own ping is not");
    let open = |stream: u32, first: bool| {
        let mut headers = if first { unhex("78f9e3c6a7c2") } else { Vec::new() };
        headers.extend(unhex("000400fbff 00000000 000000ffff"));
        let mut frame = unhex("80030001");
        frame.extend((10 + headers.len() as u32).to_be_bytes());
        frame.extend(stream.to_be_bytes());
        frame.extend([0; 6]);
        frame.extend(headers);
        frame
    };
    let reset = |stream: u32, status: ResetStatus| {
        let mut frame = unhex("8003000300000008");
        frame.extend(stream.to_be_bytes());
        frame.extend(status.0.to_be_bytes());
        frame
    };
    let refused = reset(2, ResetStatus::REFUSED_STREAM);
    assert_eq!(told(false, &open(2, true)).await, refused, "servers open no streams");
    let wrong = reset(2, ResetStatus::PROTOCOL_ERROR);
    assert_eq!(told(true, &open(2, true)).await, wrong, "a number of the other side's");
    let twice = [open(1, true), open(1, false)].concat();
    assert_eq!(told(true, &twice).await, reset(1, ResetStatus::PROTOCOL_ERROR));
    let mut many = Vec::new();
    (0..=MAX_STREAMS as u32).for_each(|one| many.extend(open(2 * one + 1, one == 0)));
    let last = 2 * MAX_STREAMS as u32 + 1;
    assert_eq!(told(true, &many).await, reset(last, ResetStatus::REFUSED_STREAM));
    // Data of unknown streams get no reply.
    assert_eq!(told(true, &unhex("0000000900000001 61")).await, b"");
}

/// Endless pings of a peer that does not read: replies do not pile up.
#[tokio::test]
async fn answers_do_not_pile_up() {
    let (peer, far) = sockets().await;
    let (connection, driver) = spdy::server(far);
    tokio::spawn(driver);
    let pings = unhex("800300060000000400000001").repeat(4096);
    let sent = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = sent.clone();
    let flood = tokio::spawn(async move {
        let mut peer = peer;
        while peer.write_all(&pings).await.is_ok() {
            count.fetch_add(pings.len(), std::sync::atomic::Ordering::SeqCst);
        }
    });
    let mut last = usize::MAX;
    // Until the sender is blocked: TCP's buffers are full both ways.
    until("a flood that is stuck", || {
        assert!(
            connection.unsent() <= MAX_OUT + MAX_REPLIES + (64 << 10),
            "{}",
            connection.unsent()
        );
        let now = sent.load(std::sync::atomic::Ordering::SeqCst);
        let stuck = now == last && connection.unsent() >= MAX_OUT + MAX_REPLIES;
        last = now;
        stuck
    })
    .await;
    flood.abort();
}

#[tokio::test(start_paused = true)]
async fn pings_are_sent_and_need_no_answer() {
    let (near, mut far) = tokio::io::duplex(4096);
    let (_connection, driver) = spdy::client(near);
    let driving = tokio::spawn(driver.with_pings(std::time::Duration::from_secs(5)));
    let mut ping = [0; 12];
    far.read_exact(&mut ping).await.unwrap();
    assert_eq!(ping[..], unhex("800300060000000400000001"));
    // The next ping comes after the reply.
    let early = tokio::time::timeout(common::SOON, far.read_u8()).await;
    assert!(early.is_err(), "{early:?}");
    far.write_all(&ping).await.unwrap();
    far.read_exact(&mut ping).await.unwrap();
    assert_eq!(ping[..], unhex("800300060000000400000003"));
    drop(far);
    assert!(driving.await.unwrap().is_err());
}

/// Echoing streams on several threads: writers and the driver must never deadlock.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn echoes_on_several_threads_do_not_get_stuck() {
    let (near, far) = sockets().await;
    let kubelet = tokio::spawn(kevel_streaming::testing::serve(far));
    let mut request = http::Request::post("/portForward/default/pod");
    for (name, value) in [
        ("connection", "Upgrade"),
        ("upgrade", "SPDY/3.1"),
        ("x-stream-protocol-version", "portforward.k8s.io"),
    ] {
        request = request.header(name, value);
    }
    let request = request.body(()).unwrap();
    let answer = kevel_streaming::upgrade::backend::handshake(near, &request).await.unwrap();
    let kevel_streaming::upgrade::backend::Answer::Switched(_, io) = answer else {
        panic!("{answer:?}");
    };
    let mut forward = kevel_streaming::testing::client::PortForward::new(io);
    let mut all = tokio::task::JoinSet::new();
    for number in 1..=8u64 {
        let (data, _error) = soon("a connection", forward.connect(80)).await.unwrap();
        all.spawn(async move {
            let sent = Random(number).bytes(2 << 20);
            let mut heard = Vec::new();
            let (written, read) = tokio::join!(
                async {
                    (&data).write_all(&sent).await?;
                    (&data).shutdown().await
                },
                async { (&data).read_to_end(&mut heard).await }
            );
            written.unwrap();
            read.unwrap();
            assert!(heard == sent, "{} of {} bytes", heard.len(), sent.len());
        });
    }
    while let Some(one) = soon("an echo", all.join_next()).await {
        one.unwrap();
    }
    let (mut data, mut error) = soon("a connection", forward.connect(1)).await.unwrap();
    let mut why = String::new();
    soon("a refusal", error.read_to_string(&mut why)).await.unwrap();
    assert_eq!(why, "error forwarding port 1 to pod: connection refused");
    assert_eq!(soon("an end", data.read_to_end(&mut Vec::new())).await.unwrap(), 0);
    forward.close().await.unwrap();
    soon("the kubelet", kubelet).await.unwrap().unwrap();
}

/// A side whose peer does not read still reads: otherwise two sides that both send much would block each other.
#[tokio::test]
async fn who_cannot_speak_can_hear() {
    let (near, mut peer) = tokio::io::duplex(256);
    let (client, driver) = spdy::client(near);
    tokio::spawn(driver);
    let stream = client.create_stream(&headers(&["a"])).unwrap();
    peer.write_all(&unhex("8003000200000018 00000001 78f9e3c6a7c2 000400fbff 00000000 000000ffff"))
        .await
        .unwrap();
    soon("a reply", stream.opened()).await.unwrap();
    let talking = tokio::spawn(async move {
        let mut heard = [0; 2];
        let said = vec![1; 1 << 20];
        tokio::select! {
            _ = async { (&stream).write_all(&said).await } => panic!("the peer does not read"),
            read = async { (&stream).read_exact(&mut heard).await } => drop(read.unwrap()),
        }
        heard
    });
    until("a full connection", || client.unsent() >= MAX_OUT).await;
    peer.write_all(&unhex("00000001 00000002 6869")).await.unwrap();
    assert_eq!(&soon("what the peer said", talking).await.unwrap(), b"hi");
}
