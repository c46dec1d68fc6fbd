//! Metrics about the metrics themselves, and their descriptions.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use super::hidden::{ShownFamily, is_hidden, names_of};
use super::text::Text;
use super::{Metrics, process};

/// Description of a metric for documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricDescription {
    /// Name.
    pub name: &'static str,
    /// Prometheus type.
    pub kind: &'static str,
    /// Labels, sorted.
    pub labels: Vec<&'static str>,
    /// Help text, with the stability level.
    pub help: &'static str,
}

const REGISTERED: (&str, &str) = (
    "registered_metrics_total",
    "[BETA] Metrics of the server, by stability level and the version that has deprecated them.",
);
const HIDDEN: (&str, &str) = (
    "hidden_metrics_total",
    "[BETA] Metrics that are hidden, since their deprecation is long past.",
);
const DISABLED: (&str, &str) =
    ("disabled_metrics_total", "[BETA] Metrics that are switched off by --disabled-metrics.");

impl Metrics {
    /// Descriptions of all metrics, with and without values, by name.
    pub fn descriptions(&self) -> Vec<MetricDescription> {
        let families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = families
            .iter()
            .map(|family| {
                let description = family.description();
                let mut labels = description.labels.to_vec();
                labels.sort_unstable();
                let (name, help) = (description.name, description.help);
                MetricDescription { name, kind: family.kind(), labels, help }
            })
            .collect();
        let single = |(name, help): (&'static str, &'static str), kind| MetricDescription {
            name,
            kind,
            labels: Vec::new(),
            help,
        };
        let labels = vec!["deprecated_version", "stability_level"];
        all.push(MetricDescription { labels, ..single(REGISTERED, "counter") });
        all.extend([HIDDEN, DISABLED].map(|metric| single(metric, "counter")));
        all.extend(process::descriptions().map(|(name, kind, help)| single((name, help), kind)));
        all.sort_by_key(|metric| metric.name);
        all
    }

    /// Writes the metrics about the shown families.
    pub(super) fn show_about(&self, shown: &[ShownFamily<'_>], text: &mut Text) {
        let mut registered: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for ShownFamily { description, .. } in shown {
            if !description.stability().is_empty() {
                let place = (description.deprecated(), description.stability());
                *registered.entry(place).or_default() += 1;
            }
        }
        let disabled = |name: &str| self.options.disabled.contains(name);
        if !disabled(REGISTERED.0) {
            text.heading(REGISTERED.0, REGISTERED.1, "counter");
            for ((deprecated, stability), count) in registered {
                let labels = [("deprecated_version", deprecated), ("stability_level", stability)];
                let labels = Text::labels(labels.into_iter());
                text.sample(REGISTERED.0, "", &labels, count as f64);
            }
        }
        let families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        let version = self.options.version;
        let names = families.iter().flat_map(names_of);
        let hidden = names.filter(|shown| is_hidden(shown.description, version)).count();
        let hidden = if self.options.show_hidden { 0 } else { hidden };
        for ((name, help), count) in [(HIDDEN, hidden), (DISABLED, self.options.disabled.len())] {
            if !disabled(name) {
                text.single(name, help, "counter", count as f64);
            }
        }
    }
}
