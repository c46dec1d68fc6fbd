//! All failures together, in orders that a seed determines.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kevel_store::Error;
use kevel_store::cache::{At, Cache, CacheError, Caches, Snapshot, Watcher};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::engine::Faults;
use crate::{Fixture, PODS, everything, health, resource};

const SEEDS: u64 = 150;
const STEPS: usize = 60;
/// Longer than anything that ends takes, on tokio's paused clock.
const LONG: Duration = Duration::from_secs(600);

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % sides
    }
}

/// A watch from a list's revision, and its events.
struct Watching {
    start: u64,
    told: Arc<Mutex<Vec<u64>>>,
    /// Number of restores before the watch began.
    restores: u64,
    task: tokio::task::JoinHandle<Watcher>,
}

fn follow(mut watcher: Watcher, start: u64, restores: u64) -> Watching {
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = told.clone();
    let task = tokio::spawn(async move {
        loop {
            let mut seen = Vec::new();
            let next = watcher.next(&mut seen).await;
            log.lock().unwrap().extend(seen.iter().map(|d| d.event.revision().0));
            match next {
                Ok(()) => {}
                Err(CacheError::Expired { .. } | CacheError::Closed) => return watcher,
                Err(error) => panic!("{error}"),
            }
        }
    });
    Watching { start, told, restores, task }
}

#[tokio::test(start_paused = true)]
async fn what_is_shown_and_told_stays_true_whatever_fails() {
    let (mut lists, mut whole, mut ended) = (0, 0, 0);
    for seed in 1..=SEEDS {
        let counts = run(seed).await;
        lists += counts.0;
        whole += counts.1;
        ended += counts.2;
    }
    println!(
        "{lists} consistent lists, {whole} watches told everything, {ended} told to start over"
    );
    assert!(lists > SEEDS && whole > SEEDS / 2 && ended > SEEDS);
}

/// A consistent list without faults, which has to succeed.
async fn consistent(f: &Fixture, pods: &Cache, seed: u64) -> Snapshot {
    f.model.faults(|faults| *faults = Faults::default());
    let list = timeout(LONG, async {
        loop {
            if let Ok(list) = pods.snapshot(At::Consistent).await {
                return list;
            }
        }
    });
    let list = list.await.unwrap_or_else(|_| panic!("seed {seed}: {:?}", health(&f.caches)));
    f.assert_true(&list);
    list
}

async fn run(seed: u64) -> (u64, u64, u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let f = Arc::new(Fixture::new());
    let caches: &Caches = &f.caches;
    let mut pods = f.pods.clone();
    let (mut restores, mut count) = (0, 0);
    let mut watching: Vec<Watching> = Vec::new();
    let mut reads = JoinSet::new();
    for _ in 0..STEPS {
        match dice.roll(18) {
            0..=3 => drop(f.put(["a", "b", "c"][dice.roll(3) as usize])),
            4 if f.model.state_at(PODS, u64::MAX).contains_key("a") => {
                f.model.remove(&format!("{PODS}a"));
            }
            5 => f.model.compact_all(),
            6 => f.model.end_watch(Error::Unavailable("cut".into())),
            7 => f.model.faults(|faults| faults.open = !faults.open),
            8 => f.model.faults(|faults| faults.list = !faults.list),
            9 | 10 => f.model.faults(|faults| faults.hold_lists = !faults.hold_lists),
            11 => f.model.faults(|faults| faults.hold_stream = !faults.hold_stream),
            12 => f.model.faults(|faults| faults.hold_progress = !faults.hold_progress),
            13 => f.model.faults(|faults| faults.current = !faults.current),
            14 if dice.roll(4) == 0 => {
                // Caches are current before and after the restore: otherwise the same revision of two histories could
                // not be told apart.
                consistent(&f, &pods, seed).await;
                f.model.restore(2);
                restores += 1;
                consistent(&f, &pods, seed).await;
            }
            15 if dice.roll(3) == 0 => pods = caches.replace(resource(PODS)),
            16 => sleep(Duration::from_millis(dice.roll(700))).await,
            _ => {
                // A list that must have everything written so far, and a watch from there.
                let (pods, least) = (pods.clone(), f.model.revision());
                reads.spawn(async move {
                    let Ok(list) = pods.snapshot(At::Consistent).await else { return None };
                    let watcher = pods.watch(everything(), list.revision()).await.ok();
                    Some((least, restores, list, watcher))
                });
            }
        }
        for _ in 0..dice.roll(40) {
            tokio::task::yield_now().await;
        }
        while let Some(read) = reads.try_join_next() {
            let Some((least, before, list, watcher)) = read.unwrap() else { continue };
            if before != restores {
                continue;
            }
            assert!(list.revision().0 >= least, "seed {seed}: a stale list");
            f.assert_true(&list);
            count += 1;
            watching.extend(watcher.map(|watcher| follow(watcher, list.revision().0, restores)));
        }
    }
    let list = consistent(&f, &pods, seed).await;
    assert_eq!(list.revision().0, f.model.revision());
    // One more write, so that a watch that is behind gets an event.
    f.put("end");
    timeout(LONG, pods.snapshot(At::Consistent)).await.unwrap().unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(health(caches), Ok(()), "seed {seed}");
    let (mut whole, mut ended) = (0, 0);
    for Watching { start, told, restores: before, task } in watching {
        let told = told.lock().unwrap().clone();
        let over = task.is_finished();
        task.abort();
        if before != restores {
            assert!(over, "seed {seed}: a watch of another history goes on");
            ended += 1;
            continue;
        }
        let mut expected = f.model.changes(PODS);
        expected.retain(|revision| *revision > start);
        if over {
            expected.truncate(told.len());
            ended += 1;
        } else {
            whole += 1;
        }
        assert_eq!(told, expected, "seed {seed}: from {start}");
    }
    (count, whole, ended)
}
