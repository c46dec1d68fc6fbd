//! Metrics of the embedded store.

use std::sync::Arc;

use kevel_component::metrics::{Counter, Histogram};

/// Bounds of [`StoreMetrics::commit_seconds`].
pub const COMMIT_SECONDS: &[f64] =
    &[0.0001, 0.0003, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];
/// Bounds of [`StoreMetrics::batch_writes`].
pub const BATCH_WRITES: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

/// Metrics of the embedded store.
#[derive(Clone, Debug)]
pub struct StoreMetrics {
    /// Seconds of transactions, until they are on the disk.
    pub commit_seconds: Arc<Histogram>,
    /// Writes that were committed together.
    pub batch_writes: Arc<Histogram>,
    /// Transactions that failed.
    pub commit_errors: Arc<Counter>,
    /// Compactions.
    pub compactions: Arc<Counter>,
    /// Times that the log was carried over into the database.
    pub checkpoints: Arc<Counter>,
}

impl Default for StoreMetrics {
    fn default() -> Self {
        StoreMetrics {
            commit_seconds: Arc::new(Histogram::new(COMMIT_SECONDS)),
            batch_writes: Arc::new(Histogram::new(BATCH_WRITES)),
            commit_errors: Arc::default(),
            compactions: Arc::default(),
            checkpoints: Arc::default(),
        }
    }
}
