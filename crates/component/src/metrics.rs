//! Counters, gauges and histograms. Recording takes a few atomic operations.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// A counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    /// Current value.
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A gauge of integers.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Adds `change`.
    pub fn add(&self, change: i64) {
        self.0.fetch_add(change, Relaxed);
    }

    /// Sets the value.
    pub fn set(&self, value: i64) {
        self.0.store(value, Relaxed);
    }

    /// Current value.
    pub fn value(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

/// A gauge of floats.
#[derive(Debug, Default)]
pub struct FloatGauge(AtomicU64);

impl FloatGauge {
    /// Sets the value.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Relaxed);
    }

    /// Current value.
    pub fn value(&self) -> f64 {
        f64::from_bits(self.0.load(Relaxed))
    }
}

impl Histogram {
    /// Records the time of a piece of work.
    pub fn observe_seconds(&self, elapsed: std::time::Duration) {
        self.observe(elapsed.as_secs_f64());
    }
}

/// A histogram with fixed buckets.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One for each bound, and one for larger values.
    counts: Box<[AtomicU64]>,
    /// Bits of a float.
    sum: AtomicU64,
}

impl Histogram {
    /// `bounds` are the inclusive upper bounds, in ascending order.
    pub fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, counts, sum: AtomicU64::new(0) }
    }

    /// Records an observation.
    pub fn observe(&self, value: f64) {
        let bucket = self.bounds.partition_point(|&bound| bound < value);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Relaxed);
        }
        let added = |sum| Some((f64::from_bits(sum) + value).to_bits());
        let _ = self.sum.fetch_update(Relaxed, Relaxed, added);
    }

    /// For each bound, the number of observations up to it; the last is that of infinity.
    pub fn cumulative(&self) -> Vec<(f64, u64)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let totals = self.counts.iter().scan(0, |total, count| {
            *total += count.load(Relaxed);
            Some(*total)
        });
        bounds.zip(totals).collect()
    }

    /// Sum of all observations.
    pub fn sum(&self) -> f64 {
        f64::from_bits(self.sum.load(Relaxed))
    }
}
