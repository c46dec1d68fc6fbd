//! Metrics of webhook calls, with the names of the reference.

use std::sync::Arc;
use std::time::Duration;

use kevel_registry::admission::Operation;
use kevel_server::metrics::{Counter, Description, Family, Histogram, Metrics};

use super::definition::{Step, Webhook};

const SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];

/// Highest code in labels; higher codes are counted as this one, because webhooks can send any.
const MAX_CODE: u16 = 600;

/// Metrics of mutating and validating webhooks together.
#[derive(Clone, Debug)]
pub struct WebhookMetrics {
    duration: Arc<Family<Histogram>>,
    rejections: Arc<Family<Counter>>,
    fail_open: Arc<Family<Counter>>,
    requests: Arc<Family<Counter>>,
}

/// `error_type` label of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorType {
    /// The call failed.
    CallingWebhook,
    /// The response could not be applied.
    ApiServerInternal,
    /// The webhook denied the request.
    NoError,
}

impl ErrorType {
    const fn name(self) -> &'static str {
        match self {
            ErrorType::CallingWebhook => "calling_webhook_error",
            ErrorType::ApiServerInternal => "apiserver_internal_error",
            ErrorType::NoError => "no_error",
        }
    }
}

impl WebhookMetrics {
    /// Registers the metrics: once per server.
    pub fn new(metrics: &Metrics) -> Self {
        let duration = Description {
            name: "apiserver_admission_webhook_admission_duration_seconds",
            help: "[STABLE] Seconds that calls of admission webhooks took.",
            labels: &["name", "type", "operation", "rejected"],
        };
        WebhookMetrics {
            duration: metrics.histogram(duration, SECONDS),
            rejections: metrics.counter(Description {
                name: "apiserver_admission_webhook_rejection_count",
                help: "[ALPHA] Requests denied by an admission webhook.",
                labels: &["name", "type", "operation", "error_type", "rejection_code"],
            }),
            fail_open: metrics.counter(Description {
                name: "apiserver_admission_webhook_fail_open_count",
                help: "[ALPHA] Calls of admission webhooks that failed and were ignored (failurePolicy Ignore).",
                labels: &["name", "type"],
            }),
            requests: metrics.counter(Description {
                name: "apiserver_admission_webhook_request_total",
                help: "[ALPHA] Calls of admission webhooks, by the code of the answer.",
                labels: &["name", "type", "operation", "code", "rejected"],
            }),
        }
    }

    /// Counts a call.
    pub(super) fn observe(
        &self,
        webhook: &Webhook,
        operation: Operation,
        elapsed: Duration,
        code: u16,
        rejected: bool,
    ) {
        let (step, operation) = (webhook.step.name(), operation.name());
        let rejected = if rejected { "true" } else { "false" };
        let code = code.min(MAX_CODE).to_string();
        self.requests.with(&[&webhook.name, step, operation, &code, rejected]).increment();
        let duration = self.duration.with(&[&webhook.name, step, operation, rejected]);
        duration.observe(elapsed.as_secs_f64());
    }

    /// Counts a refused request.
    pub(super) fn observe_rejection(
        &self,
        webhook: &Webhook,
        operation: Operation,
        error: ErrorType,
        code: u16,
    ) {
        let code = code.min(MAX_CODE).to_string();
        let labels =
            [&*webhook.name, webhook.step.name(), operation.name(), error.name(), code.as_str()];
        self.rejections.with(&labels).increment();
    }

    /// Counts a failed call that was ignored.
    pub(super) fn observe_fail_open(&self, name: &str, step: Step) {
        self.fail_open.with(&[name, step.name()]).increment();
    }
}
