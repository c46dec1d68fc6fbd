//! Metrics of connections through proxies, by the reference's names.

use std::sync::Arc;
use std::time::Duration;

use crate::metrics::{Counter, Description, Family, Histogram, Metrics};

/// Buckets from 5 ms to 12.5 s.
const SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 2.5, 12.5];

/// Metrics of dials. Direct ones are not counted.
#[derive(Clone, Debug)]
pub struct DialMetrics {
    starts: Arc<Family<Counter>>,
    durations: Arc<Family<Histogram>>,
    failures: Arc<Family<Counter>>,
}

/// Protocol and transport: the first labels of all metrics.
pub(super) type Labels = [&'static str; 2];

impl DialMetrics {
    /// Registers the metrics.
    pub fn new(metrics: &Metrics) -> Self {
        let describe = |name, help, labels| Description { name, help, labels };
        DialMetrics {
            starts: metrics.counter(describe(
                "apiserver_egress_dialer_dial_start_total",
                "[ALPHA] Dials through an egress proxy, by protocol and transport.",
                &["protocol", "transport"],
            )),
            durations: metrics.histogram(
                describe(
                    "apiserver_egress_dialer_dial_duration_seconds",
                    "[ALPHA] Seconds that dials took, by the proxy's protocol and transport.",
                    &["protocol", "transport"],
                ),
                SECONDS,
            ),
            failures: metrics.counter(describe(
                "apiserver_egress_dialer_dial_failure_count",
                "[ALPHA] Dials that failed, by the proxy's protocol and transport, and whether \
                 the proxy was not reached (connect) or did not reach (proxy).",
                &["protocol", "transport", "stage"],
            )),
        }
    }

    pub(super) fn started(&self, labels: Labels) {
        self.starts.with(&labels).increment();
    }

    pub(super) fn succeeded(&self, labels: Labels, took: Duration) {
        self.durations.with(&labels).observe(took.as_secs_f64());
    }

    pub(super) fn failed(&self, [protocol, transport]: Labels, stage: &str) {
        self.failures.with(&[protocol, transport, stage]).increment();
    }
}
