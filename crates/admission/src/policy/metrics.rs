//! Metrics of policies, with the names of the reference.

use std::sync::Arc;
use std::time::Duration;

use kevel_server::metrics::{Counter, Description, Family, Histogram, Metrics};

/// Buckets of the duration of one expression: from the cheapest to the dearest that is allowed.
const SECONDS: &[f64] = &[0.000_000_5, 0.001, 0.01, 0.1, 1.0];

/// Checks and their durations, for the policies of one plug-in.
#[derive(Clone, Debug)]
pub(super) struct PolicyMetrics {
    checks: Arc<Family<Counter>>,
    seconds: Arc<Family<Histogram>>,
}

impl PolicyMetrics {
    pub fn of_validation(metrics: &Metrics) -> Self {
        const LABELS: &[&str] = &["policy", "policy_binding", "error_type", "enforcement_action"];
        let checks = metrics.counter(Description {
            name: "apiserver_validating_admission_policy_check_total",
            help: "[BETA] Validations of admission policies that failed, by enforcement action.",
            labels: LABELS,
        });
        let seconds = Description {
            name: "apiserver_validating_admission_policy_check_duration_seconds",
            help: "[BETA] Seconds of a validation by an admission policy, by enforcement action.",
            labels: LABELS,
        };
        PolicyMetrics { checks, seconds: metrics.histogram(seconds, SECONDS) }
    }

    pub fn of_mutation(metrics: &Metrics) -> Self {
        const LABELS: &[&str] = &["policy", "policy_binding", "error_type"];
        let checks = metrics.counter(Description {
            name: "apiserver_mutating_admission_policy_check_total",
            help: "[ALPHA] Mutations of admission policies.",
            labels: LABELS,
        });
        let seconds = Description {
            name: "apiserver_mutating_admission_policy_check_duration_seconds",
            help: "[ALPHA] Seconds that a mutation of an admission policy took.",
            labels: LABELS,
        };
        PolicyMetrics { checks, seconds: metrics.histogram(seconds, SECONDS) }
    }

    /// Counts a check; `labels` are the family's, in order.
    pub fn observe(&self, labels: &[&str], elapsed: Duration) {
        self.checks.with(labels).increment();
        self.seconds.with(labels).observe(elapsed.as_secs_f64());
    }
}

/// `error_type` label of a check without error.
pub(super) const NO_ERROR: &str = "no_error";

/// `error_type` label of an error. The reference decides by the message, too.
pub(super) fn error_type(message: &str) -> &'static str {
    if message.starts_with("compilation") {
        "compile_error"
    } else if message.starts_with("validation failed due to running out of cost budget") {
        "out_of_budget"
    } else {
        "invalid_error"
    }
}
