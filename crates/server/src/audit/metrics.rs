//! Audit metrics.

use std::sync::Arc;

use crate::metrics::{Counter, Description, Family, Metrics};

/// Audit metrics, exported even without a policy.
#[derive(Debug)]
pub struct AuditMetrics {
    pub(super) events: Arc<Counter>,
    pub(super) levels: Arc<Family<Counter>>,
    pub(super) rejected: Arc<Counter>,
}

impl AuditMetrics {
    /// Registers the metrics.
    pub fn new(metrics: &Metrics) -> Self {
        let counter = |name, help, labels| metrics.counter(Description { name, help, labels });
        AuditMetrics {
            events: counter(
                "apiserver_audit_event_total",
                "[ALPHA] Audit events given to the backends.",
                &[],
            )
            .with(&[]),
            levels: counter(
                "apiserver_audit_level_total",
                "[ALPHA] Requests by the level at which they are audited.",
                &["level"],
            ),
            rejected: counter(
                "apiserver_audit_requests_rejected_total",
                "[ALPHA] Requests refused because their audit event could not be written.",
                &[],
            )
            .with(&[]),
        }
    }
}
