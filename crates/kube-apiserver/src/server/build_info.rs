//! Metrics of the build, its versions and its features, and those that all servers of the process share.

use std::sync::Arc;

use kevel_cel::metrics::{COMPILATION_SECONDS, EVALUATION_SECONDS};
use kevel_extensions::schema::RATCHETING_SECONDS;
use kevel_features::{BINARY, EffectiveVersion, Feature, FeatureGates, Maturity};
use kevel_registry::store::timestamps::{COMPARISON_SECONDS, COMPARISONS};
use kevel_server::metrics::{Description, Histogram, Metrics};
use kevel_server::version::Info;

/// Shows the version and the build as labels (upstream: `kubernetes_build_info`).
pub fn show(info: &Info, metrics: &Metrics) {
    let builds = metrics.gauge(Description {
        name: "kubernetes_build_info",
        help: "[BETA] The version and the build of this program as labels. The value is always 1.",
        labels: &[
            "major",
            "minor",
            "git_version",
            "git_commit",
            "git_tree_state",
            "build_date",
            "go_version",
            "compiler",
            "platform",
        ],
    });
    let labels = [
        info.major.as_str(),
        &info.minor,
        &info.git_version,
        &info.git_commit,
        &info.git_tree_state,
        &info.build_date,
        &info.go_version,
        &info.compiler,
        &info.platform,
    ];
    builds.with(&labels).set(1);
}

/// Shows the versions that the server goes by (upstream: `version_info`).
pub fn show_versions(version: EffectiveVersion, metrics: &Metrics) {
    let versions = metrics.gauge(Description {
        name: "version_info",
        help: "[ALPHA] The versions of the program, and those that it emulates and is compatible \
               with, as labels. The value is always 1.",
        labels: &["component", "binary", "emulation", "min_compat"],
    });
    let [binary, emulation, oldest] = [BINARY, version.emulation, version.min_compatibility];
    let labels = [binary.to_string(), emulation.to_string(), oldest.to_string()];
    let [binary, emulation, oldest] = labels.each_ref().map(String::as_str);
    versions.with(&["kube", binary, emulation, oldest]).set(1);
}

/// Shows all features with their stage, and whether they are on (upstream: `kubernetes_feature_enabled`).
pub fn show_features(gates: &FeatureGates, version: EffectiveVersion, metrics: &Metrics) {
    let enabled = metrics.gauge(Description {
        name: "kubernetes_feature_enabled",
        help: "[BETA] Features with their stage: 1 if they are on, 0 if they are off.",
        labels: &["name", "stage"],
    });
    for gate in Feature::gates() {
        let stage = match gate.at(version).stage {
            Maturity::PreAlpha => continue,
            Maturity::Alpha => "ALPHA",
            Maturity::Beta => "BETA",
            Maturity::Ga => "",
            Maturity::Deprecated => "DEPRECATED",
        };
        enabled.with(&[gate.name, stage]).set(i64::from(gates.enabled(gate.feature)));
    }
}

/// Shows what is measured in the whole process.
pub fn show_shared(metrics: &Metrics) {
    let histogram = |name, help, labels| {
        metrics.family(Description { name, help, labels }, || Histogram::new(&[]))
    };
    let single: [(&str, &str, Arc<Histogram>); 3] = [
        (
            "apiserver_cel_compilation_duration_seconds",
            "[BETA] Seconds of compilations of CEL expressions.",
            COMPILATION_SECONDS.clone(),
        ),
        (
            "apiserver_cel_evaluation_duration_seconds",
            "[BETA] Seconds of evaluations of CEL expressions.",
            EVALUATION_SECONDS.clone(),
        ),
        (
            "apiextensions_apiserver_validation_ratcheting_seconds",
            "[ALPHA] Seconds of comparisons of old and new custom objects.",
            RATCHETING_SECONDS.clone(),
        ),
    ];
    for (name, help, shared) in single {
        histogram(name, help, &[]).insert(&[], shared);
    }
    let comparisons = histogram(
        "apiserver_request_timestamp_comparison_time",
        "[ALPHA] Seconds of comparisons of an object before and after a write, by outcome.",
        &["code_path"],
    );
    for (outcome, seconds) in COMPARISONS.iter().zip(COMPARISON_SECONDS.iter()) {
        comparisons.insert(&[outcome], seconds.clone());
    }
}
