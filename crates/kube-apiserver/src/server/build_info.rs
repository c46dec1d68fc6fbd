//! Metric of the build.

use kevel_server::metrics::{Description, Metrics};
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
