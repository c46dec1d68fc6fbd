//! Concurrent writers, and a checker that replays their acknowledged writes.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use kevel_store::{Engine, Error, Event, RangeOptions, Revision};
use kevel_test_support::PATIENCE;

use crate::engines::{events_until, owned, show_event};

const KEYS: u64 = 6;

/// A write that was acknowledged.
#[derive(Debug, Clone)]
struct Acknowledged {
    revision: u64,
    key: String,
    /// `None` for a deletion.
    value: Option<String>,
    /// The revision it replaced; 0 for a creation.
    replaced: u64,
    /// The newest revision acknowledged to any writer before this write began.
    known_before: u64,
}

/// A small generator, so that a failing run can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Writes at random until `count` writes are acknowledged.
async fn write(
    store: Arc<dyn Engine>,
    seed: u64,
    count: usize,
    newest: Arc<AtomicU64>,
) -> Vec<Acknowledged> {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut log = Vec::new();
    // This writer's last known revision of each key; 0 for absent.
    let mut belief: HashMap<String, u64> = HashMap::new();
    while log.len() < count {
        let key = format!("/k/{}", dice.roll(KEYS));
        let replaced = belief.get(&key).copied().unwrap_or(0);
        let value = (replaced == 0 || dice.roll(4) != 0).then(|| format!("{seed}-{}", log.len()));
        let known_before = newest.load(Ordering::SeqCst);
        let expected = Revision(replaced);
        let outcome = match &value {
            Some(value) if replaced == 0 => store.create(key.as_bytes(), owned(value), None).await,
            Some(value) => store.update(key.as_bytes(), owned(value), expected, None).await,
            None => store.delete(key.as_bytes(), expected).await,
        };
        match outcome {
            Ok(revision) => {
                newest.fetch_max(revision.0, Ordering::SeqCst);
                belief.insert(key.clone(), if value.is_some() { revision.0 } else { 0 });
                let revision = revision.0;
                log.push(Acknowledged { revision, key, value, replaced, known_before });
            }
            Err(Error::Exists(entry) | Error::Conflict(entry)) => {
                assert_ne!(entry.mod_revision.0, replaced, "refused for no reason");
                belief.insert(key, entry.mod_revision.0);
            }
            Err(Error::NotFound) => {
                belief.insert(key, 0);
            }
            Err(error) => panic!("{error}"),
        }
    }
    log
}

/// Replays acknowledged writes in order of revision; returns the expected events.
fn replay(mut log: Vec<Acknowledged>) -> Vec<String> {
    log.sort_by_key(|write| write.revision);
    let mut state: HashMap<String, (u64, u64, String)> = HashMap::new();
    let mut history = Vec::new();
    for (place, write) in log.into_iter().enumerate() {
        assert_eq!(write.revision, place as u64 + 2, "revisions have no gaps and no repeats");
        assert!(write.revision > write.known_before, "written before it was asked for: {write:?}");
        let before = state.remove(&write.key);
        let held = before.as_ref().map_or(0, |(_, revision, _)| *revision);
        assert_eq!(write.replaced, held, "compared with a value that was not there: {write:?}");
        let side = |entry: &Option<(u64, u64, String)>| match entry {
            None => "none".to_string(),
            Some((created, revision, value)) => {
                format!("{}={value}@{created}/{revision}", write.key)
            }
        };
        let after = write.value.clone().map(|value| {
            let created = before.as_ref().map_or(write.revision, |(created, ..)| *created);
            (created, write.revision, value)
        });
        history.push(format!("{}: {} -> {}", write.revision, side(&before), side(&after)));
        if let Some(after) = after {
            state.insert(write.key, after);
        }
    }
    history
}

fn told(events: &[Event]) -> Vec<String> {
    events.iter().map(show_event).collect()
}

crate::contract! {
    async fn writes_are_linearizable_and_watchers_see_the_same_history(store: &Store) {
        const WRITERS: u64 = 8;
        const WRITES: usize = 40;
        let last = Revision(1 + WRITERS * WRITES as u64);
        let live: Vec<_> = (0..4)
            .map(|_| {
                let engine = store.engine();
                tokio::spawn(async move {
                    let mut watch = engine.watch(b"/k/", Revision(1)).await.unwrap();
                    events_until(&mut watch, Revision(1), last).await
                })
            })
            .collect();
        let newest = Arc::new(AtomicU64::new(1));
        let writers: Vec<_> = (1..=WRITERS)
            .map(|seed| tokio::spawn(write(store.engine(), seed, WRITES, newest.clone())))
            .collect();
        let mut log = Vec::new();
        for writer in writers {
            log.extend(writer.await.unwrap());
        }
        let history = replay(log);
        for watch in live {
            assert_eq!(told(&watch.await.unwrap()), history, "live");
        }
        for after in 1..=last.0 {
            let mut watch = store.watch(b"/k/", Revision(after)).await.unwrap();
            let events = events_until(&mut watch, Revision(after), last).await;
            assert_eq!(told(&events), history[after as usize - 1..], "after {after}");
        }
        let present = store.range(b"/k/", RangeOptions::default()).await.unwrap();
        let exact = RangeOptions { revision: Some(last), ..RangeOptions::default() };
        assert_eq!(store.range(b"/k/", exact).await.unwrap(), present);
    }

    /// A client that found a response ahead of it would take the store for one restored from a backup.
    async fn no_answer_is_ahead_of_the_current_revision(store: &Store) {
        let newest = Arc::new(AtomicU64::new(1));
        let writers: Vec<_> = (1..=4)
            .map(|seed| tokio::spawn(write(store.engine(), seed, 40, newest.clone())))
            .collect();
        let mut watch = store.watch(b"/k/", Revision(1)).await.unwrap();
        let mut told = Revision(1);
        let started = kevel_clock::monotonic_now();
        while told < Revision(1 + 4 * 40) {
            assert!(started.elapsed() < PATIENCE, "only at {told}");
            told = told.max(store.range(b"/k/", RangeOptions::default()).await.unwrap().revision);
            let current = store.current_revision().await.unwrap();
            assert!(current >= told, "the store was at {told} and is at {current}");
            if let Ok(response) = tokio::time::timeout(Duration::ZERO, watch.next()).await {
                told = told.max(response.unwrap().revision);
                let current = store.current_revision().await.unwrap();
                assert!(current >= told, "the watch was at {told}, the store is at {current}");
            }
        }
        for writer in writers {
            writer.await.unwrap();
        }
    }
}
