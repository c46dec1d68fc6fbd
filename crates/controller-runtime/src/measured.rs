//! Metrics of one work queue.

use std::sync::Arc;

use kevel_server::metrics::{Counter, Histogram};

/// Metrics of one queue.
#[derive(Debug)]
pub(super) struct QueueMetrics {
    pub adds: Arc<Counter>,
    pub retries: Arc<Counter>,
    pub queue_duration: Arc<Histogram>,
    pub work_duration: Arc<Histogram>,
}
