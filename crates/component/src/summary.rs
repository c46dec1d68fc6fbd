//! Quantiles of observations.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Quantiles that a summary shows: those of the reference.
pub const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// Slots for each power of two: a quantile is right to an eighth.
const FINENESS: f64 = 8.0;
/// Smallest observation that is told apart, in seconds, and the number of slots above it: up to 17 minutes.
const SMALLEST: f64 = 1e-6;
const SLOTS: usize = 240;

/// QuantileSummary of observations since the start. Observing takes a few atomic operations.
#[derive(Debug)]
pub struct QuantileSummary {
    slots: Box<[AtomicU64]>,
    /// Bits of a float.
    sum: AtomicU64,
}

impl Default for QuantileSummary {
    fn default() -> Self {
        let slots = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        QuantileSummary { slots, sum: AtomicU64::new(0) }
    }
}

impl QuantileSummary {
    /// Records an observation.
    pub fn observe(&self, value: f64) {
        let place = ((value / SMALLEST).max(1.0).log2() * FINENESS) as usize;
        if let Some(slot) = self.slots.get(place.min(SLOTS - 1)) {
            slot.fetch_add(1, Relaxed);
        }
        let added = |sum| Some((f64::from_bits(sum) + value).to_bits());
        let _ = self.sum.fetch_update(Relaxed, Relaxed, added);
    }

    /// Number of observations.
    pub fn count(&self) -> u64 {
        self.slots.iter().map(|slot| slot.load(Relaxed)).sum()
    }

    /// Sum of all observations.
    pub fn sum(&self) -> f64 {
        f64::from_bits(self.sum.load(Relaxed))
    }

    /// Value that a part of the observations does not exceed; NaN without any.
    pub fn quantile(&self, part: f64) -> f64 {
        let wanted = part * self.count() as f64;
        let mut seen = 0;
        for (place, slot) in self.slots.iter().enumerate() {
            seen += slot.load(Relaxed);
            if seen > 0 && seen as f64 >= wanted {
                return SMALLEST * ((place as f64 + 0.5) / FINENESS).exp2();
            }
        }
        f64::NAN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearly_right() {
        let summary = QuantileSummary::default();
        assert!(summary.quantile(0.5).is_nan());
        (1..=1000).for_each(|millis| summary.observe(f64::from(millis) / 1000.0));
        for part in QUANTILES {
            let found = summary.quantile(part);
            assert!((found / part - 1.0).abs() < 0.1, "{part}: {found}");
        }
        assert_eq!(summary.count(), 1000);
        assert!((summary.sum() - 500.5).abs() < 1e-9);
    }
}
