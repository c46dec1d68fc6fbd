//! Running requests, which shutdown waits for.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kevel_clock::timer_now;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

/// Lowest rate of ending watches: ending a few of them more slowly has no benefit.
const LEAST_DRAINED_PER_SECOND: f64 = 200.0;

/// Bit in the count that closes the group.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// Running requests. Entering and leaving are one atomic operation each.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use kevel_server::lifecycle::RequestGroup;
/// let requests = RequestGroup::default();
/// drop(requests.enter().expect("the server is not stopping"));
/// assert_eq!(requests.drain(std::time::Duration::from_secs(1)).await, 0);
/// assert!(requests.enter().is_none());
/// # });
/// ```
#[derive(Clone, Debug, Default)]
pub struct RequestGroup(Arc<Group>);

#[derive(Debug, Default)]
struct Group {
    count: AtomicUsize,
    changed: Notify,
    pace: OnceLock<Pace>,
}

/// Schedule of an evenly draining group.
#[derive(Debug)]
struct Pace {
    start: Instant,
    interval: Duration,
    /// Next position in the schedule.
    next: AtomicUsize,
}

/// A running request, which leaves the group on drop.
#[derive(Debug)]
pub struct InFlight(Arc<Group>);

impl RequestGroup {
    /// Adds a request; `None` once the group drains.
    pub fn enter(&self) -> Option<InFlight> {
        let before = self.0.count.fetch_add(1, Ordering::AcqRel);
        let entered = InFlight(self.0.clone());
        (before & CLOSED == 0).then_some(entered)
    }

    /// Number of running requests.
    pub fn count(&self) -> usize {
        self.0.count.load(Ordering::Acquire) & !CLOSED
    }

    /// Closes the group and waits until all requests have ended, at most for `limit`. Returns the number of those left.
    pub async fn drain(&self, limit: Duration) -> usize {
        self.close();
        let _ = timeout(limit, self.empty()).await;
        self.count()
    }

    /// Like [`drain`](Self::drain), and ends the requests by [`InFlight::turn`]: one after the other, evenly, all
    /// within `grace`.
    pub async fn drain_evenly(&self, grace: Duration) -> usize {
        self.close();
        let rate = self.count() as f64 / grace.as_secs_f64().max(f64::MIN_POSITIVE);
        let interval = match grace.is_zero() {
            true => Duration::ZERO,
            false => Duration::from_secs_f64(1.0 / rate.max(LEAST_DRAINED_PER_SECOND)),
        };
        let pace = Pace { start: timer_now(), interval, next: AtomicUsize::new(0) };
        let _ = self.0.pace.set(pace);
        self.0.changed.notify_waiters();
        let _ = timeout(grace, self.empty()).await;
        self.count()
    }

    fn close(&self) {
        self.0.count.fetch_or(CLOSED, Ordering::AcqRel);
    }

    async fn empty(&self) {
        self.0.wait_for(|| (self.count() == 0).then_some(())).await
    }
}

impl InFlight {
    /// Whether the group drains evenly.
    pub fn leaves_soon(&self) -> bool {
        self.0.pace.get().is_some()
    }

    /// Completes when the request must end because of the shutdown. If it is cancelled and called again, it may get a
    /// later turn.
    pub fn turn(&self) -> impl Future<Output = ()> + Send + use<> {
        let group = self.0.clone();
        async move {
            let at = group.wait_for(|| group.pace.get().map(Pace::place)).await;
            sleep_until(at).await;
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == CLOSED | 1 {
            self.0.changed.notify_waiters();
        }
    }
}

impl Group {
    async fn wait_for<T>(&self, condition: impl Fn() -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(value) = condition() {
                return value;
            }
            changed.await;
        }
    }
}

impl Pace {
    fn place(&self) -> Instant {
        let place = u32::try_from(self.next.fetch_add(1, Ordering::AcqRel)).unwrap_or(u32::MAX);
        self.start + self.interval.saturating_mul(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn draining_ends_when_the_last_one_leaves() {
        let group = RequestGroup::default();
        let (first, second) = (group.enter().unwrap(), group.enter().unwrap());
        assert_eq!(group.count(), 2);
        let draining = tokio::spawn({
            let group = group.clone();
            async move { group.drain(Duration::from_secs(10)).await }
        });
        tokio::task::yield_now().await;
        assert!(group.enter().is_none());
        drop(first);
        tokio::task::yield_now().await;
        assert!(!draining.is_finished());
        drop(second);
        assert_eq!(draining.await.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn draining_waits_no_longer_than_its_limit() {
        let group = RequestGroup::default();
        let _stays = group.enter();
        let start = timer_now();
        assert_eq!(group.drain(Duration::from_secs(10)).await, 1);
        assert_eq!(start.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn watches_end_one_after_the_other_within_the_grace_period() {
        for (watches, grace, expected) in [
            // At least 200 per second.
            (100, 10, 0.5),
            // 4,000 in 10 seconds: 400 per second.
            (4000, 10, 10.0),
        ] {
            let group = RequestGroup::default();
            for _ in 0..watches {
                let watch = group.enter().unwrap();
                tokio::spawn(async move {
                    let turn = watch.turn();
                    turn.await;
                    drop(watch);
                });
            }
            tokio::task::yield_now().await;
            let start = timer_now();
            assert_eq!(group.drain_evenly(Duration::from_secs(grace)).await, 0);
            let took = start.elapsed().as_secs_f64();
            assert!((took - expected).abs() < 0.1, "{watches} watches took {took}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_grace_period_watches_end_at_once() {
        let group = RequestGroup::default();
        let watch = group.enter().unwrap();
        assert_eq!(group.drain_evenly(Duration::ZERO).await, 1);
        watch.turn().await;
    }
}
