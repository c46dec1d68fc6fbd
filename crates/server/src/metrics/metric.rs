//! What is counted and measured. Recording is a few atomic operations.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Some more.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    /// The number.
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A number that comes and goes.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Changes it by `change`.
    pub fn add(&self, change: i64) {
        self.0.fetch_add(change, Relaxed);
    }

    /// Makes it `value`.
    pub fn set(&self, value: i64) {
        self.0.store(value, Relaxed);
    }

    /// The number.
    pub fn value(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

/// Any number that comes and goes.
#[derive(Debug, Default)]
pub struct FloatGauge(AtomicU64);

impl FloatGauge {
    /// Makes it `value`.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Relaxed);
    }

    /// The number.
    pub fn value(&self) -> f64 {
        f64::from_bits(self.0.load(Relaxed))
    }
}

/// How many observations were at most how large.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One for each bound, and one for what is larger than all of them.
    counts: Box<[AtomicU64]>,
    /// The bits of a float.
    sum: AtomicU64,
}

impl Histogram {
    /// `bounds` are the upper ones, inclusive, in ascending order.
    pub fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, counts, sum: AtomicU64::new(0) }
    }

    /// Counts an observation.
    pub fn observe(&self, value: f64) {
        let bucket = self.bounds.partition_point(|&bound| bound < value);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Relaxed);
        }
        let added = |sum| Some((f64::from_bits(sum) + value).to_bits());
        let _ = self.sum.fetch_update(Relaxed, Relaxed, added);
    }

    /// For each bound how many observations were not above it; the last is that of infinity.
    pub fn cumulative(&self) -> Vec<(f64, u64)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let totals = self.counts.iter().scan(0, |total, count| {
            *total += count.load(Relaxed);
            Some(*total)
        });
        bounds.zip(totals).collect()
    }

    /// The sum of all observations.
    pub fn sum(&self) -> f64 {
        f64::from_bits(self.sum.load(Relaxed))
    }
}
