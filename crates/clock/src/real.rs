//! Real time, which no test moves, and the only readings of the operating system's clocks.
#![allow(clippy::disallowed_methods, reason = "this is what everything else calls instead")]

use std::time::{Duration, Instant, SystemTime};

/// A measurement of real time: for metrics, logs and limits of work.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts measuring.
    #[inline]
    pub fn start() -> Self {
        Stopwatch(Instant::now())
    }

    /// Real time since the start.
    #[inline]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Real monotonic time: for deadlines and budgets of work, and for state machines that take the time as an argument.
#[inline]
pub fn monotonic_now() -> Instant {
    Instant::now()
}

/// The time of tokio's timers: for deadlines of I/O, back-off and rates. Real time, except in a test that pauses the
/// runtime's time.
#[cfg(feature = "timers")]
#[inline]
pub fn timer_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

#[inline]
pub(crate) fn wall_now() -> SystemTime {
    SystemTime::now()
}
