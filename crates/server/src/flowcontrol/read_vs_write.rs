//! How many requests read and write, over time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use kevel_clock::monotonic_now;
use kevel_flowcontrol::TimingRatioHistogram;
use kevel_flowcontrol::metrics::READ_VS_WRITE;

use super::execution::Phase;

/// Requests that wait and that are executed, those that read and those that write, as parts of how
/// many could.
#[derive(Default)]
pub(super) struct ReadVsWrite {
    waiting: [Mutex<Meter>; 2],
    executing: [Mutex<Meter>; 2],
}

struct Meter {
    histogram: TimingRatioHistogram,
    requests: u64,
    /// Up to when time is counted.
    at: Instant,
}

impl Default for Meter {
    fn default() -> Self {
        let histogram = TimingRatioHistogram::new(READ_VS_WRITE);
        Meter { histogram, requests: 0, at: monotonic_now() }
    }
}

impl ReadVsWrite {
    /// Counts requests in or out.
    pub(super) fn add(&self, phase: Phase, mutating: bool, now: Instant, change: i64) {
        let mut meter = self.meter(phase, mutating);
        meter.advance(now);
        meter.requests = meter.requests.saturating_add_signed(change);
        let requests = meter.requests;
        meter.histogram.set(requests);
    }

    /// Says how many may wait and be executed.
    pub(super) fn set_capacity(&self, waiting: u64, executing: u64) {
        let now = monotonic_now();
        for (phase, capacity) in [(Phase::Waiting, waiting), (Phase::Executing, executing)] {
            for mutating in [false, true] {
                let mut meter = self.meter(phase, mutating);
                meter.advance(now);
                meter.histogram.set_denominator(capacity);
            }
        }
    }

    /// Up to now.
    pub(super) fn read(&self, phase: Phase, mutating: bool) -> TimingRatioHistogram {
        let mut meter = self.meter(phase, mutating);
        meter.advance(monotonic_now());
        meter.histogram.clone()
    }

    fn meter(&self, phase: Phase, mutating: bool) -> MutexGuard<'_, Meter> {
        let [read_only, writing] = match phase {
            Phase::Waiting => &self.waiting,
            Phase::Executing => &self.executing,
        };
        let meter = if mutating { writing } else { read_only };
        meter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Meter {
    fn advance(&mut self, now: Instant) {
        // Whoever has come in between has a later time.
        self.histogram.advance(now.saturating_duration_since(self.at));
        self.at = self.at.max(now);
    }
}
