//! etcd servers that go away and come back.

use std::collections::BTreeSet;
use std::time::Duration;

use kevel_clock::monotonic_now;
use kevel_store::{
    Engine, Error, Revision,
    etcd::{self, Etcd},
};
use kevel_test_support::{PATIENCE, until};
use tokio::time::timeout;

use crate::engines::{Store, events_until, owned, show_event};

fn options(endpoints: Vec<String>) -> etcd::Options {
    etcd::Options {
        endpoints,
        compaction_interval: None,
        request_timeout: Duration::from_secs(1),
        ..etcd::Options::default()
    }
}

async fn until_healthy(engine: &dyn Engine) {
    until(async || engine.health().await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_outlives_its_server() {
    let Some(store) = Store::etcd().await else { return };
    let mut server = store.etcd.as_ref().unwrap().lock().await;
    let mut watch = store.watch(b"/", Revision(1)).await.unwrap();
    let mut told = Vec::new();
    let (mut last, mut reached) = (Revision(1), Revision(1));
    for round in 0..3 {
        for turn in 0..5 {
            last = store.put("/a", &format!("{round}-{turn}")).await;
        }
        if round == 1 {
            // Broken with no events outstanding, and with some.
            told.extend(events_until(&mut watch, reached, last).await);
            reached = last;
        }
        server.restart();
        until_healthy(&*store).await;
    }
    last = store.put("/b", "end").await;
    told.extend(events_until(&mut watch, reached, last).await);
    let revisions: Vec<_> = told.iter().map(|event| event.revision.0).collect();
    assert_eq!(revisions, (2..=last.0).collect::<Vec<_>>());
    assert_eq!(show_event(told.last().unwrap()), format!("{last}: none -> /b=end@{last}/{last}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_server_requests_fail_in_time() {
    let Some(store) = Store::etcd().await else { return };
    let mut server = store.etcd.as_ref().unwrap().lock().await;
    let engine = Etcd::connect(options(vec![server.endpoint.clone()])).await.unwrap();
    engine.create(b"/a", owned("1"), None).await.unwrap();
    server.kill();
    let outcomes = timeout(Duration::from_secs(10), async {
        (
            engine.create(b"/b", owned("1"), None).await.unwrap_err(),
            engine.get(b"/a", None).await.unwrap_err(),
            engine.health().await.unwrap_err(),
        )
    });
    let (write, read, health) = outcomes.await.unwrap();
    for error in [write, read, health] {
        assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
    }
    server.restart();
    until_healthy(&engine).await;
    assert_eq!(engine.create(b"/b", owned("1"), None).await, Ok(Revision(3)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_member_is_passed_over() {
    let Some(store) = Store::etcd().await else { return };
    let alive = store.etcd.as_ref().unwrap().lock().await.endpoint.clone();
    let dead = "http://127.0.0.1:1".to_string();
    let engine = Etcd::connect(options(vec![dead, alive])).await.unwrap();
    assert_eq!(engine.create(b"/a", owned("1"), None).await, Ok(Revision(2)));
    let mut watch = engine.watch(b"/", Revision(1)).await.unwrap();
    assert_eq!(events_until(&mut watch, Revision(1), Revision(2)).await.len(), 1);
}

/// A member that is cut off: connections to it stay open, but it never answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_member_is_left_after_one_request() {
    let Some(store) = Store::etcd().await else { return };
    let alive = store.etcd.as_ref().unwrap().lock().await.endpoint.clone();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = format!("http://{}", listener.local_addr().unwrap());
    let request_timeout = Duration::from_secs(2);
    let options = etcd::Options { request_timeout, ..options(vec![silent, alive]) };
    let engine = Etcd::connect(options).await.unwrap();
    let refused = engine.create(b"/a", owned("1"), None).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert_eq!(engine.create(b"/a", owned("1"), None).await, Ok(Revision(2)));
    let mut watch = engine.watch(b"/", Revision(1)).await.unwrap();
    assert_eq!(events_until(&mut watch, Revision(1), Revision(2)).await.len(), 1);
}

/// A member that falls silent while it is watched: its process is stopped, and its connections stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_leaves_a_silent_etcd_member() {
    let Some(store) = Store::etcd().await else { return };
    let alive = store.etcd.as_ref().unwrap().lock().await.endpoint.clone();
    let (hush, hushed) = tokio::sync::watch::channel(false);
    let silent = falls_silent(alive.strip_prefix("http://").unwrap().to_owned(), hushed).await;
    let options = options(vec![format!("http://{silent}"), alive]);
    // Two request timeouts, and some for a busy machine; a connection is found dead after 40 s.
    let soon = 2 * options.request_timeout + Duration::from_secs(15);
    let engine = Etcd::connect(options).await.unwrap();
    let mut watch = engine.watch(b"/", Revision(1)).await.unwrap();
    let first = store.put("/a", "1").await;
    assert_eq!(events_until(&mut watch, Revision(1), first).await.len(), 1);
    hush.send_replace(true);
    let second = store.put("/a", "2").await;
    let told = timeout(soon, events_until(&mut watch, first, second)).await.expect("silence");
    assert_eq!(told.len(), 1);
    // Without a request in between: the next one is answered at once.
    let read = timeout(soon, engine.get(b"/a", None)).await.unwrap().unwrap();
    assert_eq!(read.entry.unwrap().mod_revision, second);
}

/// Address of a proxy to a member that falls silent on command.
async fn falls_silent(
    target: String,
    hushed: tokio::sync::watch::Receiver<bool>,
) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (target, mut hushed) = (target.clone(), hushed.clone());
            tokio::spawn(async move {
                let mut server = tokio::net::TcpStream::connect(target).await.unwrap();
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                    () = async { drop(hushed.wait_for(|hushed| *hushed).await) } => {
                        std::future::pending().await
                    }
                }
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_several_servers_compacts() {
    let Some(store) = Store::etcd().await else { return };
    let endpoint = store.etcd.as_ref().unwrap().lock().await.endpoint.clone();
    let mut servers = Vec::new();
    for _ in 0..3 {
        let interval = Some(Duration::from_millis(100));
        let options =
            etcd::Options { compaction_interval: interval, ..options(vec![endpoint.clone()]) };
        servers.push(Etcd::connect(options).await.unwrap());
    }
    for turn in 0..10 {
        store.put("/a", &turn.to_string()).await;
    }
    // All servers learn of the compaction, whichever did it.
    let knows = |engine: &dyn Engine| engine.compacted_revision() > Revision(5);
    let all_know = async || servers.iter().all(|server| knows(server)) && knows(&*store);
    until(all_know).await;
    let clock = store.get(b"compact_rev_key", None).await.unwrap().entry.unwrap();
    let noted: u64 = String::from_utf8_lossy(&clock.value).parse().unwrap();
    assert!(noted > 5);
    // The compaction is recorded in the key first, and then done.
    let before = async || store.get(b"/a", Some(Revision(3))).await;
    until(async || matches!(before().await, Err(Error::Compacted { .. }))).await;
}

/// A client that lists and then watches has at least one interval to do so: younger revisions stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_keeps_the_last_interval() {
    const INTERVAL: Duration = Duration::from_millis(300);
    let Some(store) = Store::etcd().await else { return };
    let endpoint = store.etcd.as_ref().unwrap().lock().await.endpoint.clone();
    let options = etcd::Options { compaction_interval: Some(INTERVAL), ..options(vec![endpoint]) };
    let server = Etcd::connect(options).await.unwrap();
    let (mut last, mut compactions) = (None, BTreeSet::new());
    let compacting = async {
        while compactions.len() < 5 {
            let begun = monotonic_now();
            let written = store.put("/a", "1").await;
            if let Some((revision, begun)) = last.replace((written, begun))
                && let Err(error) = store.get(b"/a", Some(revision)).await
            {
                assert!(matches!(error, Error::Compacted { .. }), "{error}");
                let age = begun.elapsed();
                assert!(age >= INTERVAL, "{revision} is compacted after {age:?}");
            }
            compactions.insert(server.compacted_revision());
        }
    };
    timeout(PATIENCE, compacting).await.expect("it compacts");
}

#[tokio::test]
async fn a_bad_configuration_is_refused_at_once() {
    for (endpoints, expected) in [
        (vec![], "no etcd endpoint is given"),
        (vec!["https://127.0.0.1:1".to_string()], "needs a certificate authority file"),
        (vec!["http://bad host".to_string()], "etcd endpoint http://bad host"),
    ] {
        let error = Etcd::connect(options(endpoints)).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
