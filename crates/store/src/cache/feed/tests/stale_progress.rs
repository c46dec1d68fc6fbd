//! Readers that took the watch's progress and read the cache only later: in between the epoch may have ended, and the
//! store may have been restored from a backup, so that the same revisions are of another history.

use super::*;

/// Checks that a reader's conclusion from progress that it took earlier is true of the present store.
fn check_stale(world: &World, taken: &[Progress]) {
    for cache in &world.caches {
        let shown = cache.current.load();
        if shown.epoch.is_none() {
            continue;
        }
        let objects = shown.snapshot.range("", None);
        let objects: BTreeMap<String, u64> =
            objects.map(|o| (o.key().to_owned(), o.revision().0)).collect();
        for progress in taken {
            let reached = shown.reached(*progress).0;
            assert!(reached <= world.revision(), "{progress:?}: a list of the future");
            let expected = world.state(cache.prefix(), reached);
            assert_eq!(objects, expected, "{progress:?} of {} at {reached}", cache.prefix());
        }
    }
}

/// Opens the watch, and completes all loads.
fn settle(world: &mut World) {
    world.take(Step::Open);
    while world.take(Step::Read { newest: false }) {}
    while world.take(Step::Answer { newest: false }) {}
    world.take(Step::Progress);
}

#[tokio::test]
async fn progress_of_an_earlier_epoch_counts_for_no_later_one() {
    let mut world = World::new(&engine(), BacklogLimit::default());
    for _ in 0..4 {
        world.take(Step::Write(0));
    }
    settle(&mut world);
    let before = *world.progress.borrow();
    world.take(Step::Lose);
    world.take(Step::Restore);
    settle(&mut world);
    let shown = world.caches[0].current.load();
    assert!(shown.follows(*world.progress.borrow()), "it is loaded again");
    assert!(!shown.follows(before), "of the history before the backup");
    assert_eq!(shown.reached(before).0, world.revision());
    check_stale(&world, &[before]);
}

#[tokio::test]
async fn progress_taken_at_any_time_promises_nothing_untrue() {
    let engine = engine();
    for seed in 1..=300u64 {
        let mut dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut roll = |sides: usize| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            (dice >> 33) as usize % sides
        };
        let steps: Vec<Step> = (0..60).map(|_| STEPS[roll(STEPS.len())]).collect();
        let _said_if_it_fails = Steps(&steps);
        let mut world = World::new(&engine, BacklogLimit::default());
        let mut taken = Vec::new();
        for step in &steps {
            world.take(*step);
            let progress = *world.progress.borrow();
            if taken.last() != Some(&progress) {
                taken.push(progress);
            }
            check_stale(&world, &taken);
        }
    }
}
