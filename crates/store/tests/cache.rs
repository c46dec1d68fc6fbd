//! The watch cache's guarantees, on the embedded engine in memory unless a test says otherwise.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use kevel_store::cache::{
    At, Cache, CacheError, Caches, Change, Delivery, FieldPath, JsonDecode, KeyOrder, Resource,
    Selection, WATCHER_QUEUE, WATCHER_QUEUE_BYTES, Watcher,
};
use kevel_store::embedded::{Embedded, Options};
use kevel_store::etcd::{self, Etcd};
use kevel_store::{Engine, Revision};
use kevel_test_support::{EtcdServer, soon, until};

const PODS: &str = "/registry/pods/";
const FIELDS: [&str; 2] = ["spec.nodeName", "status.phase"];

struct Fixture {
    engine: Arc<dyn Engine>,
    caches: Caches,
    pods: Arc<Cache>,
}

async fn fixture() -> Fixture {
    let engine: Arc<dyn Engine> = Arc::new(Embedded::memory(Options::default()).unwrap());
    let caches = Caches::start(engine.clone(), "/registry/");
    let pods = caches.add(pods());
    // Events from before a cache is loaded are not in its log.
    pods.loaded().await.unwrap();
    Fixture { engine, caches, pods }
}

fn pods() -> Resource {
    let decode = Arc::new(JsonDecode { order: KeyOrder::Struct });
    Resource { prefix: PODS.to_owned(), decode, fields: field_paths(), indexed: vec![0] }
}

fn field_paths() -> Arc<[FieldPath]> {
    FIELDS.iter().map(|field| FieldPath::new(field, field)).collect()
}

fn pod(name: &str, node: &str, app: &str) -> bytes::Bytes {
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","labels":{{"app":"{app}"}}}},"spec":{{"nodeName":"{node}"}}}}"#
    )
    .into()
}

fn key(name: &str) -> Vec<u8> {
    format!("{PODS}{name}").into_bytes()
}

impl Fixture {
    async fn create(&self, name: &str, node: &str, app: &str) -> Revision {
        self.engine.create(&key(name), pod(name, node, app), None).await.unwrap()
    }

    async fn update(&self, name: &str, node: &str, app: &str) -> Revision {
        let current = self.engine.get(&key(name), None).await.unwrap().entry.unwrap();
        let value = pod(name, node, app);
        self.engine.update(&key(name), value, current.mod_revision, None).await.unwrap()
    }

    async fn delete(&self, name: &str) -> Revision {
        let current = self.engine.get(&key(name), None).await.unwrap().entry.unwrap();
        self.engine.delete(&key(name), current.mod_revision).await.unwrap()
    }

    async fn names(&self, at: At) -> Vec<String> {
        let snapshot = self.pods.snapshot(at).await.unwrap();
        snapshot.range("", None).map(|object| object.key().to_owned()).collect()
    }
}

fn select(labels: &str, fields: &str) -> Selection {
    Selection {
        labels: labels.parse().unwrap(),
        fields: fields.parse().unwrap(),
        paths: field_paths(),
        ..Selection::default()
    }
}

async fn take(watcher: &mut Watcher, count: usize) -> Vec<Delivery> {
    let mut seen = Vec::new();
    while seen.len() < count {
        soon(watcher.next(&mut seen)).await.unwrap();
    }
    seen
}

fn told(seen: &[Delivery]) -> Vec<(Change, String, u64)> {
    let tell = |d: &Delivery| {
        let object = d.event.object(d.change).unwrap();
        (d.change, object.key().to_owned(), object.revision().0)
    };
    seen.iter().map(tell).collect()
}

#[tokio::test]
async fn a_consistent_read_sees_every_acknowledged_write() {
    let f = fixture().await;
    for i in 0..50 {
        let name = format!("ns/p{i}");
        let revision = f.create(&name, "n", "a").await;
        let found = f.pods.get(&name, At::Consistent).await.unwrap().unwrap();
        assert_eq!(found.revision(), revision);
        let wire = std::str::from_utf8(found.wire().unwrap()).unwrap();
        let expected = format!(
            r#"{{"metadata":{{"name":"ns/p{i}","resourceVersion":"{revision}","labels":{{"app":"a"}}}},"spec":{{"nodeName":"n"}}}}"#
        );
        assert_eq!(wire, expected);
    }
    assert_eq!(f.names(At::Any).await.len(), 50);
}

#[tokio::test]
async fn lists_follow_keys_and_continue_after_one() {
    let f = fixture().await;
    for name in ["b/1", "a/2", "a-b/1", "a/1"] {
        f.create(name, "n", "a").await;
    }
    let snapshot = f.pods.snapshot(At::Consistent).await.unwrap();
    let keys = |prefix: &str, after: Option<&str>| -> Vec<String> {
        snapshot.range(prefix, after).map(|object| object.key().to_owned()).collect()
    };
    assert_eq!(keys("", None), ["a-b/1", "a/1", "a/2", "b/1"]);
    assert_eq!(keys("a/", None), ["a/1", "a/2"]);
    assert_eq!(keys("a/", Some("a/1")), ["a/2"]);
    assert_eq!(keys("a/", Some("a/2")), [""; 0]);
    assert_eq!(keys("a/", Some("z")), [""; 0]);
    assert_eq!(keys("", Some("a/1")), ["a/2", "b/1"]);
}

#[tokio::test]
async fn a_page_is_read_at_the_revision_of_the_first() {
    let f = fixture().await;
    f.create("ns/a", "n", "x").await;
    let second = f.create("ns/b", "n", "x").await;
    f.update("ns/a", "n", "y").await;
    f.delete("ns/b").await;
    let last = f.create("ns/c", "n", "x").await;
    let past = f.pods.snapshot(At::Exact(second)).await.unwrap();
    assert_eq!(past.revision(), second);
    let apps: Vec<_> =
        past.range("", None).map(|o| (o.key(), o.label("app").unwrap_or_default())).collect();
    assert_eq!(apps, [("ns/a", "x"), ("ns/b", "x")]);
    assert_eq!(f.names(At::Exact(last)).await, ["ns/a", "ns/c"]);
    assert_eq!(f.names(At::NotOlderThan(last)).await, ["ns/a", "ns/c"]);
}

#[tokio::test]
async fn what_the_log_does_not_know_comes_from_the_engine() {
    let f = fixture().await;
    f.create("ns/a", "n", "x").await;
    let first = f.create("ns/b", "n", "x").await;
    let gone = f.delete("ns/a").await;
    f.pods.snapshot(At::Consistent).await.unwrap();
    // A cache that is loaded later has no events from before.
    f.caches.remove(PODS);
    let pods = f.caches.add(pods());
    let keys = |s: kevel_store::cache::Snapshot| -> Vec<String> {
        s.range("", None).map(|object| object.key().to_owned()).collect()
    };
    assert_eq!(keys(pods.snapshot(At::Exact(first)).await.unwrap()), ["ns/a", "ns/b"]);
    assert_eq!(keys(pods.snapshot(At::Consistent).await.unwrap()), ["ns/b"]);
    let mut watch = pods.watch(select("", ""), first).await.unwrap();
    assert_eq!(told(&take(&mut watch, 1).await), [(Change::Deleted, "ns/a".into(), gone.0)]);
    assert!(matches!(f.pods.snapshot(At::Any).await, Err(CacheError::Closed)));
}

#[tokio::test]
async fn an_unreached_revision_is_refused_in_time() {
    let f = fixture().await;
    f.create("ns/a", "n", "x").await;
    tokio::time::pause();
    let error = f.pods.snapshot(At::NotOlderThan(Revision(99))).await.unwrap_err();
    assert_eq!(error.to_string(), "Too large resource version: 99, current: 2");
}

#[tokio::test]
async fn a_selection_sees_what_enters_and_leaves_it() {
    let f = fixture().await;
    let mut by_label = f.pods.watch(select("app=x", ""), Revision(1)).await.unwrap();
    let mut by_node = f.pods.watch(select("", "spec.nodeName=n1"), Revision(1)).await.unwrap();
    let mut by_name = f.pods.watch(select("", "metadata.name=a"), Revision(1)).await.unwrap();
    f.create("ns/a", "", "x").await;
    f.update("ns/a", "n1", "x").await;
    f.update("ns/a", "n1", "y").await;
    f.update("ns/a", "n2", "x").await;
    f.create("ns/b", "n1", "x").await;
    f.delete("ns/a").await;
    use Change::*;
    let a = |change, revision| (change, "ns/a".to_owned(), revision);
    let b = |change, revision| (change, "ns/b".to_owned(), revision);
    let seen = take(&mut by_label, 6).await;
    assert_eq!(
        told(&seen),
        [a(Added, 2), a(Modified, 3), a(Deleted, 4), a(Added, 5), b(Added, 6), a(Deleted, 7)]
    );
    let seen = take(&mut by_node, 4).await;
    assert_eq!(told(&seen), [a(Added, 3), a(Modified, 4), a(Deleted, 5), b(Added, 6)]);
    let seen = take(&mut by_name, 5).await;
    assert_eq!(
        told(&seen),
        [a(Added, 2), a(Modified, 3), a(Modified, 4), a(Modified, 5), a(Deleted, 7)]
    );
    // The DELETED event shows the last state with the deletion's revision.
    let shown = seen[4].event.object(Deleted).unwrap();
    assert_eq!(shown.label("app"), Some("x"));
    assert!(
        std::str::from_utf8(shown.wire().unwrap()).unwrap().contains(r#""resourceVersion":"7""#)
    );
}

#[tokio::test]
async fn watches_start_anywhere_in_the_log_and_bookmarks_follow() {
    let f = fixture().await;
    let mut revisions = Vec::new();
    for i in 0..20 {
        revisions.push(f.create(&format!("ns/p{i:02}"), "n1", "x").await);
    }
    f.pods.snapshot(At::Consistent).await.unwrap();
    for selection in ["", "spec.nodeName=n1"] {
        for (i, start) in revisions.iter().enumerate().take(19) {
            let mut watcher = f.pods.watch(select("", selection), *start).await.unwrap();
            let seen = take(&mut watcher, 19 - i).await;
            let keys: Vec<_> = told(&seen).into_iter().map(|(_, key, _)| key).collect();
            let expected: Vec<_> = (i + 1..20).map(|i| format!("ns/p{i:02}")).collect();
            assert_eq!(keys, expected);
            assert_eq!(watcher.caught_up(), revisions[19]);
        }
    }
    // Progress of other resources moves the bookmark of an idle watcher.
    let mut watcher = f.pods.watch(select("", ""), revisions[19]).await.unwrap();
    let other = f.engine.create(b"/registry/other/x", "{}".into(), None).await.unwrap();
    f.pods.snapshot(At::Consistent).await.unwrap();
    assert_eq!(watcher.caught_up(), other);
}

/// A watch continues on a restarted server, or on another one.
#[tokio::test]
async fn watch_continues_from_before_the_cache_s_load() {
    let f = fixture().await;
    let start = f.create("ns/a", "n", "x").await;
    f.create("ns/b", "n", "x").await;
    f.update("ns/a", "n", "y").await;
    f.delete("ns/b").await;
    // Another cache of the same store, without any of the events.
    let later = Caches::start(f.engine.clone(), "/registry/");
    let pods = later.add(pods());
    pods.loaded().await.unwrap();
    let selections = [("", ""), ("app=x", ""), ("", "spec.nodeName=n")];
    let mut before = Vec::new();
    for (labels, fields) in selections {
        before.push(f.pods.watch(select(labels, fields), start).await.unwrap());
    }
    // Concurrent watches: the history is recalled once.
    let [one, two, three] = selections;
    let watch = |(labels, fields)| pods.watch(select(labels, fields), start);
    let after = tokio::join!(watch(one), watch(two), watch(three));
    f.create("ns/c", "n", "x").await;
    for (mut one, other) in before.into_iter().zip([after.0, after.1, after.2]) {
        let mut other = other.unwrap();
        assert_eq!(told(&take(&mut one, 4).await), told(&take(&mut other, 4).await));
    }
    // A list of a past revision is right as well.
    let snapshot = pods.snapshot(At::Exact(Revision(start.0 + 1))).await.unwrap();
    let names: Vec<&str> = snapshot.range("", None).map(|object| object.key()).collect();
    assert_eq!(names, ["ns/a", "ns/b"]);
}

/// A watch continues on another server, with etcd (old versions of which do not report progress): of a resource without
/// events, and of one with events among those of others.
#[tokio::test]
async fn watch_of_quiet_resource_continues_from_before_the_load() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = EtcdServer::start(folder.path()) else { return };
    let options = etcd::Options {
        endpoints: vec![server.endpoint.clone()],
        compaction_interval: None,
        ..etcd::Options::default()
    };
    let engine: Arc<dyn Engine> = Arc::new(Etcd::connect(options).await.unwrap());
    until(async || engine.health().await.is_ok()).await;
    let create = async |name: &str| {
        engine.create(format!("/registry/{name}").as_bytes(), pod("a", "n", "x"), None).await
    };
    let start = create("others/a").await.unwrap();
    create("others/b").await.unwrap();
    let made = create("pods/ns/a").await.unwrap();
    create("others/c").await.unwrap();
    let caches = Caches::start(engine.clone(), "/registry/");
    let resource = |prefix: &str| Resource { prefix: prefix.to_owned(), ..pods() };
    for (prefix, expected) in [(PODS, vec![made]), ("/registry/quiet/", Vec::new())] {
        let cache = caches.add(resource(prefix));
        cache.loaded().await.unwrap();
        assert!(cache.oldest() > start);
        let mut watcher = soon(cache.watch(Selection::default(), start)).await.unwrap();
        let seen = take(&mut watcher, expected.len()).await;
        let revisions: Vec<_> = seen.iter().map(|seen| seen.event.revision()).collect();
        assert_eq!(revisions, expected);
    }
}

#[tokio::test]
async fn what_is_compacted_is_not_recalled() {
    let f = fixture().await;
    let start = f.create("ns/a", "n", "x").await;
    let last = f.update("ns/a", "n", "y").await;
    f.engine.compact(last).await.unwrap();
    let later = Caches::start(f.engine.clone(), "/registry/");
    let pods = later.add(pods());
    pods.loaded().await.unwrap();
    let oldest = pods.oldest();
    let refused = soon(pods.watch(Selection::default(), start)).await.unwrap_err();
    assert!(
        matches!(refused, CacheError::Expired { requested, oldest: told }
        if requested == start && told == oldest),
        "{refused}"
    );
    // A watch from the last revision works.
    pods.watch(Selection::default(), last).await.unwrap();
}

#[tokio::test]
async fn a_slow_watcher_is_ended_and_delays_no_other() {
    let f = fixture().await;
    let mut slow = f.pods.watch(select("", "spec.nodeName=n1"), Revision(1)).await.unwrap();
    f.create("ns/a", "n1", "x").await;
    for i in 0..WATCHER_QUEUE + 10 {
        f.update("ns/a", "n1", &format!("v{i}")).await;
    }
    f.pods.snapshot(At::Consistent).await.unwrap();
    let mut seen = Vec::new();
    let ended = loop {
        if let Err(error) = soon(slow.next(&mut seen)).await {
            break error;
        }
    };
    assert!(matches!(ended, CacheError::Expired { .. }), "{ended:?}");
    assert!(seen.len() <= WATCHER_QUEUE, "{}", seen.len());
    assert!(seen.windows(2).all(|pair| pair[0].event.revision() < pair[1].event.revision()));
}

#[tokio::test]
async fn what_waits_for_a_slow_watcher_is_bounded_in_bytes() {
    const LARGE: usize = 1 << 20;
    let f = fixture().await;
    let mut slow = f.pods.watch(select("", "spec.nodeName=n1"), Revision(1)).await.unwrap();
    f.create("ns/a", "n1", "x").await;
    for i in 0..WATCHER_QUEUE_BYTES / LARGE + 10 {
        f.update("ns/a", "n1", &format!("{i}{}", "v".repeat(LARGE))).await;
    }
    f.pods.snapshot(At::Consistent).await.unwrap();
    let mut seen = Vec::new();
    let ended = loop {
        if let Err(error) = soon(slow.next(&mut seen)).await {
            break error;
        }
    };
    assert!(matches!(ended, CacheError::Expired { .. }), "{ended:?}");
    assert!((2..=WATCHER_QUEUE_BYTES / LARGE + 1).contains(&seen.len()), "{}", seen.len());
}

#[tokio::test]
async fn a_watcher_takes_as_much_as_it_can_send() {
    let f = fixture().await;
    let start = f.create("ns/a", "n1", "x").await;
    for i in 0..100 {
        f.update("ns/a", "n1", &format!("{i}{}", "v".repeat(10 << 10))).await;
    }
    f.pods.snapshot(At::Consistent).await.unwrap();
    // From the log, from the log up to the subscription, and from the queue.
    for fields in ["", "spec.nodeName=n1", "metadata.name=a"] {
        let mut watcher = f.pods.watch(select("", fields), start).await.unwrap();
        let mut all = Vec::new();
        while all.len() < 100 {
            let mut seen = Vec::new();
            soon(watcher.next(&mut seen)).await.unwrap();
            assert!((1..=7).contains(&seen.len()), "{fields}: {}", seen.len());
            all.append(&mut seen);
        }
        let revisions: Vec<_> = all.iter().map(|d| d.event.revision().0).collect();
        assert_eq!(revisions, (start.0 + 1..=start.0 + 100).collect::<Vec<_>>(), "{fields}");
    }
    // A watcher that has caught up gets later events.
    let last = f.pods.snapshot(At::Consistent).await.unwrap().revision();
    let mut watcher = f.pods.watch(select("", "spec.nodeName=n1"), last).await.unwrap();
    for i in 0..20 {
        f.update("ns/a", "n1", &format!("{i}{}", "w".repeat(10 << 10))).await;
    }
    assert_eq!(take(&mut watcher, 20).await.len(), 20);
}

#[tokio::test]
async fn an_event_is_encoded_once_for_all_watchers() {
    let f = fixture().await;
    let mut watchers = Vec::new();
    for _ in 0..3 {
        watchers.push(f.pods.watch(select("", ""), Revision(1)).await.unwrap());
    }
    f.create("ns/a", "n1", "x").await;
    let mut encodings = 0;
    let form = "v1".into();
    for watcher in &mut watchers {
        let seen = take(watcher, 1).await;
        let encoded = seen[0].event.encoded(&form, seen[0].change, || {
            encodings += 1;
            "frame".into()
        });
        assert_eq!(encoded, "frame");
    }
    assert_eq!(encodings, 1);
}

#[tokio::test]
async fn closing_a_cache_ends_its_watchers() {
    let f = fixture().await;
    let mut log = f.pods.watch(select("", ""), Revision(1)).await.unwrap();
    let mut queue = f.pods.watch(select("", "metadata.name=a"), Revision(1)).await.unwrap();
    f.caches.remove(PODS);
    assert_eq!(log.next(&mut Vec::new()).await, Err(CacheError::Closed));
    assert_eq!(queue.next(&mut Vec::new()).await, Err(CacheError::Closed));
}

#[tokio::test]
async fn what_cannot_be_read_is_an_error_not_a_hole() {
    let f = fixture().await;
    f.engine.create(&key("ns/bad"), "garbage".into(), None).await.unwrap();
    let found = f.pods.get("ns/bad", At::Consistent).await.unwrap().unwrap();
    let why = "StorageError: corrupt object, Code: 7, Key: /registry/pods/ns/bad, \
               ResourceVersion: 0, AdditionalErrorMsg: not a JSON object";
    assert_eq!(found.wire(), Err(why));
    assert_eq!(f.caches.readable(), Err(why.to_owned()));
    // A damaged object does not keep clients from the others, and its changes produce no events.
    f.create("ns/good", "n", "x").await;
    assert_eq!(f.names(At::Consistent).await, ["ns/good"]);
    let mut watcher = f.pods.watch(select("", ""), Revision(3)).await.unwrap();
    f.update("ns/bad", "n", "x").await;
    let good = f.engine.get(&key("ns/good"), None).await.unwrap().entry.unwrap();
    let garbage = "garbage".into();
    f.engine.update(&key("ns/good"), garbage, good.mod_revision, None).await.unwrap();
    let seen = told(&take(&mut watcher, 2).await);
    let expected =
        [(Change::Added, "ns/bad".to_owned(), 4), (Change::Deleted, "ns/good".to_owned(), 5)];
    assert_eq!(seen, expected);
    assert_eq!(f.names(At::Exact(Revision(3))).await, ["ns/good"], "nor in the past");
    assert_eq!(f.names(At::Exact(Revision(4))).await, ["ns/bad", "ns/good"]);
    f.delete("ns/good").await;
    f.pods.snapshot(At::Consistent).await.unwrap();
    assert_eq!(f.caches.readable(), Ok(()));
}

/// Concurrent writers, and watchers from every revision: each watcher's events, replayed on its first snapshot, give
/// the final state, and every snapshot in between agrees with the history.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_watchers_log_replays_to_the_final_state() {
    let f = Arc::new(fixture().await);
    let writers: Vec<_> = (0..8)
        .map(|w| {
            let f = f.clone();
            tokio::spawn(async move {
                for round in 0..25 {
                    let name = format!("ns/p{w}");
                    f.create(&name, "n1", &format!("{round}")).await;
                    f.update(&name, "n2", &format!("{round}")).await;
                    if round % 3 == 0 {
                        f.update(&name, "n1", "again").await;
                    }
                    f.delete(&name).await;
                }
                f.create(&format!("ns/end{w}"), "n1", "end").await;
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let last = f.pods.snapshot(At::Consistent).await.unwrap();
    let state = |s: &kevel_store::cache::Snapshot| -> BTreeMap<String, u64> {
        s.range("", None).map(|o| (o.key().to_owned(), o.revision().0)).collect()
    };
    let end = state(&last);
    assert_eq!(end.len(), 8);
    for start in 1..last.revision().0 {
        let past = f.pods.snapshot(At::Exact(Revision(start))).await.unwrap();
        let mut replayed = state(&past);
        let mut watcher = f.pods.watch(select("", ""), Revision(start)).await.unwrap();
        let mut seen = Vec::new();
        while watcher.caught_up() < last.revision() {
            soon(watcher.next(&mut seen)).await.unwrap();
        }
        let mut before = start;
        for (change, key, revision) in told(&seen) {
            assert_eq!(revision, before + 1, "no gap, no repeat");
            before = revision;
            let old = match change {
                Change::Deleted => replayed.remove(&key),
                _ => replayed.insert(key, revision),
            };
            assert_eq!(old.is_some(), change != Change::Added);
        }
        assert_eq!(replayed, end, "from {start}");
    }
}
