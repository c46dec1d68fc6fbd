//! Rate limit of a connection (`--max-connection-bytes-per-sec`).

use std::num::NonZeroU64;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use kevel_clock::timer_now;
use tokio::time::{Instant, Sleep, sleep_until};

/// Sampling period, the reference's: a second's bytes do not go in one burst, and unused bytes are not saved.
const SAMPLE: Duration = Duration::from_millis(100);

/// Bytes per second, for each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(NonZeroU64);

impl Rate {
    /// Rate of a flag's value; `None` for zero.
    pub fn per_second(bytes: u64) -> Option<Self> {
        NonZeroU64::new(bytes).map(Rate)
    }
}

/// Limiter of one direction.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Bytes per sample; at least one, so that ten bytes a second is the minimum rate.
    each_sample: u64,
    used: u64,
    since: Instant,
    wait: Option<Pin<Box<Sleep>>>,
}

impl Meter {
    pub fn new(rate: Rate) -> Self {
        let each_sample = rate.0.get().saturating_add(5) / 10;
        Meter { each_sample: each_sample.max(1), used: 0, since: timer_now(), wait: None }
    }

    /// Number of bytes allowed now, at most `wanted`; waits until at least one is.
    pub fn poll_allowed(&mut self, wanted: usize, context: &mut Context<'_>) -> Poll<usize> {
        loop {
            let now = timer_now();
            if now.duration_since(self.since) >= SAMPLE {
                (self.used, self.since, self.wait) = (0, now, None);
            }
            let left = self.each_sample.saturating_sub(self.used);
            if left > 0 {
                return Poll::Ready(wanted.min(usize::try_from(left).unwrap_or(usize::MAX)));
            }
            let end = self.since + SAMPLE;
            let wait = self.wait.get_or_insert_with(|| Box::pin(sleep_until(end)));
            ready!(wait.as_mut().poll(context));
            self.wait = None;
        }
    }

    pub fn spend(&mut self, bytes: usize) {
        self.used = self.used.saturating_add(bytes as u64);
    }
}
