//! Tests of each transition of the feed.

use std::sync::Arc;
use std::time::Duration;

use kevel_store::cache::{At, CacheError, Decode, Resource, Wire};
use kevel_store::{Error, Revision};
use tokio::time::{sleep, timeout};

use crate::{Fixture, OBJECT, PODS, THINGS, everything, health, resource, told};

/// Longer than any wait of a read, on tokio's paused clock.
const LONG: Duration = Duration::from_secs(60);

/// Makes the watch miss a write: it is held while the write happens, and the history is compacted before it goes on.
async fn miss_a_write(f: &Fixture, name: &str) -> u64 {
    f.model.faults(|faults| faults.hold_stream = true);
    let written = f.put(name);
    f.model.compact_all();
    f.model.faults(|faults| faults.hold_stream = false);
    written
}

#[tokio::test(start_paused = true)]
async fn after_a_compaction_nothing_is_announced_that_is_not_shown() {
    let f = Fixture::loaded().await;
    f.put("a");
    f.pods.snapshot(At::Consistent).await.unwrap();
    f.model.faults(|faults| faults.hold_lists = true);
    let written = miss_a_write(&f, "a").await;
    // The watch is open again, and a load under way: reads must wait for the load.
    sleep(Duration::from_secs(1)).await;
    assert_eq!(f.model.watches(), 2);
    assert_eq!(f.caches.progress(), Revision(written), "the stream has come this far");
    assert_eq!(f.pods.latest().revision(), Revision(written - 1), "the cache has not");
    let refused = f.pods.snapshot(At::Consistent).await;
    assert!(matches!(refused, Err(CacheError::TooLarge { .. })), "{refused:?}");
    f.model.faults(|faults| faults.hold_lists = false);
    let list = f.pods.snapshot(At::Consistent).await.unwrap();
    assert_eq!(list.revision(), Revision(written));
    f.assert_true(&list);
    let mut watcher = f.pods.watch(everything(), list.revision()).await.unwrap();
    let next = f.put("b");
    assert_eq!(told(&mut watcher, 1).await, [next]);
}

#[tokio::test(start_paused = true)]
async fn who_missed_something_is_told() {
    let f = Fixture::loaded().await;
    let named = || kevel_store::cache::Selection {
        fields: "metadata.name=a".parse().unwrap(),
        ..everything()
    };
    let mut log = f.pods.watch(everything(), Revision(1)).await.unwrap();
    let mut queue = f.pods.watch(named(), Revision(1)).await.unwrap();
    miss_a_write(&f, "a").await;
    for watcher in [&mut log, &mut queue] {
        let ended = timeout(LONG, watcher.next(&mut Vec::new())).await.expect("silence");
        assert!(matches!(ended, Err(CacheError::Expired { .. })), "{ended:?}");
        assert_eq!(watcher.caught_up(), Revision(1), "no bookmark past what was missed");
    }
    let list = f.pods.snapshot(At::Consistent).await.unwrap();
    f.assert_true(&list);
}

#[tokio::test(start_paused = true)]
async fn watch_break_without_lost_events_goes_unnoticed() {
    let f = Fixture::loaded().await;
    let mut watcher = f.pods.watch(everything(), Revision(1)).await.unwrap();
    let mut written = Vec::new();
    for turn in 0..5 {
        written.push(f.put("a"));
        f.model.end_watch(Error::Unavailable("cut".into()));
        written.push(f.put("b"));
        if turn % 2 == 0 {
            f.model.faults(|faults| faults.open = true);
            sleep(Duration::from_secs(1)).await;
            assert!(f.caches.watching().is_err(), "it is said why");
            f.model.faults(|faults| faults.open = false);
        }
        let list = f.pods.snapshot(At::Consistent).await.unwrap();
        f.assert_true(&list);
    }
    assert_eq!(told(&mut watcher, written.len()).await, written);
    assert_eq!(f.model.watches(), 6);
    assert_eq!(health(&f.caches), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn late_load_of_an_earlier_epoch_is_dropped() {
    let f = Fixture::new();
    f.model.faults(|faults| faults.hold_lists = true);
    f.put("a");
    sleep(Duration::from_secs(1)).await;
    // The first load has read and does not answer; meanwhile the watch is lost and opened again.
    let written = miss_a_write(&f, "a").await;
    sleep(Duration::from_secs(1)).await;
    let last = f.put("b");
    sleep(Duration::from_secs(1)).await;
    f.model.faults(|faults| faults.hold_lists = false);
    let list = f.pods.snapshot(At::Consistent).await.unwrap();
    f.assert_true(&list);
    assert_eq!(list.revision(), Revision(last));
    let from_then = f.pods.watch(everything(), Revision(written)).await.unwrap();
    assert_eq!(told(&mut { from_then }, 1).await, [last]);
}

#[tokio::test(start_paused = true)]
async fn resource_that_cannot_load_is_named_and_blocks_no_other() {
    let f = Fixture::loaded().await;
    f.model.faults(|faults| faults.list = true);
    let gadgets = f.caches.add(resource("/registry/gadgets/"));
    let refused = gadgets.snapshot(At::Consistent).await.unwrap_err();
    let text = "storage is (re)initializing: store unavailable: listing is told to fail";
    assert_eq!(refused.to_string(), text);
    let trouble = f.caches.loading().unwrap_err();
    assert_eq!(trouble, "/registry/gadgets/: store unavailable: listing is told to fail");
    f.put("a");
    let list = f.pods.snapshot(At::Consistent).await.unwrap();
    assert_eq!(list.revision(), Revision(2), "the others go on");
    f.model.faults(|faults| faults.list = false);
    assert_eq!(gadgets.snapshot(At::Consistent).await.unwrap().revision(), Revision(2));
    assert_eq!(health(&f.caches), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn error_of_an_initial_watch_is_named() {
    let f = Fixture::new();
    f.model.faults(|faults| faults.open = true);
    f.model.end_watch(Error::Unavailable("cut".into()));
    let gadgets = f.caches.add(resource("/registry/gadgets/"));
    sleep(Duration::from_secs(1)).await;
    assert!(f.caches.watching().unwrap_err().starts_with("store unavailable"));
    f.caches.remove("/registry/gadgets/");
    assert_eq!(gadgets.loaded().await, Err(CacheError::Closed));
    f.model.faults(|faults| faults.open = false);
    f.put("a");
    assert_eq!(f.pods.snapshot(At::Consistent).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_progress_a_consistent_read_fails_and_is_not_stale() {
    let f = Fixture::loaded().await;
    f.model.faults(|faults| faults.hold_progress = true);
    f.model.put("/elsewhere", OBJECT);
    let refused = f.pods.snapshot(At::Consistent).await;
    assert!(matches!(refused, Err(CacheError::TooLarge { .. })), "{refused:?}");
    f.model.faults(|faults| faults.hold_progress = false);
    assert_eq!(f.pods.snapshot(At::Consistent).await.unwrap().revision(), Revision(2));
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_is_replaced_answers_from_the_engine() {
    let f = Fixture::loaded().await;
    f.model.faults(|faults| faults.hold_stream = true);
    let written = f.put("a");
    let waiting = tokio::spawn({
        let pods = f.pods.clone();
        async move { pods.snapshot(At::Consistent).await }
    });
    sleep(Duration::from_millis(10)).await;
    let new = f.caches.replace(resource(PODS));
    sleep(Duration::from_millis(10)).await;
    f.model.faults(|faults| faults.hold_stream = false);
    // The new cache gets the event, the old one does not: progress must not count for the old one.
    assert_eq!(new.snapshot(At::Consistent).await.unwrap().revision(), Revision(written));
    let list = waiting.await.unwrap().unwrap();
    assert_eq!(list.revision(), Revision(written));
    f.assert_true(&list);
    assert_eq!(f.pods.latest().revision(), Revision(1), "frozen where it was");
}

#[tokio::test(start_paused = true)]
async fn a_compaction_between_pages_restarts_a_load() {
    let f = Fixture::loaded().await;
    for i in 0..1500 {
        f.put(&format!("{i:04}"));
    }
    f.model.faults(|faults| faults.hold_lists = true);
    f.caches.replace(resource(PODS));
    sleep(Duration::from_secs(1)).await;
    f.put("last");
    let pods = f.caches.add(resource(PODS));
    f.model.compact_all();
    f.model.faults(|faults| faults.hold_lists = false);
    let list = pods.snapshot(At::Consistent).await.unwrap();
    assert_eq!(list.len(), 1501);
    f.assert_true(&list);
}

#[tokio::test(start_paused = true)]
async fn caches_reload_from_a_restored_store() {
    let f = Fixture::loaded().await;
    for name in ["a", "b", "c"] {
        f.put(name);
    }
    let before = f.pods.snapshot(At::Consistent).await.unwrap();
    let mut watcher = f.pods.watch(everything(), before.revision()).await.unwrap();
    f.model.restore(2);
    let after = f.pods.snapshot(At::Consistent).await.unwrap();
    assert_eq!((after.revision(), after.len()), (Revision(2), 1));
    f.assert_true(&after);
    let ended = timeout(LONG, watcher.next(&mut Vec::new())).await.expect("silence");
    assert!(matches!(ended, Err(CacheError::Expired { .. })), "{ended:?}");
    // The old revisions are in the future now: they are refused, not waited for.
    let mut ahead = f.pods.watch(everything(), before.revision()).await.unwrap();
    for refused in [
        ahead.next(&mut Vec::new()).await,
        f.pods.snapshot(At::NotOlderThan(before.revision())).await.map(|_| ()),
        f.pods.snapshot(At::Exact(before.revision())).await.map(|_| ()),
    ] {
        assert!(matches!(refused, Err(CacheError::TooLarge { .. })), "{refused:?}");
    }
    // The same revisions have another history now.
    let mut watcher = f.pods.watch(everything(), after.revision()).await.unwrap();
    let written = [f.put("d"), f.put("e")];
    assert_eq!(told(&mut watcher, 2).await, written);
    let again = f.pods.snapshot(At::Exact(before.revision())).await.unwrap();
    f.assert_true(&again);
    assert_eq!(again.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_watch_does_not_repeat_what_its_revision_has() {
    let f = Fixture::loaded().await;
    f.model.faults(|faults| faults.hold_stream = true);
    let (first, second) = (f.put("a"), f.put("b"));
    let starting = tokio::spawn({
        let pods = f.pods.clone();
        async move { pods.watch(everything(), Revision(first)).await }
    });
    sleep(Duration::from_millis(10)).await;
    f.model.faults(|faults| faults.hold_stream = false);
    let mut watcher = starting.await.unwrap().unwrap();
    assert_eq!(told(&mut watcher, 1).await, [second]);
}

#[tokio::test(start_paused = true)]
async fn an_empty_store_has_a_revision_too() {
    let f = Fixture::loaded().await;
    let list = f.things.snapshot(At::Consistent).await.unwrap();
    assert_eq!((list.revision(), list.len()), (Revision(1), 0));
    let mut watcher = f.things.watch(everything(), list.revision()).await.unwrap();
    let written = f.model.put(&format!("{THINGS}a"), OBJECT);
    assert_eq!(told(&mut watcher, 1).await, [written]);
}

#[tokio::test(start_paused = true)]
async fn ended_cache_returns_errors_instead_of_stale_data() {
    let f = Fixture::loaded().await;
    let gadgets = Resource { decode: Arc::new(Panics), ..resource("/registry/gadgets/") };
    f.caches.add(gadgets).loaded().await.unwrap();
    f.model.put("/registry/gadgets/a", OBJECT);
    let dead = async {
        while f.caches.alive().is_ok() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, dead).await.expect("it is noticed");
    let why = "store unavailable: the watch cache has panicked: undecodable";
    assert_eq!(f.caches.alive().unwrap_err().to_string(), why);
    f.put("a");
    let refused = f.pods.snapshot(At::Consistent).await;
    assert!(matches!(refused, Err(CacheError::Store(Error::Unavailable(_)))), "{refused:?}");
}

struct Panics;

impl Decode for Panics {
    fn decode(&self, _: &bytes::Bytes, _: Revision) -> Result<Wire, String> {
        panic!("undecodable")
    }
}
