//! The time by which keys expire.
//!
//! Not the wall time of the server's clock: the machine's is set forward and back. While a store is open its time goes on steadily, and where it is
//! opened again it goes on from the later of the wall time and what it was when a key was last given a time to
//! live. So a clock that jumps neither ends keys early while the store is open, nor lets keys live on for as long as
//! the clock was ahead. Only time that passes while the store is closed is the machine's word.

use std::task::Waker;
use std::time::{Duration, UNIX_EPOCH};

use kevel_clock::{Clock, Moment};

/// The time of a store that is open.
#[derive(Debug)]
pub(super) struct StoreClock {
    /// What it was at the beginning, in milliseconds since 1970.
    base: u64,
    began: Moment,
    clock: Clock,
}

impl StoreClock {
    /// Begins at the clock's wall time, but not before `noted`.
    pub(super) fn begin(clock: &Clock, noted: u64) -> StoreClock {
        let (base, began) = (wall_millis(clock).max(noted), clock.moment());
        StoreClock { base, began, clock: clock.clone() }
    }

    /// The time, in milliseconds since 1970.
    pub(super) fn now(&self) -> u64 {
        self.base.saturating_add(millis(self.clock.since(self.began)))
    }

    /// When a key expires that lives for `ttl` from now on, as it is stored. Never 0, which stands for never.
    pub(super) fn expiry(&self, ttl: Duration) -> u64 {
        expiry(self.now(), ttl)
    }

    /// Wakes at a time, if a test moves the clock. Otherwise the time comes while the writer waits for it.
    pub(super) fn wake_at(&self, time: u64, waker: &Waker) {
        let after = Duration::from_millis(time.saturating_sub(self.base));
        self.clock.wake_at(self.began + after, waker);
    }
}

/// When a key expires that lives for `ttl` from `now` on.
pub(super) fn expiry(now: u64, ttl: Duration) -> u64 {
    now.saturating_add(millis(ttl)).clamp(1, i64::MAX.cast_unsigned())
}

/// The wall time, in milliseconds since 1970.
pub(super) fn wall_millis(clock: &Clock) -> u64 {
    millis(clock.now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
