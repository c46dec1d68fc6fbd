//! Metrics of compilations and evaluations, for all expressions of the process.

use std::sync::{Arc, LazyLock};

use kevel_component::metrics::Histogram;

/// Bounds of both histograms, in seconds: Prometheus' default.
const SECONDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Seconds that compilations took.
pub static COMPILATION_SECONDS: LazyLock<Arc<Histogram>> =
    LazyLock::new(|| Arc::new(Histogram::new(SECONDS)));

/// Seconds that evaluations took.
pub static EVALUATION_SECONDS: LazyLock<Arc<Histogram>> =
    LazyLock::new(|| Arc::new(Histogram::new(SECONDS)));
