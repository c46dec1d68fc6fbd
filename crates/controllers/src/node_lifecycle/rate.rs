//! Rate at which nodes of a zone are tainted.

use std::time::Duration;

use kevel_clock::Moment;

/// Limit of one node at a time, and so many in a second (upstream: a token bucket with a burst of one).
#[derive(Debug)]
pub(super) struct RateLimit {
    per_second: f64,
    /// Moment from which on the next node may be tainted.
    free_at: Moment,
}

impl RateLimit {
    /// A limit that allows a node at once.
    pub fn new(per_second: f64, now: Moment) -> Self {
        RateLimit { per_second, free_at: now }
    }

    /// Whether a node may be tainted now; it counts.
    pub fn take(&mut self, now: Moment) -> bool {
        let free = self.per_second > 0.0 && self.free_at <= now;
        if free {
            self.free_at = now + self.interval();
        }
        free
    }

    /// Moment of the next node; `None` if there is none at this rate.
    pub fn next(&self) -> Option<Moment> {
        (self.per_second > 0.0).then_some(self.free_at)
    }

    /// Sets the rate. A limit that is used up stays used up, now at the new rate.
    pub fn set(&mut self, per_second: f64, now: Moment) {
        if (self.per_second - per_second).abs() < f64::EPSILON {
            return;
        }
        let was_free = self.per_second > 0.0 && self.free_at <= now;
        self.per_second = per_second;
        self.free_at = if was_free { now } else { now + self.interval() };
    }

    fn interval(&self) -> Duration {
        if self.per_second > 0.0 {
            Duration::from_secs_f64(1.0 / self.per_second)
        } else {
            Duration::ZERO
        }
    }
}

#[cfg(test)]
mod tests {
    use kevel_clock::ManualClock;

    use super::*;

    #[test]
    fn one_node_passes_in_each_interval() {
        let manual = ManualClock::at_present();
        let now = || manual.clock().moment();
        let mut limit = RateLimit::new(0.1, now());
        let seconds = |limit: &RateLimit| {
            limit.next().map(|next| next.saturating_duration_since(now()).as_secs())
        };
        assert_eq!([limit.take(now()), limit.take(now())], [true, false]);
        assert_eq!(seconds(&limit), Some(10));
        manual.advance(Duration::from_secs(100));
        assert_eq!([limit.take(now()), limit.take(now())], [true, false]);
        limit.set(0.0, now());
        manual.advance(Duration::from_secs(100));
        assert_eq!((limit.take(now()), seconds(&limit)), (false, None));
        // After a stop, the first node waits as well.
        limit.set(0.01, now());
        assert_eq!((limit.take(now()), seconds(&limit)), (false, Some(100)));
        limit.set(0.01, now());
        manual.advance(Duration::from_secs(100));
        // A limit that is free stays free.
        limit.set(0.1, now());
        assert!(limit.take(now()));
    }
}
