//! Backlog of a cache that is being loaded: the events of a load that takes too long are dropped, and it begins again.

use super::*;

/// Bytes of the first events of the model: key, and value before or after.
const EVENT_BYTES: usize = "/registry/pods/a".len() + r#"{"metadata":{"name":"x"}}"#.len();

#[tokio::test]
async fn full_backlog_begins_the_load_again() {
    let engine = engine();
    let unlimited = usize::MAX;
    for (events, bytes, fit) in [
        (2, unlimited, 2),
        (0, unlimited, 0),
        (unlimited, 2 * EVENT_BYTES, 2),
        (unlimited, 2 * EVENT_BYTES + 1, 2),
        (unlimited, 2 * EVENT_BYTES - 1, 1),
        (unlimited, unlimited, 3),
    ] {
        let limit = BacklogLimit { events, bytes };
        let mut world = World::new(&engine, limit);
        let first = world.unread[0].clone();
        for _ in 0..fit {
            world.take(Step::Write(0));
            world.take(Step::Deliver);
            assert!(world.followers.expects(&first), "{limit:?}: the backlog has room");
        }
        if fit == 3 {
            continue;
        }
        world.take(Step::Write(0));
        world.take(Step::Deliver);
        assert!(!world.followers.expects(&first), "{limit:?}: the backlog is full");
        let again = world.unread.last().unwrap().clone();
        assert!(world.followers.expects(&again), "{limit:?}");
        let too_old = world.snapshot(PREFIXES[0], world.revision() - 1);
        assert!(!world.followers.loaded(&again, too_old), "{limit:?}: it lacks the dropped events");
        let loaded = world.snapshot(PREFIXES[0], world.revision());
        assert!(world.followers.loaded(&again, loaded), "{limit:?}");
        world.check();
    }
}
