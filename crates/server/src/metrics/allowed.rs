//! Limits on exported metrics: allowed values of labels, and disabled metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::family::Description;
use kevel_component::metrics::Counter;

/// Value of a label in place of one that is not allowed.
const UNEXPECTED: &str = "unexpected";

/// Options of metrics (`--allow-metric-labels`, `--disabled-metrics`).
#[derive(Clone, Debug, Default)]
pub struct MetricsOptions {
    /// Allowed values, by metric and label.
    pub allowed_labels: BTreeMap<(String, String), BTreeSet<String>>,
    /// Names of metrics that are not exported.
    pub disabled: BTreeSet<String>,
    /// Whether metrics are exported whose deprecation is long past (`--show-hidden-metrics-for-version`).
    pub show_hidden: bool,
    /// Minor version by which deprecated metrics are hidden.
    pub version: (u32, u32),
}

/// Allowed values of the labels of one family.
#[derive(Debug)]
pub(super) struct AllowedValues {
    /// By the position of the label; `None` allows all.
    values: Vec<Option<BTreeSet<String>>>,
    /// Counts values that were replaced.
    unexpected: Arc<Counter>,
}

impl AllowedValues {
    /// The allowed values of a family, if they are limited.
    pub fn of(
        options: &MetricsOptions,
        description: &Description,
        unexpected: &Arc<Counter>,
    ) -> Option<Self> {
        let key = |label: &&str| (description.name.to_owned(), (*label).to_owned());
        let of = |label: &&str| options.allowed_labels.get(&key(label)).cloned();
        let values: Vec<_> = description.labels.iter().map(of).collect();
        let limited = values.iter().any(Option::is_some);
        limited.then(|| AllowedValues { values, unexpected: unexpected.clone() })
    }

    /// Values with those replaced that are not allowed.
    pub fn apply<'v>(&self, values: &[&'v str]) -> Vec<&'v str> {
        let allow = |(at, value): (usize, &&'v str)| match self.values.get(at) {
            Some(Some(allowed)) if !allowed.contains(*value) => {
                self.unexpected.increment();
                UNEXPECTED
            }
            _ => *value,
        };
        values.iter().enumerate().map(allow).collect()
    }
}

#[cfg(test)]
mod tests {
    use kevel_clock::Clock;

    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn labels_show_allowed_values_only() {
        let key = |metric: &str, label: &str| (metric.to_owned(), label.to_owned());
        let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
        let inflight = "apiserver_current_inflight_requests";
        let options = MetricsOptions {
            allowed_labels: BTreeMap::from([
                (key("a_total", "code"), values(&["200", "201"])),
                (key(inflight, "request_kind"), values(&["mutating"])),
            ]),
            disabled: values(&["b_total"]),
            ..MetricsOptions::default()
        };
        let metrics = Metrics::new(Clock::system(), options);
        let labels = &["verb", "code"];
        let counter = |name| metrics.counter(Description { name, help: "x", labels });
        let (a, b) = (counter("a_total"), counter("b_total"));
        for code in ["200", "404", "500"] {
            a.with(&["GET", code]).increment();
            b.with(&["GET", code]).increment();
        }
        let text = metrics.show();
        for line in [
            "a_total{code=\"200\",verb=\"GET\"} 1",
            "a_total{code=\"unexpected\",verb=\"GET\"} 2",
            "apiserver_current_inflight_requests{request_kind=\"mutating\"} 0",
            "apiserver_current_inflight_requests{request_kind=\"unexpected\"} 0",
            "cardinality_enforcement_unexpected_categorizations_total 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("b_total"), "{text}");
    }
}
