//! Clock of the store, by which keys expire.
//!
//! Not the wall clock, which may be set forward and back. While a store is open its clock is monotonic; on opening it
//! starts at the later of the wall time and the store's time when a key was last given a time to live. So a jump of the
//! wall clock neither ends keys early while the store is open, nor lets keys live on for as long as the wall clock was
//! ahead. Only the time that passes while the store is closed is taken from the wall clock.

use std::task::Waker;
use std::time::{Duration, UNIX_EPOCH};

use kevel_clock::{Clock, Moment};

/// Clock of an open store.
#[derive(Debug)]
pub(super) struct StoreClock {
    /// Time at the start, in milliseconds since 1970.
    base: u64,
    began: Moment,
    clock: Clock,
}

impl StoreClock {
    /// Starts at the clock's wall time, but not before `noted`.
    pub(super) fn begin(clock: &Clock, noted: u64) -> StoreClock {
        let (base, began) = (wall_millis(clock).max(noted), clock.moment());
        StoreClock { base, began, clock: clock.clone() }
    }

    /// Current time of the store, in milliseconds since 1970.
    pub(super) fn now(&self) -> u64 {
        self.base.saturating_add(millis(self.clock.since(self.began)))
    }

    /// Stored expiry of a key that lives for `ttl` from now on. Never 0, which stands for no expiry.
    pub(super) fn expiry(&self, ttl: Duration) -> u64 {
        expiry(self.now(), ttl)
    }

    /// Wakes at a time, if a test moves the clock. With the system clock the writer's own timeout ends at that time.
    pub(super) fn wake_at(&self, time: u64, waker: &Waker) {
        let after = Duration::from_millis(time.saturating_sub(self.base));
        self.clock.wake_at(self.began + after, waker);
    }
}

/// Expiry of a key that lives for `ttl` from `now` on.
pub(super) fn expiry(now: u64, ttl: Duration) -> u64 {
    now.saturating_add(millis(ttl)).clamp(1, i64::MAX.cast_unsigned())
}

/// Wall time, in milliseconds since 1970.
pub(super) fn wall_millis(clock: &Clock) -> u64 {
    millis(clock.now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
