//! Metrics of work queues, by the reference's names.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::measured::QueueMetrics;
use super::queue::{Backoff, WorkQueue};
use kevel_server::metrics::{Counter, Description, Family, FloatGauge, Gauge, Histogram, Metrics};

/// Bounds of the histograms: ten powers of ten from 10 ns, as the reference multiplies them.
const SECONDS: &[f64] = &[
    1e-8,
    1e-7,
    1e-6,
    9.999_999_999_999_999e-6,
    9.999_999_999_999_999e-5,
    1e-3,
    1e-2,
    1e-1,
    1.0,
    10.0,
];

const LABELS: &[&str] = &["name"];

/// Makes work queues that are measured (upstream: the workqueue metrics provider).
#[derive(Debug)]
pub struct WorkQueues {
    adds: Arc<Family<Counter>>,
    retries: Arc<Family<Counter>>,
    queue_duration: Arc<Family<Histogram>>,
    work_duration: Arc<Family<Histogram>>,
    /// Queues by name, whose gauges are set when metrics are shown.
    queues: Arc<Mutex<NamedQueues>>,
}

type NamedQueues = Vec<(&'static str, Weak<WorkQueue>)>;

/// Gauges that are computed when metrics are shown.
struct QueueGauges {
    depth: Arc<Family<Gauge>>,
    unfinished: Arc<Family<FloatGauge>>,
    longest_running: Arc<Family<FloatGauge>>,
}

impl WorkQueues {
    /// Registers the metrics of work queues.
    pub fn new(metrics: &Metrics) -> Self {
        let named = |name, help| Description { name, help, labels: LABELS };
        let gauges = QueueGauges {
            depth: metrics.gauge(named("workqueue_depth", "[BETA] Keys in the work queue.")),
            unfinished: metrics.family(
                named(
                    "workqueue_unfinished_work_seconds",
                    "[BETA] Seconds of work in progress, summed over the workers.",
                ),
                FloatGauge::default,
            ),
            longest_running: metrics.family(
                named(
                    "workqueue_longest_running_processor_seconds",
                    "[BETA] Seconds that the longest work in progress has taken.",
                ),
                FloatGauge::default,
            ),
        };
        let queues: Arc<Mutex<NamedQueues>> = Arc::default();
        let shown = queues.clone();
        metrics.before_show(move || {
            let queues = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
            queues.iter().for_each(|(name, queue)| gauges.show(name, queue.upgrade()));
        });
        WorkQueues {
            adds: metrics.counter(named("workqueue_adds_total", "[BETA] Keys added.")),
            retries: metrics.counter(named("workqueue_retries_total", "[BETA] Keys added later.")),
            queue_duration: metrics.histogram(
                named("workqueue_queue_duration_seconds", "[BETA] Seconds of a key in the queue."),
                SECONDS,
            ),
            work_duration: metrics.histogram(
                named("workqueue_work_duration_seconds", "[BETA] Seconds of work on a key."),
                SECONDS,
            ),
            queues,
        }
    }

    /// A queue that is measured under a name. A queue of the same name from before is no longer shown.
    pub fn queue(&self, name: &'static str, backoff: Backoff) -> Arc<WorkQueue> {
        let labels = [name];
        let metrics = QueueMetrics {
            adds: self.adds.with(&labels),
            retries: self.retries.with(&labels),
            queue_duration: self.queue_duration.with(&labels),
            work_duration: self.work_duration.with(&labels),
        };
        let queue = WorkQueue::measured(backoff, Some(metrics));
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|(known, _)| *known != name);
        queues.push((name, Arc::downgrade(&queue)));
        queue
    }
}

impl QueueGauges {
    fn show(&self, name: &str, queue: Option<Arc<WorkQueue>>) {
        let (depth, running) = queue.map_or((0, Vec::new()), |queue| queue.load());
        let labels = [name];
        self.depth.with(&labels).set(i64::try_from(depth).unwrap_or(i64::MAX));
        let seconds = running.iter().map(std::time::Duration::as_secs_f64);
        self.unfinished.with(&labels).set(seconds.clone().sum());
        self.longest_running.with(&labels).set(seconds.fold(0.0, f64::max));
    }
}
