//! etcd ended by kill -9 while there is much to do. `KEVEL_CRASH_ROUNDS` sets the number of kills.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use kevel_test_support::{EtcdServer, until};
use tokio::sync::Mutex;

use crate::client::{Client, Version, read};
use crate::written::{MAPS, Written, number_of};
use crate::{Server, amount, soon};

const WRITERS: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_etcds_end() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut etcd) = EtcdServer::start(folder.path()) else { return };
    let server = Server::start_with_etcd(&etcd).await;
    let written = Arc::new(Written::default());
    let seen = Arc::new(Mutex::new(BTreeMap::new()));
    let watcher = tokio::spawn(watch(server.port, server.tls.clone(), seen.clone()));
    let mut writers = written.begin(&server, WRITERS);
    for round in 0..amount("KEVEL_CRASH_ROUNDS", 3) {
        written.more(60 + 23 * (round % 5)).await;
        etcd.restart();
        // The server lives through it.
        let mut client =
            soon(Client::connect(server.port, &server.tls, Version::Http1)).await.unwrap();
        assert_eq!(soon(client.get("/livez/ping")).await.unwrap().status(), 200);
    }
    written.more(60).await;
    written.stop();
    while let Some(ended) = soon(writers.join_next()).await {
        ended.unwrap();
    }
    written.check(&server).await;
    // The watcher comes to know the last of everything, too.
    let last = written.last().await;
    let knows = |seen: &BTreeMap<String, usize>| {
        last.iter().all(|(name, number)| seen.get(name).is_some_and(|known| known >= number))
    };
    until(async || knows(&*seen.lock().await)).await;
    watcher.abort();
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

/// Lists, and watches from there on, for as long as it takes. What is seen never goes back.
async fn watch(port: u16, tls: rustls::ClientConfig, seen: Arc<Mutex<BTreeMap<String, usize>>>) {
    loop {
        let _ = follow(port, &tls, &seen).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Follows until the watch ends, or something fails.
async fn follow(
    port: u16,
    tls: &rustls::ClientConfig,
    seen: &Mutex<BTreeMap<String, usize>>,
) -> Option<()> {
    let mut client = Client::connect(port, tls, Version::Http2).await.ok()?;
    let list = client.get(MAPS).await.ok().filter(|list| list.status() == 200)?;
    let list: serde_json::Value = serde_json::from_slice(&read(list).await.ok()?).ok()?;
    for item in list["items"].as_array()? {
        note(seen, item).await;
    }
    let from = list["metadata"]["resourceVersion"].as_str()?.to_owned();
    let path = format!("{MAPS}?watch=1&resourceVersion={from}");
    let mut body = client.get(&path).await.ok()?.into_body();
    let mut rest = Vec::new();
    while let Some(frame) = body.frame().await {
        rest.extend_from_slice(&frame.ok()?.into_data().ok()?);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let event: serde_json::Value = serde_json::from_slice(&line).unwrap();
            note(seen, &event["object"]).await;
        }
    }
    Some(())
}

async fn note(seen: &Mutex<BTreeMap<String, usize>>, object: &serde_json::Value) {
    let Some((name, number)) = number_of(object) else { return };
    let mut seen = seen.lock().await;
    let known = seen.entry(name.clone()).or_default();
    assert!(number >= *known, "{name} went back from {known} to {number}");
    *known = number;
}
