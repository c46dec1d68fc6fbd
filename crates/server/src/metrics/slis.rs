//! `/metrics/slis`: results of health checks.

use std::sync::Arc;

use super::family::{Description, Family, Show};
use super::text::Text;
use kevel_component::metrics::{Counter, Gauge};

/// Metrics of health check results.
#[derive(Debug)]
pub struct Slis {
    last: Arc<Family<Gauge>>,
    all: Arc<Family<Counter>>,
}

impl Default for Slis {
    fn default() -> Self {
        let last = Description {
            name: "kubernetes_healthcheck",
            help: "[STABLE] Result of the last health check.",
            labels: &["name", "type"],
        };
        let all = Description {
            name: "kubernetes_healthchecks_total",
            help: "[STABLE] Results of health checks.",
            labels: &["name", "status", "type"],
        };
        Slis {
            last: Arc::new(Family::new(last, Gauge::default)),
            all: Arc::new(Family::new(all, Counter::default)),
        }
    }
}

impl Slis {
    /// Records the result of a check of an endpoint (`readyz`).
    pub fn record(&self, endpoint: &str, check: &str, passed: bool) {
        self.last.with(&[check, endpoint]).set(i64::from(passed));
        let status = if passed { "success" } else { "error" };
        self.all.with(&[check, status, endpoint]).increment();
    }

    /// Text of `/metrics/slis`.
    pub fn show(&self) -> String {
        let mut text = Text::default();
        self.last.show(&mut text);
        self.all.show(&mut text);
        text.into_string()
    }
}
