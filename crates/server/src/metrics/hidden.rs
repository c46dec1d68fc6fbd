//! Metrics that are no longer shown, since their deprecation is long past.

use std::sync::Arc;

use super::Metrics;
use super::family::{Description, Show};

/// Number of minor versions after its deprecation in which a metric is shown.
fn period(stability: &str) -> u32 {
    match stability {
        "STABLE" => 3,
        "BETA" => 1,
        _ => 0,
    }
}

/// Whether a metric is hidden in a version.
pub(super) fn is_hidden(description: &Description, version: (u32, u32)) -> bool {
    let mut parts = description.deprecated().split('.').map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else { return false };
    (major, minor + period(description.stability())) <= version
}

/// Former name of a metric.
pub(super) struct FormerName {
    /// Description under the former name. Without labels, those of the present one are meant.
    pub description: Description,
    /// Type under the former name.
    pub kind: &'static str,
    /// Present name.
    pub of: &'static str,
}

const fn former(
    name: &'static str,
    labels: &'static [&'static str],
    kind: &'static str,
    of: &'static str,
    help: &'static str,
) -> FormerName {
    FormerName { description: Description { name, help, labels }, kind, of }
}

/// Metrics that the reference hides, all of which have a new name.
pub(super) static FORMER_NAMES: [FormerName; 7] = [
    former(
        "apiserver_flowcontrol_request_concurrency_in_use",
        &[],
        "gauge",
        "apiserver_flowcontrol_current_executing_seats",
        "[ALPHA] (Deprecated since 1.31.0) See apiserver_flowcontrol_current_executing_seats.",
    ),
    former(
        "apiserver_flowcontrol_request_concurrency_limit",
        &[],
        "gauge",
        "apiserver_flowcontrol_nominal_limit_seats",
        "[ALPHA] (Deprecated since 1.30.0) See apiserver_flowcontrol_nominal_limit_seats.",
    ),
    former(
        "apiserver_request_slo_duration_seconds",
        &[],
        "histogram",
        "apiserver_request_sli_duration_seconds",
        "[ALPHA] (Deprecated since 1.27.0) See apiserver_request_sli_duration_seconds.",
    ),
    former(
        "apiserver_storage_db_total_size_in_bytes",
        &["endpoint"],
        "gauge",
        "apiserver_storage_size_bytes",
        "[ALPHA] (Deprecated since 1.28.0) See apiserver_storage_size_bytes.",
    ),
    former(
        "etcd_bookmark_counts",
        &[],
        "gauge",
        "etcd_bookmark_total",
        "[ALPHA] (Deprecated since 1.36.0) See etcd_bookmark_total.",
    ),
    former(
        "kube_apiserver_pod_logs_pods_logs_backend_tls_failure_total",
        &[],
        "counter",
        "kube_apiserver_pod_logs_backend_tls_failure_total",
        "[ALPHA] (Deprecated since 1.27.0) See kube_apiserver_pod_logs_backend_tls_failure_total.",
    ),
    former(
        "kube_apiserver_pod_logs_pods_logs_insecure_backend_total",
        &[],
        "counter",
        "kube_apiserver_pod_logs_insecure_backend_total",
        "[ALPHA] (Deprecated since 1.27.0) See kube_apiserver_pod_logs_insecure_backend_total.",
    ),
];

/// A family under one of its names.
pub(super) struct ShownFamily<'f> {
    pub family: &'f Arc<dyn Show>,
    pub description: &'f Description,
    pub kind: &'static str,
}

/// A family under all of its names, former ones included.
pub(super) fn names_of(family: &Arc<dyn Show>) -> impl Iterator<Item = ShownFamily<'_>> {
    let now = ShownFamily { family, description: family.description(), kind: family.kind() };
    let former = FORMER_NAMES.iter().filter(|former| former.of == family.name());
    let former = former.map(move |FormerName { description, kind, .. }| ShownFamily {
        family,
        description,
        kind,
    });
    std::iter::once(now).chain(former)
}

impl Metrics {
    /// Whether a metric is shown.
    pub(super) fn shows(&self, description: &Description) -> bool {
        let hidden = is_hidden(description, self.options.version) && !self.options.show_hidden;
        !hidden && !self.options.disabled.contains(description.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::MetricsOptions;

    #[test]
    fn deprecated_metrics_are_hidden_after_a_while() {
        for (help, hidden) in [
            ("[STABLE] x", false),
            ("[STABLE] (Deprecated since 1.34.0) x", false),
            ("[STABLE] (Deprecated since 1.33.0) x", true),
            ("[BETA] (Deprecated since 1.36.0) x", false),
            ("[BETA] (Deprecated since 1.35.0) x", true),
            ("[ALPHA] (Deprecated since 1.36.0) x", true),
            ("[ALPHA] (Deprecated since 1.37.0) x", false),
        ] {
            let description = Description { name: "x", help, labels: &[] };
            assert_eq!(is_hidden(&description, (1, 36)), hidden, "{help}");
        }
    }
    #[test]
    fn hidden_metrics_are_shown_if_asked_for() {
        let shown = |show_hidden| {
            let options = MetricsOptions { show_hidden, version: (1, 36), ..Default::default() };
            let metrics = Metrics::new(kevel_clock::Clock::system(), options);
            let labels = &["storage_cluster_id"];
            let size =
                Description { name: "apiserver_storage_size_bytes", help: "[STABLE] x", labels };
            metrics.gauge(size).with(&["etcd-0"]).set(7);
            metrics.show()
        };
        let line = "apiserver_storage_db_total_size_in_bytes{endpoint=\"etcd-0\"} 7";
        assert!(shown(true).contains(line), "{}", shown(true));
        assert!(shown(true).contains("hidden_metrics_total 0"));
        assert!(!shown(false).contains(line));
        // Those of etcd and of requests, which are registered.
        assert!(shown(false).contains("hidden_metrics_total 2"), "{}", shown(false));
    }
}
