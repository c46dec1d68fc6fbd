//! Metrics of authentication and authorization attempts, by result.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kevel_clock::Stopwatch;

use crate::metrics::{Counter, Family, Histogram};

/// Metrics of a filter that authenticates or authorizes. The series of a result are looked up once, not per request.
#[derive(Debug)]
pub(super) struct Attempts<const RESULTS: usize> {
    pub filter: Arc<Histogram>,
    pub total: Arc<Family<Counter>>,
    pub duration: Arc<Family<Histogram>>,
    pub results: [(&'static str, Recorded); RESULTS],
}

/// Series of a result; empty until the result first occurs, so that unused series are not exported.
pub(super) type Recorded = OnceLock<(Arc<Counter>, Arc<Histogram>)>;

impl<const RESULTS: usize> Attempts<RESULTS> {
    /// Records a decision and returns how long it took.
    pub(super) fn record(&self, result: &str, started: Stopwatch) -> Duration {
        let took = started.elapsed();
        let seconds = took.as_secs_f64();
        self.filter.observe(seconds);
        if let Some((_, recorded)) = self.results.iter().find(|(name, _)| *name == result) {
            let look_up = || (self.total.with(&[result]), self.duration.with(&[result]));
            let (total, duration) = recorded.get_or_init(look_up);
            total.increment();
            duration.observe(seconds);
        }
        took
    }
}
