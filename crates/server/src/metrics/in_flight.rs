//! Running requests, and their maximum in the last second.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Relaxed};
use std::time::Instant;

use kevel_clock::monotonic_now;

use kevel_component::metrics::Gauge;

/// Counts running requests and keeps their maximum for each second.
#[derive(Debug)]
pub struct InFlightWatermark {
    gauge: Arc<Gauge>,
    start: Instant,
    current: AtomicUsize,
    /// Second since the start, and the maximum in it: 32 bits each.
    peak: AtomicU64,
}

impl InFlightWatermark {
    pub(super) fn new(gauge: Arc<Gauge>) -> Self {
        InFlightWatermark {
            gauge,
            start: monotonic_now(),
            current: AtomicUsize::new(0),
            peak: AtomicU64::new(0),
        }
    }

    /// Adds a request, unless `limit` are running.
    pub fn enter(&self, now: Instant, limit: usize) -> bool {
        let before = self.current.fetch_add(1, AcqRel);
        if before >= limit {
            self.leave();
            return false;
        }
        let second = now.saturating_duration_since(self.start).as_secs() << 32;
        // The second is in the high bits: the largest value is the maximum of the latest second.
        self.peak.fetch_max(second | in_32_bits(before + 1), Relaxed);
        true
    }

    /// Removes a request.
    pub fn leave(&self) {
        self.current.fetch_sub(1, AcqRel);
    }

    /// Publishes the latest maximum.
    pub(super) fn publish(&self) {
        let peak = self.peak.load(Relaxed);
        let age = self.start.elapsed().as_secs().saturating_sub(peak >> 32);
        let recent = if age <= 1 { peak & u64::from(u32::MAX) } else { 0 };
        let count = recent.max(in_32_bits(self.current.load(Relaxed)));
        self.gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

fn in_32_bits(count: usize) -> u64 {
    u32::try_from(count).unwrap_or(u32::MAX).into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_latest_seconds_most_counts() {
        let gauge = Arc::new(Gauge::default());
        let watermark = InFlightWatermark::new(gauge.clone());
        let now = watermark.start;
        for _ in 0..3 {
            assert!(watermark.enter(now, 3));
        }
        assert!(!watermark.enter(now, 3));
        (0..3).for_each(|_| watermark.leave());
        assert!(watermark.enter(now + Duration::from_secs(1), 3));
        assert!(watermark.enter(now + Duration::from_secs(1), 3));
        watermark.leave();
        watermark.publish();
        assert_eq!(gauge.value(), 2);
    }
}
