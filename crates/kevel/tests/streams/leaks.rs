//! Resources after many streams: none are left.

use kevel_streaming::channel::{V4, V5};
use kevel_streaming::testing::client::{WebSocketCommand, websocket};
use kevel_streaming::tunnel::PORT_FORWARD;
use kevel_test_support::{soon, until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Node, PODS, start};

/// Number of streams of each kind, some at a time.
const ROUNDS: usize = 25;
const AT_A_TIME: usize = 10;

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Streams that end well, and streams whose clients go in the middle.
async fn streams(node: &Node) {
    let target = |path: &str| format!("https://127.0.0.1{PODS}/p/{path}").parse().unwrap();
    let echo = async {
        let target = target("exec?stdout=1&command=echo&command=x");
        let (_, socket) = soon(websocket(node.connect().await, target, V5.name)).await.unwrap();
        soon(WebSocketCommand::new(socket, V5).converse(b"", |_| false)).await.unwrap();
    };
    let hang = async {
        for protocol in [V5.name, V4.name] {
            let target = target("exec?stdin=1&stdout=1&command=hang");
            soon(websocket(node.connect().await, target, protocol)).await.unwrap();
        }
    };
    let forward = async {
        let protocol = format!("SPDY/3.1+{PORT_FORWARD}");
        let target = target("portforward");
        soon(websocket(node.connect().await, target, &protocol)).await.unwrap();
    };
    let log = async {
        let mut client = node.connect().await;
        let request = format!("GET {PODS}/p/log?follow=true HTTP/1.1\r\nhost: k\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        soon(client.read_u8()).await.unwrap();
    };
    tokio::join!(echo, hang, forward, log);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_a_thousand_streams() {
    let node = start(&[]).await;
    streams(&node).await;
    until(async || node.kubelet.connections() == 0).await;
    let before = open_files();
    for _ in 0..ROUNDS {
        futures_util::future::join_all((0..AT_A_TIME).map(|_| streams(&node))).await;
    }
    assert!(node.kubelet.requests().len() > ROUNDS * AT_A_TIME * 4);
    until(async || node.kubelet.connections() == 0).await;
    // Another test of this process may have begun: its files are not ours, but few.
    until(async || open_files() < before + ROUNDS * AT_A_TIME).await;
    let metrics = node.cluster.metrics().await;
    let under_way = |line: &&str| {
        line.starts_with("apiserver_longrunning_requests{") && !line.contains("WATCH")
    };
    for line in metrics.lines().filter(under_way) {
        assert!(line.ends_with(" 0"), "{line}");
    }
    assert!(metrics.contains("apiserver_stream_translator_requests_total{code=\"200\"}"));
    node.cluster.stop().await;
}
