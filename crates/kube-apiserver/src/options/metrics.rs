//! Flags of the metrics.

use std::collections::BTreeMap;

use super::files::read_error;
use crate::flags::{EFFECTIVE, StringToString, Strings, section};
use kevel_api::field_error::{BadValue, FieldError, Path};
use kevel_api::json_string::write_json_string;
use kevel_api::value::Map;
use kevel_codec::json::Unknown;
use kevel_codec::yaml;
use kevel_server::metrics::MetricsOptions;
use kevel_server::version::API_LEVEL;

section! {
    /// Options of the metrics.
    Metrics, "metrics" {
        /// Values that a metric's label may have, as metric,label='value,value'; others are shown
        /// as 'unexpected'.
        allow_metric_labels: StringToString, EFFECTIVE;
        /// File with the same as --allow-metric-labels, a map in YAML.
        allow_metric_labels_manifest: String, EFFECTIVE;
        /// Full names of metrics to leave out, comma separated.
        disabled_metrics: Strings, EFFECTIVE;
        /// Show the metrics that were hidden since this version, which can only be the previous
        /// minor version, as major.minor.
        show_hidden_metrics_for_version: String, EFFECTIVE;
    }
}

const NAME: &str = "[a-zA-Z_:][a-zA-Z0-9_:]*";
const LABEL: &str = "[a-zA-Z_][a-zA-Z0-9_]*";

impl Metrics {
    /// Validation errors of these options alone.
    pub(super) fn validate(&self) -> Vec<String> {
        let metrics = Path::new("metrics");
        let mut errors = Vec::new();
        let version = &self.show_hidden_metrics_for_version;
        let previous = format!("{}.{}", API_LEVEL.0, API_LEVEL.1 - 1);
        if !version.is_empty() && *version != previous {
            errors.push(FieldError::invalid(
                &metrics.child("showHiddenMetricsForVersion"),
                version.as_str(),
                format!(
                    "must be omitted or have the value '{previous}'; only the previous minor \
                     version is allowed"
                ),
            ));
        }
        if let Some(name) = self.disabled_metrics.iter().find(|name| !is_name(name, true)) {
            errors.push(FieldError::invalid(
                &metrics.child("disabledMetrics"),
                BadValue::strings(self.disabled_metrics.iter()),
                format!("must be fully qualified metric names matching \"^{NAME}$\", got {name:?}"),
            ));
        }
        let is_key = |key: &str| {
            key.split_once(',')
                .is_some_and(|(metric, label)| is_name(metric, true) && is_name(label, false))
        };
        if self.allow_metric_labels.keys().any(|key| !is_key(key)) {
            errors.push(FieldError::invalid(
                &metrics.child("allowListMapping"),
                BadValue::Text(self.labels_as_json()),
                format!(
                    "must have keys with format `metricName,labelName` where metricName matches \
                     \"{NAME}\" and labelName matches \"{LABEL}\""
                ),
            ));
        }
        let manifest = &self.allow_metric_labels_manifest;
        if let Some(error) = read_error(manifest).filter(|_| !manifest.is_empty()) {
            errors.push(FieldError::invalid(
                &metrics.child("allowListMappingManifest"),
                manifest.as_str(),
                format!("failed to read allow list manifest: {error}"),
            ));
        }
        if !self.allow_metric_labels.is_empty() && !manifest.is_empty() {
            let both = "cannot specify both allowListMapping and allowListMappingManifest";
            errors.push(FieldError::invalid(&metrics, BadValue::Text(self.as_json()), both));
        }
        errors.iter().map(FieldError::to_string).collect()
    }

    /// Limits on exported metrics and labels. Fails if the manifest cannot be read.
    pub fn shown(&self) -> std::io::Result<MetricsOptions> {
        let mut allowed: BTreeMap<String, String> = BTreeMap::new();
        for (key, values) in self.allow_metric_labels.iter() {
            allowed.insert(key.clone(), values.clone());
        }
        let manifest = &self.allow_metric_labels_manifest;
        if !manifest.is_empty() {
            let read = yaml::decode_any(&std::fs::read(manifest)?, Unknown::Ignore);
            let read = read.map_err(|error| std::io::Error::other(error.to_string()))?;
            for (key, values) in read.value.as_map().into_iter().flat_map(Map::iter) {
                allowed.insert(key.to_owned(), values.as_str().unwrap_or_default().to_owned());
            }
        }
        let allowed = allowed.iter().filter_map(|(key, values)| {
            let (metric, label) = key.split_once(',')?;
            let values = values.split(',').map(str::to_owned).collect();
            Some(((metric.to_owned(), label.to_owned()), values))
        });
        Ok(MetricsOptions {
            allowed_labels: allowed.collect(),
            disabled: self.disabled_metrics.iter().cloned().collect(),
            version: (API_LEVEL.0, API_LEVEL.1),
            show_hidden: !self.show_hidden_metrics_for_version.is_empty(),
        })
    }

    fn as_json(&self) -> String {
        let version = &self.show_hidden_metrics_for_version;
        let disabled = match BadValue::strings(self.disabled_metrics.iter()) {
            BadValue::Text(list) => list,
            _ => String::new(),
        };
        json_object([
            ("showHiddenMetricsForVersion", json_string(version), version.is_empty()),
            ("disabledMetrics", disabled, self.disabled_metrics.is_empty()),
            ("allowListMapping", self.labels_as_json(), self.allow_metric_labels.is_empty()),
            ("allowListMappingManifest", json_string(&self.allow_metric_labels_manifest), false),
        ])
    }

    fn labels_as_json(&self) -> String {
        let labels = self.allow_metric_labels.iter();
        json_object(labels.map(|(key, value)| (key.as_str(), json_string(value), false)))
    }
}

/// An object of members, each with whether to leave it out.
fn json_object<'a>(members: impl IntoIterator<Item = (&'a str, String, bool)>) -> String {
    let members = members.into_iter().filter(|(_, _, omit)| !omit);
    let members: Vec<String> =
        members.map(|(key, value, _)| format!("{}:{value}", json_string(key))).collect();
    format!("{{{}}}", members.join(","))
}

fn json_string(text: &str) -> String {
    let mut out = Vec::new();
    write_json_string(&mut out, text);
    String::from_utf8(out).unwrap_or_default()
}

/// Whether this is the name of a metric, which may have colons, or of a label, which may not.
fn is_name(text: &str, colons: bool) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_' || (colons && c == ':');
    text.starts_with(letter) && text.chars().all(|c| letter(c) || c.is_ascii_digit())
}
