//! Time of a server.
//!
//! There are two kinds of time, and every reading says which one it is:
//!
//! - *Time of the server* ([`Clock`]): time that objects and clients see (`creationTimestamp`, `deletionTimestamp`, the
//!   times of managed fields, conditions and audit events, `iat` and `exp` of tokens), and time at which something
//!   expires (tokens, certificates, leases, keys with a time to live, cached decisions and keys). A server has one
//!   clock. It is part of its configuration and is passed on from there; there is no global one. A test's
//!   [`ManualClock`] stands still until the test advances it, and wakes tasks that [sleep](Clock::sleep) on it.
//! - *Real time* ([`Stopwatch`], [`monotonic_now`], [`timer_now`]): durations that metrics and logs show, compute
//!   budgets, deadlines of requests and of I/O, back-off, rates. A test's clock does not move it: a request must not
//!   time out because a test advances the clock by an hour.
//!
//! `crates/clippy.toml` forbids `SystemTime::now`, `SystemTime::elapsed` and `Instant::now` (also tokio's) everywhere
//! else.
//!
//! A reading of the operating system's clock costs one branch more than calling it directly.
//!
//! ```
//! use std::time::{Duration, SystemTime};
//! use kevel_clock::ManualClock;
//!
//! let manual = ManualClock::new(SystemTime::UNIX_EPOCH);
//! let clock = manual.clock();
//! let expires = clock.moment() + Duration::from_secs(60);
//! manual.advance(Duration::from_secs(3600));
//! assert!(clock.moment() > expires);
//! assert_eq!(clock.now(), SystemTime::UNIX_EPOCH + Duration::from_secs(3600));
//! ```

mod manual;
mod moment;
mod real;
#[cfg(feature = "timers")]
mod timers;

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, SystemTime};

pub use manual::ManualClock;
pub use moment::Moment;
#[cfg(feature = "timers")]
pub use real::timer_now;
pub use real::{Stopwatch, monotonic_now};

use manual::ManualState;

/// Time of a server: the operating system's, or a test's ([`ManualClock`]). Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<ManualState>>);

impl Clock {
    /// The operating system's clock.
    pub const fn system() -> Self {
        Clock(None)
    }

    /// Wall time. It may jump, back too, when the machine's clock is set.
    #[inline]
    pub fn now(&self) -> SystemTime {
        match &self.0 {
            None => real::wall_now(),
            Some(manual) => manual.now(),
        }
    }

    /// Monotonic time of the server, for expiry that must be independent of jumps of the machine's clock.
    #[inline]
    pub fn moment(&self) -> Moment {
        match &self.0 {
            None => Moment::at(monotonic_now()),
            Some(manual) => manual.moment(),
        }
    }

    /// Duration since a moment of this clock; zero if it is still to come.
    pub fn since(&self, moment: Moment) -> Duration {
        self.moment().saturating_duration_since(moment)
    }

    /// Wakes at a moment, once, if this is a test's clock; `false` if it is the operating system's, whose moments
    /// come by themselves. For threads that wait for real time: a test's clock can advance meanwhile.
    pub fn wake_at(&self, moment: Moment, waker: &Waker) -> bool {
        let Some(manual) = &self.0 else { return false };
        manual.wake_at(moment, waker);
        true
    }
}
