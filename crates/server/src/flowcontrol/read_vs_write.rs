//! Read-only and mutating requests over time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use kevel_clock::monotonic_now;
use kevel_flowcontrol::TimingRatioHistogram;
use kevel_flowcontrol::metrics::READ_VS_WRITE;

use super::execution::ExecutionPhase;

/// Waiting and executing requests, read-only and mutating, as fractions of the capacity.
#[derive(Default)]
pub(super) struct ReadVsWrite {
    waiting: [Mutex<Meter>; 2],
    executing: [Mutex<Meter>; 2],
}

struct Meter {
    histogram: TimingRatioHistogram,
    requests: u64,
    /// Time up to which the histogram is advanced.
    at: Instant,
}

impl Default for Meter {
    fn default() -> Self {
        let histogram = TimingRatioHistogram::new(READ_VS_WRITE);
        Meter { histogram, requests: 0, at: monotonic_now() }
    }
}

impl ReadVsWrite {
    /// Adds or removes requests.
    pub(super) fn add(&self, phase: ExecutionPhase, mutating: bool, now: Instant, change: i64) {
        let mut meter = self.meter(phase, mutating);
        meter.advance(now);
        meter.requests = meter.requests.saturating_add_signed(change);
        let requests = meter.requests;
        meter.histogram.set(requests);
    }

    /// Sets the number of requests that may wait and execute.
    pub(super) fn set_capacity(&self, waiting: u64, executing: u64) {
        let now = monotonic_now();
        for (phase, capacity) in
            [(ExecutionPhase::Waiting, waiting), (ExecutionPhase::Executing, executing)]
        {
            for mutating in [false, true] {
                let mut meter = self.meter(phase, mutating);
                meter.advance(now);
                meter.histogram.set_denominator(capacity);
            }
        }
    }

    /// The histogram, advanced to now.
    pub(super) fn read(&self, phase: ExecutionPhase, mutating: bool) -> TimingRatioHistogram {
        let mut meter = self.meter(phase, mutating);
        meter.advance(monotonic_now());
        meter.histogram.clone()
    }

    fn meter(&self, phase: ExecutionPhase, mutating: bool) -> MutexGuard<'_, Meter> {
        let [read_only, writing] = match phase {
            ExecutionPhase::Waiting => &self.waiting,
            ExecutionPhase::Executing => &self.executing,
        };
        let meter = if mutating { writing } else { read_only };
        meter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Meter {
    fn advance(&mut self, now: Instant) {
        // A concurrent request may have advanced the time further.
        self.histogram.advance(now.saturating_duration_since(self.at));
        self.at = self.at.max(now);
    }
}
