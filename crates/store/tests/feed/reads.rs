//! Reads and watches where epochs, loads and logs meet: what they show is true of one history, and complete.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use kevel_store::Revision;
use kevel_store::cache::{
    At, Cache, CacheError, Decode, JsonDecode, KeyOrder, Resource, Selection, Wire,
};
use tokio::time::{sleep, timeout};

use crate::engine::Model;
use crate::{Fixture, OBJECT, PODS, everything, resource, shown, told};

const GADGETS: &str = "/registry/gadgets/";
/// Longer than any wait of a read, on tokio's paused clock.
const LONG: Duration = Duration::from_secs(60);
/// Keys of a load of three pages.
const THREE_PAGES: usize = 2500;

fn named(name: &str) -> Selection {
    Selection { fields: format!("metadata.name={name}").parse().unwrap(), ..everything() }
}

/// The state of a cache that is loaded again is the last one that it has confirmed: a consistent read waits, though
/// the store may say the same revision.
#[tokio::test(start_paused = true)]
async fn consistent_read_waits_for_the_load_of_another_history() {
    let f = Fixture::loaded().await;
    let before = f.put("a");
    f.pods.snapshot(At::Consistent).await.unwrap();
    // The history goes on unseen and is compacted, so that the caches are loaded again; the load does not answer.
    f.model.faults(|faults| (faults.hold_stream, faults.hold_lists) = (true, true));
    f.put("b");
    f.model.compact_all();
    f.model.faults(|faults| faults.hold_stream = false);
    sleep(Duration::from_secs(1)).await;
    // A backup is restored, and another history comes to the revision that the cache shows.
    f.model.restore(2);
    assert_eq!(f.put("c"), before);
    assert_eq!(shown(&f.pods.latest()).keys().collect::<Vec<_>>(), ["a"], "as it was");
    let refused = f.pods.snapshot(At::Consistent).await;
    assert!(matches!(refused, Err(CacheError::TooLarge { .. })), "{refused:?}");
    f.model.faults(|faults| faults.hold_lists = false);
    let list = timeout(LONG, async {
        loop {
            if let Ok(list) = f.pods.snapshot(At::Consistent).await {
                break list;
            }
        }
    });
    f.assert_true(&list.await.expect("it is loaded"));
}

/// Pages of a list read a past revision again and again; after the restore of a backup the same revision is another.
#[tokio::test(start_paused = true)]
async fn past_revision_is_that_of_the_present_history() {
    let f = Fixture::loaded().await;
    for name in ["a", "b", "c"] {
        f.put(name);
    }
    f.pods.snapshot(At::Consistent).await.unwrap();
    for names in [["d", "e"], ["f", "g"]] {
        for revision in [3, 2, 3, 3] {
            let past = f.pods.snapshot(At::Exact(Revision(revision))).await.unwrap();
            assert_eq!(past.revision(), Revision(revision));
            f.assert_true(&past);
        }
        f.model.restore(2);
        f.pods.snapshot(At::Consistent).await.unwrap();
        for name in names {
            f.put(name);
        }
        f.pods.snapshot(At::Consistent).await.unwrap();
    }
}

/// Decoder that changes the store while the first page of a load is decoded.
struct Meddler {
    model: Model,
    json: JsonDecode,
    done: AtomicBool,
}

fn gadget(number: usize) -> String {
    format!("{GADGETS}{number:04}")
}

impl Decode for Meddler {
    fn decode(&self, stored: &Bytes, revision: Revision) -> Result<Wire, String> {
        if !self.done.swap(true, Ordering::SeqCst) {
            // In a page that has been read, and in one that has not.
            self.model.remove(&gadget(0));
            self.model.remove(&gadget(THREE_PAGES - 1));
            self.model.put(&gadget(THREE_PAGES), OBJECT);
        }
        self.json.decode(stored, revision)
    }
}

#[tokio::test(start_paused = true)]
async fn pages_of_a_load_are_of_one_revision() {
    let f = Fixture::loaded().await;
    f.model.create_all((0..THREE_PAGES).map(gadget), OBJECT);
    let decode = Arc::new(Meddler {
        model: f.model.clone(),
        json: JsonDecode { order: KeyOrder::Struct },
        done: AtomicBool::new(false),
    });
    let gadgets = f.caches.add(Resource { decode: decode.clone(), ..resource(GADGETS) });
    gadgets.loaded().await.unwrap();
    assert!(decode.done.load(Ordering::SeqCst), "something was written meanwhile");
    f.assert_true_of(GADGETS, &gadgets.latest());
    let list = gadgets.snapshot(At::Consistent).await.unwrap();
    assert_eq!(list.len(), THREE_PAGES - 1);
    f.assert_true_of(GADGETS, &list);
}

/// A bookmark tells a client that it has everything up to a revision.
#[tokio::test(start_paused = true)]
async fn bookmark_does_not_pass_events_that_wait() {
    let f = Fixture::loaded().await;
    f.put("a");
    f.pods.snapshot(At::Consistent).await.unwrap();
    for name in [None, Some("a"), Some("none")] {
        for before in [1, 0] {
            let start = Revision(f.model.revision() - before);
            let selection = name.map_or_else(everything, named);
            let mut watcher = f.pods.watch(selection, start).await.unwrap();
            assert!(watcher.caught_up() >= start);
            let mut expected = f.model.changes(PODS);
            expected.push(f.put("a"));
            expected.retain(|revision| *revision > start.0);
            f.model.put("/registry/others/a", OBJECT);
            let reached = f.pods.snapshot(At::Consistent).await.unwrap().revision();
            let what = format!("{name:?} after {start}");
            if name != Some("none") {
                let first = expected[0];
                assert!(watcher.caught_up().0 < first, "{what}: {first} was not told yet");
                assert_eq!(told(&mut watcher, expected.len()).await, expected, "{what}");
            } else {
                let silent = timeout(LONG, watcher.next(&mut Vec::new())).await;
                assert!(silent.is_err(), "{what}: {silent:?}");
            }
            assert_eq!(watcher.caught_up(), reached, "{what}");
        }
    }
}

/// The snapshot of a watch that begins with one is as fresh as it was asked for, also of a cache that is replaced.
#[tokio::test(start_paused = true)]
async fn list_and_watch_begins_with_what_was_asked_for() {
    let f = Fixture::loaded().await;
    f.put("a");
    f.pods.snapshot(At::Consistent).await.unwrap();
    let new = f.caches.replace(resource(PODS));
    sleep(Duration::from_millis(10)).await;
    let last = f.put("b");
    new.snapshot(At::Consistent).await.unwrap();
    for (which, cache) in [("old", &f.pods), ("new", &new)] {
        for at in [At::Consistent, At::NotOlderThan(Revision(last)), At::Any] {
            let (list, _) = Cache::list_watch(cache, everything(), at).await.unwrap();
            let what = format!("{which}, {at:?}");
            assert_eq!(list.revision(), Revision(last), "{what}");
            f.assert_true(&list);
        }
    }
    let (_, mut watcher) = f.pods.list_watch(everything(), At::Consistent).await.unwrap();
    let ended = timeout(LONG, watcher.next(&mut Vec::new())).await.expect("silence");
    assert_eq!(ended, Err(CacheError::Closed), "it gets no events any more");
}

/// Events from before the load are read from the engine's history, which goes on: those since the load are in the log.
#[tokio::test(start_paused = true)]
async fn recalled_events_come_once() {
    for batches in [false, true] {
        let f = Fixture::loaded().await;
        f.model.faults(|faults| faults.batches = batches);
        for name in ["a", "b", "c"] {
            f.model.put(&format!("{GADGETS}{name}"), OBJECT);
            f.put(name);
        }
        let gadgets = f.caches.add(resource(GADGETS));
        gadgets.loaded().await.unwrap();
        for name in ["a", "d"] {
            f.put(name);
            f.model.put(&format!("{GADGETS}{name}"), OBJECT);
        }
        let last = gadgets.snapshot(At::Consistent).await.unwrap().revision();
        let changes = f.model.changes(GADGETS);
        // The later ones first: each is recalled on its own.
        for after in (1..last.0).rev() {
            let expected: Vec<u64> = changes.iter().copied().filter(|r| *r > after).collect();
            let mut watcher = gadgets.watch(everything(), Revision(after)).await.unwrap();
            let found = told(&mut watcher, expected.len()).await;
            assert_eq!(found, expected, "after {after}, batches: {batches}");
            assert_eq!(watcher.caught_up(), last, "after {after}, batches: {batches}");
        }
    }
}

/// Events that a log has dropped or missed are not read again from the engine: a client that comes from there lists.
#[tokio::test(start_paused = true)]
async fn events_before_a_gap_are_not_recalled() {
    let f = Fixture::loaded().await;
    let first = f.put("a");
    f.pods.snapshot(At::Consistent).await.unwrap();
    f.model.faults(|faults| faults.hold_stream = true);
    f.put("b");
    f.model.compact_all();
    f.model.faults(|faults| faults.hold_stream = false);
    let list = f.pods.snapshot(At::Consistent).await.unwrap();
    let watches = f.model.watches();
    for after in [1, first] {
        let refused = f.pods.watch(everything(), Revision(after)).await.map(|_| ());
        assert!(matches!(refused, Err(CacheError::Expired { .. })), "{after}: {refused:?}");
    }
    assert_eq!(f.model.watches(), watches, "the engine was asked in vain");
    f.pods.watch(everything(), list.revision()).await.unwrap();
}
