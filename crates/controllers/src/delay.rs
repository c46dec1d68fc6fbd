//! Keys that are queued later.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kevel_api::time::Time;
use kevel_clock::{Clock, Moment};
use kevel_controller_runtime::WorkQueue;
use tokio::sync::Notify;

use crate::object::wait_until;

/// Longest wait for a wall time, after which it is looked at again: machines' clocks are set.
const MAX_WAIT: Duration = Duration::from_secs(60 * 60);

/// Adds keys to a work queue at moments of the server's clock; of two moments of a key, the earlier one counts
/// (upstream: `DelayingInterface`).
#[derive(Debug)]
pub(crate) struct Delays {
    clock: Clock,
    queue: Arc<WorkQueue>,
    state: Mutex<DelayState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct DelayState {
    order: BTreeSet<(Moment, String)>,
    due: HashMap<String, Moment>,
}

impl Delays {
    pub fn new(clock: Clock, queue: Arc<WorkQueue>) -> Arc<Self> {
        Arc::new(Delays { clock, queue, state: Mutex::default(), changed: Notify::new() })
    }

    /// Adds a key after a wait; at once if there is none.
    pub fn add_after(&self, key: &str, wait: Duration) {
        if wait.is_zero() {
            self.queue.add(key);
            return;
        }
        self.add_due(key, self.clock.moment() + wait);
    }

    /// Adds a key at a wall time, or an hour from now if that is earlier. Returns false, and adds nothing, if the time
    /// has come.
    pub fn add_at(&self, key: &str, time: Time) -> bool {
        // In this order: a clock that is advanced in between makes the wait shorter, not longer.
        let now = self.clock.moment();
        let wait = wait_until(time, &self.clock);
        if wait.is_zero() {
            return false;
        }
        self.add_due(key, now + wait.min(MAX_WAIT));
        true
    }

    /// Adds a key at a moment of the clock.
    pub fn add_due(&self, key: &str, due: Moment) {
        let mut state = self.lock();
        let known = state.due.get(key).copied();
        if known.is_some_and(|known| known <= due) {
            return;
        }
        if let Some(known) = known {
            state.order.remove(&(known, key.to_owned()));
        }
        state.due.insert(key.to_owned(), due);
        state.order.insert((due, key.to_owned()));
        drop(state);
        self.changed.notify_one();
    }

    /// Adds the keys when they are due, for ever.
    pub async fn run(&self) {
        loop {
            let changed = self.changed.notified();
            match self.take_due() {
                None => changed.await,
                Some(next) => {
                    tokio::select! {
                        () = self.clock.sleep_until(next) => {}
                        () = changed => {}
                    }
                }
            }
        }
    }

    /// Queues the keys that are due; returns the moment of the next one.
    fn take_due(&self) -> Option<Moment> {
        let now = self.clock.moment();
        let mut state = self.lock();
        while let Some((due, key)) = state.order.pop_first() {
            kevel_compute::charge(1);
            if due > now {
                state.order.insert((due, key));
                return Some(due);
            }
            state.due.remove(&key);
            self.queue.add(&key);
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, DelayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use kevel_clock::ManualClock;
    use kevel_controller_runtime::Backoff;

    use super::*;

    #[tokio::test]
    async fn keys_are_queued_once_at_their_earliest_moment() {
        let manual = ManualClock::at_present();
        let queue = WorkQueue::new(Backoff::default());
        let delays = Delays::new(manual.clock(), queue.clone());
        for (key, seconds) in [("a", 20), ("a", 10), ("a", 30), ("b", 15)] {
            delays.add_after(key, Duration::from_secs(seconds));
        }
        let timers = delays.clone();
        tokio::spawn(async move { timers.run().await });
        for expected in ["a", "b"] {
            assert!(queue.is_empty());
            manual.advance(Duration::from_secs(10));
            assert_eq!(queue.next().await.as_deref(), Some(expected));
            queue.done(expected);
        }
        manual.advance(Duration::from_secs(60));
        delays.add_after("c", Duration::ZERO);
        assert_eq!(queue.next().await.as_deref(), Some("c"));
    }
}
