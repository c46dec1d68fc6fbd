//! The time by which keys expire.
//!
//! Not the machine's: that is set forward and back. While a store is open its time goes on steadily, and where it is
//! opened again it goes on from the later of the machine's time and what it was when a key was last given a time to
//! live. So a clock that jumps neither ends keys early while the store is open, nor lets keys live on for as long as
//! the clock was ahead. Only time that passes while the store is closed is the machine's word.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The time of a store that is open.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// What it was at the beginning, in milliseconds since 1970.
    base: u64,
    began: Instant,
}

impl Clock {
    /// Begins where the machine's clock is, but not before `noted`.
    pub(super) fn begin(wall: u64, noted: u64) -> Clock {
        Clock { base: wall.max(noted), began: Instant::now() }
    }

    /// The time, in milliseconds since 1970.
    pub(super) fn now(&self) -> u64 {
        self.base.saturating_add(millis(self.began.elapsed()))
    }

    /// When a key expires that lives for `ttl` from now on, as it is stored. Never 0, which stands for never.
    pub(super) fn expiry(&self, ttl: Duration) -> u64 {
        expiry(self.now(), ttl)
    }
}

/// When a key expires that lives for `ttl` from `now` on.
pub(super) fn expiry(now: u64, ttl: Duration) -> u64 {
    now.saturating_add(millis(ttl)).clamp(1, i64::MAX.cast_unsigned())
}

/// The machine's time, in milliseconds since 1970.
pub(super) fn wall_millis() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
