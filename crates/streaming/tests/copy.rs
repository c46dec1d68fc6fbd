//! Tests of bidirectional copying, over real sockets.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{Random, hash, sockets, soon, until};
use kevel_streaming::copy::{Copied, HALF_CLOSED, copy_bidirectional};
use kevel_streaming::rate::Rate;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// A client, a backend, and the copy between them.
async fn passed(rate: Option<Rate>) -> (TcpStream, TcpStream, JoinHandle<std::io::Result<Copied>>) {
    let (client, near) = sockets().await;
    let (far, backend) = sockets().await;
    (client, backend, tokio::spawn(copy_bidirectional(near, far, rate)))
}

#[tokio::test]
async fn ten_megabytes_each_way() {
    let (client, backend, copy) = passed(None).await;
    let talk = async |io: TcpStream, seed| {
        let sent = Random(seed).bytes(10 << 20);
        let (mut read, mut write) = io.into_split();
        let mut heard = Vec::new();
        let said = async {
            write.write_all(&sent).await.unwrap();
            write.shutdown().await.unwrap();
        };
        let ((), read) = tokio::join!(said, read.read_to_end(&mut heard));
        read.unwrap();
        (hash(&sent), hash(&heard))
    };
    let both = async { tokio::join!(talk(client, 1), talk(backend, 2)) };
    let ((sent, heard), (answered, asked)) = soon("both ways", both).await;
    assert_eq!((sent, answered), (asked, heard));
    let copied = soon("the end", copy).await.unwrap().unwrap();
    assert_eq!(copied, Copied { to_backend: 10 << 20, to_client: 10 << 20 });
}

#[tokio::test]
async fn one_side_may_go_on_when_the_other_has_ended() {
    let (mut client, mut backend, copy) = passed(None).await;
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    let mut heard = String::new();
    soon("the question", backend.read_to_string(&mut heard)).await.unwrap();
    assert_eq!(heard, "question");
    for part in ["long ", "answer"] {
        backend.write_all(part.as_bytes()).await.unwrap();
    }
    drop(backend);
    heard.clear();
    soon("the answer", client.read_to_string(&mut heard)).await.unwrap();
    assert_eq!(heard, "long answer");
    soon("the end", copy).await.unwrap().unwrap();
}

/// A side that is gone, rather than silent, ends both.
#[tokio::test]
async fn a_side_that_breaks_ends_both() {
    for client_breaks in [true, false] {
        let (client, backend, copy) = passed(None).await;
        let (broken, mut other) = if client_breaks { (client, backend) } else { (backend, client) };
        // Closed with unread data: the kernel sends a reset.
        other.write_all(b"unread").await.unwrap();
        broken.readable().await.unwrap();
        broken.set_zero_linger().unwrap();
        drop(broken);
        let ended = soon("the end", copy).await.unwrap();
        assert!(ended.is_err(), "{ended:?}");
        let mut rest = Vec::new();
        let _ = soon("its end", other.read_to_end(&mut rest)).await;
    }
}

/// A backend that does not notice that its client has gone is not kept for ever.
#[tokio::test(start_paused = true)]
async fn silence_after_one_side_has_ended_is_bounded() {
    let (mut client, near) = tokio::io::duplex(64);
    let (far, mut backend) = tokio::io::duplex(64);
    let begun = kevel_clock::timer_now();
    let copy = tokio::spawn(copy_bidirectional(near, far, None));
    client.shutdown().await.unwrap();
    // The copy goes on as long as data come.
    let mut byte = [0];
    for _ in 0..5 {
        tokio::time::sleep(HALF_CLOSED * 3 / 4).await;
        backend.write_all(b"x").await.unwrap();
        client.read_exact(&mut byte).await.unwrap();
    }
    copy.await.unwrap().unwrap();
    let took = begun.elapsed();
    assert!(took >= HALF_CLOSED * 4 && took < HALF_CLOSED * 7, "{took:?}");
}

/// A side that accepts no data: one read of the other is held.
#[tokio::test]
async fn a_stalled_side_stops_the_other() {
    let (client, near) = tokio::io::duplex(1 << 10);
    let (far, mut backend) = tokio::io::duplex(1 << 10);
    let copy = tokio::spawn(copy_bidirectional(near, far, None));
    let sent = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = sent.clone();
    let sender = tokio::spawn(async move {
        while backend.write_all(&[1; 512]).await.is_ok() {
            count.fetch_add(512, std::sync::atomic::Ordering::SeqCst);
        }
    });
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    // The two pipes, and one read.
    let held = sent.load(std::sync::atomic::Ordering::SeqCst);
    assert!(held <= (2 << 10) + (32 << 10), "{held}");
    drop(client);
    assert!(soon("the end", copy).await.unwrap().is_err());
    soon("the sender", sender).await.unwrap();
}

#[tokio::test]
async fn a_rate_is_kept_each_way() {
    let (mut client, mut backend, copy) = passed(Rate::per_second(100_000)).await;
    let begun = kevel_clock::monotonic_now();
    client.write_all(&[1; 60_000]).await.unwrap();
    backend.write_all(&[2; 60_000]).await.unwrap();
    client.shutdown().await.unwrap();
    backend.shutdown().await.unwrap();
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    let both = async {
        let (one, other) =
            tokio::join!(backend.read_to_end(&mut asked), client.read_to_end(&mut answered));
        (one.unwrap(), other.unwrap())
    };
    assert_eq!(soon("both ways", both).await, (60_000, 60_000));
    // Six samples of 10,000 bytes: the first at once, the last after half a second.
    assert!(begun.elapsed() >= Duration::from_millis(400), "{:?}", begun.elapsed());
    until("the end", || copy.is_finished()).await;
}
