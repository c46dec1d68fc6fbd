//! Thousands who watch and hear nothing.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::task::JoinSet;

use crate::client::{Client, Version, config_map};
use crate::written::MAPS;
use crate::{Server, soon};

/// As many as a large cluster has, on as few connections as HTTP/2 allows.
const CONNECTIONS: usize = 50;
const STREAMS: usize = 100;

/// Most memory of an idle watch, with its share of the connection.
const MOST_BYTES: u64 = 8 << 10;

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_idle_watches_cost_little_and_hear_all() {
    let server = Server::start(&[]).await;
    let mut writer = soon(Client::connect(server.port, &server.tls, Version::Http2)).await.unwrap();
    assert_eq!(writer.post(MAPS, config_map("first", 100)).await.unwrap().status(), 201);
    let before = server.resident();
    let mut opened = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (port, tls) = (server.port, server.tls.clone());
        opened.spawn(async move { open(port, &tls).await });
    }
    let mut watches: Vec<Incoming> = Vec::new();
    let mut clients = Vec::new();
    while let Some(opened) = soon(opened.join_next()).await {
        let (client, bodies) = opened.unwrap();
        clients.push(client);
        watches.extend(bodies);
    }
    assert_eq!(watches.len(), CONNECTIONS * STREAMS);
    let each = server.resident().saturating_sub(before) / watches.len() as u64;
    println!("{} watches, {each} bytes each", watches.len());
    assert!(each <= MOST_BYTES, "{each} bytes a watch");
    // A write meanwhile: it is not slower, and all watches see it.
    let writing = writer.post(MAPS, config_map("last", 100));
    let answer = tokio::time::timeout(Duration::from_secs(10), writing).await.unwrap().unwrap();
    assert_eq!(answer.status(), 201);
    let mut hearing: JoinSet<()> = watches.into_iter().map(hears_of_last).collect();
    while let Some(heard) = soon(hearing.join_next()).await {
        heard.unwrap();
    }
}

/// A connection with as many watches as it may have.
async fn open(port: u16, tls: &rustls::ClientConfig) -> (Client, Vec<Incoming>) {
    let mut client = soon(Client::connect(port, tls, Version::Http2)).await.unwrap();
    let mut bodies = Vec::new();
    for _ in 0..STREAMS {
        let answer = soon(client.get(&format!("{MAPS}?watch=1&resourceVersion=0"))).await.unwrap();
        assert_eq!(answer.status(), 200);
        let mut body = answer.into_body();
        // What is there comes first.
        let first = soon(body.frame()).await.unwrap().unwrap().into_data().unwrap();
        assert!(first.starts_with(br#"{"type":"ADDED""#), "{first:?}");
        bodies.push(body);
    }
    (client, bodies)
}

async fn hears_of_last(mut body: Incoming) {
    loop {
        let frame = soon(body.frame()).await.unwrap().unwrap().into_data().unwrap();
        if frame.windows(13).any(|text| text == br#""name":"last""#) {
            return;
        }
    }
}
