//! `/metrics/slis`: the results of the health checks, each time that they ran.

use std::sync::Arc;

use super::family::{Description, Family, Show};
use super::metric::{Counter, Gauge};
use super::text::Text;

/// The results of health checks.
#[derive(Debug)]
pub struct Slis {
    last: Arc<Family<Gauge>>,
    all: Arc<Family<Counter>>,
}

impl Default for Slis {
    fn default() -> Self {
        let last = Description {
            name: "kubernetes_healthcheck",
            help: "[STABLE] How a health check went the last time.",
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
    /// Takes down how a check of an endpoint (`readyz`) went.
    pub fn record(&self, endpoint: &str, check: &str, passed: bool) {
        self.last.with(&[check, endpoint]).set(i64::from(passed));
        let status = if passed { "success" } else { "error" };
        self.all.with(&[check, status, endpoint]).increment();
    }

    /// What `/metrics/slis` shows.
    pub fn show(&self) -> String {
        let mut text = Text::default();
        self.last.show(&mut text);
        self.all.show(&mut text);
        text.into_string()
    }
}
