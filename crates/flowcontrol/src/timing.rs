//! Time-weighted statistics: averages, deviations, and histograms of ratios.

use std::time::Duration;

/// Time-weighted histogram of a ratio: one observation per nanosecond.
///
/// The owner reports the elapsed time before the ratio changes, so that several histograms share a clock.
#[derive(Clone, Debug)]
pub struct TimingRatioHistogram {
    bounds: &'static [f64],
    /// Nanoseconds by bucket; the last is above all bounds.
    nanos: Box<[u64]>,
    bucket: usize,
    numerator: u64,
    denominator: u64,
    /// Numerator times nanoseconds, since the denominator changed.
    integral: u128,
    /// Sum up to that change.
    sum: f64,
}

impl TimingRatioHistogram {
    /// A histogram that begins at 0 / 1. The bounds ascend.
    pub fn new(bounds: &'static [f64]) -> Self {
        let nanos = vec![0; bounds.len() + 1].into_boxed_slice();
        let mut new = TimingRatioHistogram {
            bounds,
            nanos,
            bucket: 0,
            numerator: 0,
            denominator: 1,
            integral: 0,
            sum: 0.0,
        };
        new.find_bucket();
        new
    }

    /// Counts elapsed time at the present ratio.
    pub fn advance(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.nanos.get_mut(self.bucket) {
            *bucket = bucket.saturating_add(nanos);
        }
        self.integral += u128::from(self.numerator) * u128::from(nanos);
    }

    /// Changes the numerator.
    pub fn set(&mut self, numerator: u64) {
        if self.numerator != numerator {
            self.numerator = numerator;
            self.find_bucket();
        }
    }

    /// Changes the denominator; 0 counts as 1.
    pub fn set_denominator(&mut self, denominator: u64) {
        self.sum = self.sum();
        self.integral = 0;
        self.denominator = denominator.max(1);
        self.find_bucket();
    }

    /// For each bound the nanoseconds with a ratio up to it; the last bound is infinity, with the total.
    pub fn cumulative(&self) -> Vec<(f64, u64)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let totals = self.nanos.iter().scan(0u64, |total, nanos| {
            *total = total.saturating_add(*nanos);
            Some(*total)
        });
        bounds.zip(totals).collect()
    }

    /// Sum of all observations: ratio times nanoseconds.
    #[allow(clippy::cast_precision_loss)] // It is for a metric.
    pub fn sum(&self) -> f64 {
        self.sum + self.integral as f64 / self.denominator as f64
    }

    #[allow(clippy::cast_precision_loss)] // Counts of requests.
    fn find_bucket(&mut self) {
        let ratio = self.numerator as f64 / self.denominator as f64;
        self.bucket = self.bounds.partition_point(|&bound| bound < ratio);
    }
}

/// Time-weighted moments of an integer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Integrator {
    nanos: u128,
    integral: u128,
    squares: u128,
    value: u64,
    max: u64,
}

/// Result of an [`Integrator`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moments {
    pub time: Duration,
    /// Time-weighted average; NaN if no time has passed.
    pub average: f64,
    /// The standard deviation.
    pub deviation: f64,
    pub max: u64,
}

impl Integrator {
    pub(crate) fn advance(&mut self, time: Duration) {
        let (nanos, value) = (time.as_nanos(), u128::from(self.value));
        self.nanos += nanos;
        self.integral += value * nanos;
        self.squares += value * value * nanos;
    }

    pub(crate) fn set(&mut self, value: u64) {
        self.value = value;
        self.max = self.max.max(value);
    }

    /// Returns the moments up to now, and starts over.
    #[allow(clippy::cast_precision_loss)] // Seats and seconds.
    pub(crate) fn reset(&mut self) -> Moments {
        let nanos = self.nanos as f64;
        let average = self.integral as f64 / nanos;
        let variance = self.squares as f64 / nanos - average * average;
        let moments = Moments {
            time: Duration::from_nanos(u64::try_from(self.nanos).unwrap_or(u64::MAX)),
            average,
            // A negative variance is a rounding error.
            deviation: variance.max(0.0).sqrt(),
            max: self.max,
        };
        *self = Integrator { value: self.value, max: self.value, ..Integrator::default() };
        moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_ratio_is_counted_by_the_nanosecond() {
        let mut histogram = TimingRatioHistogram::new(&[0.0, 0.5, 1.0]);
        histogram.advance(SECOND);
        histogram.set_denominator(4);
        histogram.set(2);
        histogram.advance(2 * SECOND);
        histogram.set(3);
        histogram.advance(SECOND);
        histogram.set_denominator(2);
        histogram.advance(SECOND);
        let seconds: Vec<_> =
            histogram.cumulative().iter().map(|(_, nanos)| nanos / 1_000_000_000).collect();
        assert_eq!(seconds, [1, 3, 4, 5]);
        assert_eq!(histogram.sum(), (2.0 * 0.5 + 0.75 + 1.5) * 1e9);
    }

    #[test]
    fn moments_are_weighted_by_time() {
        let mut integrator = Integrator::default();
        integrator.set(3);
        integrator.advance(SECOND);
        integrator.set(9);
        integrator.set(1);
        integrator.advance(3 * SECOND);
        let moments = integrator.reset();
        assert_eq!((moments.time, moments.max, moments.average), (4 * SECOND, 9, 1.5));
        assert!((moments.deviation - 0.75f64.sqrt()).abs() < 1e-12);
        integrator.advance(SECOND);
        let moments = integrator.reset();
        assert_eq!((moments.average, moments.deviation, moments.max), (1.0, 0.0, 1));
        assert!(integrator.reset().average.is_nan());
    }
}
