//! Tests of fair queuing, with explicit time.

mod dispatch;
mod fairness;
mod model;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::RequestDigest;
use crate::configuration::{FlowSchemaObject, LevelOfSchema};
use crate::observer::Unobserved;
use crate::priority_level::{PriorityLevel, Signal};

/// A flow schema that matches no request.
fn flow() -> Arc<FlowSchema> {
    let level = PriorityLevel::new(
        "l",
        Queuing::Reject,
        kevel_clock::timer_now(),
        Arc::<Signal>::default(),
    );
    let level = LevelOfSchema { level: Arc::new(level), uid: "".into(), queues: 0, max_seats: 0 };
    let object = FlowSchemaObject::new(&kevel_api::value::Value::Null);
    Arc::new(object.in_level(level, Arc::new(Unobserved)))
}

fn queues(deck: i64, hand: i64, length_limit: u32) -> Queuing {
    Queuing::Queue { dealer: Dealer::new(deck, hand).unwrap(), length_limit }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A queue set, and the time.
struct Bench {
    set: QueueSet,
    start: Instant,
    now: Instant,
    flow: Arc<FlowSchema>,
    /// Whether all invariants are checked after each event, which takes time.
    checked: bool,
}

impl Bench {
    fn new(queuing: Queuing, limit: u32) -> Self {
        let start = kevel_clock::timer_now();
        let mut set = QueueSet::new(start, queuing);
        set.set_limit(start, limit, limit.max(1));
        Bench { set, start, now: start, flow: flow(), checked: true }
    }

    /// Moves the time to `time` after the start.
    fn at(&mut self, time: Duration) -> &mut Self {
        self.now = self.start + time;
        self
    }

    fn arrive(&mut self, hash: u64, estimate: WorkEstimate) -> Arrival {
        let details = RequestDetails::new(&RequestDigest::default());
        let arrival = self.set.arrive(self.now, &self.flow, details, estimate, hash);
        self.check();
        arrival
    }

    /// Adds a request that must be executed at once.
    fn execute(&mut self, hash: u64, seats: u32) -> Slot {
        match self.arrive(hash, WorkEstimate::seats(seats)) {
            Arrival::Executing(slot) => slot,
            other => panic!("{other:?}"),
        }
    }

    /// Adds a request that must be queued.
    fn wait(&mut self, hash: u64, seats: u32) -> Slot {
        match self.arrive(hash, WorkEstimate::seats(seats)) {
            Arrival::Waiting(slot) => slot,
            other => panic!("{other:?}"),
        }
    }

    fn finish(&mut self, slot: Slot) {
        self.set.finish(self.now, slot);
        self.check();
    }

    fn tick(&mut self) {
        self.set.tick(self.now);
        self.check();
    }

    fn check(&self) {
        if self.checked {
            self.set.check();
        }
    }

    fn is_executing(&self, slot: Slot) -> bool {
        self.set.requests()[slot].started().is_some()
    }
}
