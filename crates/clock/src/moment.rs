//! Moments of a clock.

use std::ops::Add;
use std::time::{Duration, Instant};

/// A duration that stands for forever: longer than anything that is waited for, and short enough to be added to any
/// moment.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// A point in the monotonic time of a [`Clock`](crate::Clock). A type of its own, because it must not be compared with
/// real time, which a test's clock does not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Instant);

impl Moment {
    pub(crate) const fn at(instant: Instant) -> Self {
        Moment(instant)
    }

    #[cfg(feature = "timers")]
    pub(crate) const fn instant(self) -> Instant {
        self.0
    }

    /// Duration from an earlier moment to this one; zero if the other is later.
    pub fn saturating_duration_since(self, earlier: Moment) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }
}

/// A sum that is too large to be represented is a moment that never comes.
impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, duration: Duration) -> Moment {
        Moment(self.0.checked_add(duration).unwrap_or(self.0 + FOREVER))
    }
}
