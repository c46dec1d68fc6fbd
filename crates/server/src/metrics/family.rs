//! Metric families: one metric by label values.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use super::allowed::{AllowedValues, MetricsOptions};
use super::text::Text;
use kevel_component::metrics::{Counter, FloatGauge, Gauge, Histogram};
use kevel_component::summary::{QUANTILES, QuantileSummary};

/// Most label sets of a family. Others are not recorded: a client must not be able to fill the memory with labels.
pub(crate) const MAX_SERIES: usize = 20_000;

const SHARDS: usize = 16;

/// Description of a family.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// Name of the metric.
    pub name: &'static str,
    /// Help text, with the stability level: `[STABLE] ...`.
    pub help: &'static str,
    /// Names of the labels, in the order of their values.
    pub labels: &'static [&'static str],
}

impl Description {
    /// Stability level, from the help text: `STABLE`; empty without one.
    pub fn stability(&self) -> &'static str {
        let rest = self.help.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        rest.map_or("", |(level, _)| level)
    }

    /// Version that has deprecated the metric, from the help text: `1.34.0`; empty if none has.
    pub fn deprecated(&self) -> &'static str {
        let rest =
            self.help.split_once("(Deprecated since ").and_then(|(_, rest)| rest.split_once(')'));
        rest.map_or("", |(version, _)| version)
    }
}

/// A metric that can be exported.
pub trait Metric: Send + Sync + 'static {
    /// Prometheus type.
    const TYPE: &'static str;

    /// Writes the samples of one label set.
    fn write(&self, text: &mut Text, name: &str, labels: &str);
}

/// Metrics of one name, by label values.
pub struct Family<M> {
    description: Description,
    /// Allowed values of labels, if they are limited; set when the family is registered.
    allowed: OnceLock<AllowedValues>,
    make: Box<dyn Fn() -> M + Send + Sync>,
    hasher: RandomState,
    shards: [RwLock<HashMap<String, Arc<M>>>; SHARDS],
}

impl<M> std::fmt::Debug for Family<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.description.name)
    }
}

/// Separator of the values in a series' key. No Kubernetes name contains it.
const SEPARATOR: char = '\u{1f}';

impl<M: Metric> Family<M> {
    pub(super) fn new(
        description: Description,
        make: impl Fn() -> M + Send + Sync + 'static,
    ) -> Self {
        Family {
            description,
            allowed: OnceLock::new(),
            make: Box::new(make),
            hasher: RandomState::new(),
            shards: Default::default(),
        }
    }

    /// Limits the values of labels. Values that were used before stay.
    pub(super) fn limit(&self, options: &MetricsOptions, unexpected: &Arc<Counter>) {
        if let Some(allowed) = AllowedValues::of(options, &self.description, unexpected) {
            let _ = self.allowed.set(allowed);
        }
    }

    /// The metric with these label values, in the order of the labels.
    pub fn with(&self, values: &[&str]) -> Arc<M> {
        match self.allowed.get() {
            Some(allowed) => self.series(&allowed.apply(values)),
            None => self.series(values),
        }
    }

    fn series(&self, values: &[&str]) -> Arc<M> {
        let key = values.join(&*SEPARATOR.encode_utf8(&mut [0; 4]));
        let shard = &self.shards[self.hasher.hash_one(&key) as usize % SHARDS];
        if let Some(metric) = shard.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return metric.clone();
        }
        let mut series = shard.write().unwrap_or_else(PoisonError::into_inner);
        if series.len() >= MAX_SERIES / SHARDS {
            return Arc::new((self.make)());
        }
        series.entry(key).or_insert_with(|| Arc::new((self.make)())).clone()
    }

    /// Shows a metric that is kept elsewhere, with these label values.
    pub fn insert(&self, values: &[&str], metric: Arc<M>) {
        let key = values.join(&*SEPARATOR.encode_utf8(&mut [0; 4]));
        let shard = &self.shards[self.hasher.hash_one(&key) as usize % SHARDS];
        let mut series = shard.write().unwrap_or_else(PoisonError::into_inner);
        if series.len() < MAX_SERIES / SHARDS {
            series.insert(key, metric);
        }
    }

    /// Removes the metric with these label values.
    pub fn remove(&self, values: &[&str]) {
        let key = values.join(&*SEPARATOR.encode_utf8(&mut [0; 4]));
        let shard = &self.shards[self.hasher.hash_one(&key) as usize % SHARDS];
        shard.write().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }
}

/// A family of any type.
pub(super) trait Show: Send + Sync {
    fn description(&self) -> &Description;
    /// Prometheus type.
    fn kind(&self) -> &'static str;
    /// Writes the metrics under a name; without labels in the description, under those of the family.
    fn show_as(&self, description: &Description, kind: &str, text: &mut Text);

    fn name(&self) -> &'static str {
        self.description().name
    }

    fn show(&self, text: &mut Text) {
        self.show_as(self.description(), self.kind(), text);
    }
}

impl<M: Metric> Show for Family<M> {
    fn description(&self) -> &Description {
        &self.description
    }

    fn kind(&self) -> &'static str {
        M::TYPE
    }

    fn show_as(&self, description: &Description, kind: &str, text: &mut Text) {
        let labels = match description.labels {
            [] => self.description.labels,
            labels => labels,
        };
        let mut series = Vec::new();
        for shard in &self.shards {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            series.extend(shard.iter().map(|(key, metric)| {
                let names = labels.iter().copied();
                (Text::labels(names.zip(key.split(SEPARATOR))), metric.clone())
            }));
        }
        if series.is_empty() {
            return;
        }
        series.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        text.heading(description.name, description.help, kind);
        for (labels, metric) in series {
            metric.write(text, description.name, &labels);
        }
    }
}

impl Metric for Counter {
    const TYPE: &'static str = "counter";

    fn write(&self, text: &mut Text, name: &str, labels: &str) {
        text.sample(name, "", labels, self.value() as f64);
    }
}

impl Metric for Gauge {
    const TYPE: &'static str = "gauge";

    fn write(&self, text: &mut Text, name: &str, labels: &str) {
        text.sample(name, "", labels, self.value() as f64);
    }
}

impl Metric for FloatGauge {
    const TYPE: &'static str = "gauge";

    fn write(&self, text: &mut Text, name: &str, labels: &str) {
        text.sample(name, "", labels, self.value());
    }
}

impl Metric for Histogram {
    const TYPE: &'static str = "histogram";

    fn write(&self, text: &mut Text, name: &str, labels: &str) {
        let buckets = self.cumulative();
        for (bound, count) in &buckets {
            text.bucket(name, labels, *bound, *count as f64);
        }
        text.sample(name, "_sum", labels, self.sum());
        let count = buckets.last().map_or(0, |last| last.1);
        text.sample(name, "_count", labels, count as f64);
    }
}

impl Metric for QuantileSummary {
    const TYPE: &'static str = "summary";

    fn write(&self, text: &mut Text, name: &str, labels: &str) {
        let comma = if labels.is_empty() { "" } else { "," };
        for part in QUANTILES {
            let labels = format!("{labels}{comma}quantile=\"{part}\"");
            text.sample(name, "", &labels, self.quantile(part));
        }
        text.sample(name, "_sum", labels, self.sum());
        text.sample(name, "_count", labels, self.count() as f64);
    }
}
