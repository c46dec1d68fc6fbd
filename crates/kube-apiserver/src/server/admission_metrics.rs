//! Metrics of admission: how long each plug-in and each step takes.

use std::sync::{Arc, OnceLock};

use kevel_admission_plugins::PLUGINS;
use kevel_registry::admission::{AdmissionStep, AdmissionWork, ObserveAdmission, Operation};
use kevel_server::metrics::{Description, Family, Histogram, Metrics, QuantileSummary};

/// From 5 ms to 2.5 s.
const SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5];

/// Plug-ins that only validate: their step of mutation is not shown.
const VALIDATE_ONLY: &[&str] = &[
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "ClusterTrustBundleAttest",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceExists",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "PodSecurity",
    "ResourceQuota",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
];
/// Plug-ins that only mutate.
const ADMIT_ONLY: &[&str] = &[
    "DefaultIngressClass",
    "DefaultStorageClass",
    "DefaultTolerationSeconds",
    "ExtendedResourceToleration",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "NamespaceAutoProvision",
    "NamespaceLifecycle",
    "NodeRestriction",
    "PodTopologyLabels",
    "StorageObjectInUseProtection",
    "TaintNodesByCondition",
];

/// Step, operation and rejection of a series: its place among those of one plug-in.
const PLACES: usize = 2 * 4 * 2;

/// Series of one plug-in by their place, found without a look-up.
type StepSeries = [OnceLock<Arc<Histogram>>; PLACES];

/// Observer of admission with the reference's metrics.
pub struct AdmissionMetrics {
    /// Name and series of each plug-in; `None` for those that the reference does not have.
    plugins: Vec<Option<(&'static str, StepSeries)>>,
    controllers: Arc<Family<Histogram>>,
    steps: Arc<Family<Histogram>>,
    of_steps: StepSeries,
    summaries: Arc<Family<QuantileSummary>>,
    of_summaries: [OnceLock<Arc<QuantileSummary>>; PLACES],
}

impl AdmissionMetrics {
    /// Registers the metrics of plug-ins, by the names in the order in which they run.
    pub fn new(metrics: &Metrics, names: impl IntoIterator<Item = &'static str>) -> Self {
        let known = |name: &&'static str| PLUGINS.iter().any(|plugin| plugin.name == *name);
        let series = |name| Some(name).filter(known).map(|name| (name, StepSeries::default()));
        let step = &["type", "operation", "rejected"];
        AdmissionMetrics {
            plugins: names.into_iter().map(series).collect(),
            controllers: metrics.histogram(
                Description {
                    name: "apiserver_admission_controller_admission_duration_seconds",
                    help: "[STABLE] Seconds in an admission plug-in, by operation and step.",
                    labels: &["name", "type", "operation", "rejected"],
                },
                SECONDS,
            ),
            steps: metrics.histogram(
                Description {
                    name: "apiserver_admission_step_admission_duration_seconds",
                    help: "[STABLE] Seconds in a step of admission, by operation.",
                    labels: step,
                },
                SECONDS,
            ),
            of_steps: StepSeries::default(),
            summaries: metrics.family(
                Description {
                    name: "apiserver_admission_step_admission_duration_seconds_summary",
                    help: "[ALPHA] Quantiles of the seconds in a step of admission, by operation.",
                    labels: step,
                },
                QuantileSummary::default,
            ),
            of_summaries: Default::default(),
        }
    }
}

impl ObserveAdmission for AdmissionMetrics {
    fn observe(&self, work: AdmissionWork<'_>) {
        let (step, others) = match work.step {
            AdmissionStep::Admit => ("admit", VALIDATE_ONLY),
            AdmissionStep::Validate => ("validate", ADMIT_ONLY),
        };
        let operation = work.attributes.operation;
        let rejected = if work.rejected { "true" } else { "false" };
        let labels = [step, operation.name(), rejected];
        let place = place(work.step, operation, work.rejected);
        let seconds = work.took.as_secs_f64();
        let Some(plugin) = work.plugin else {
            let series = self.of_steps[place].get_or_init(|| self.steps.with(&labels));
            series.observe(seconds);
            let summary = self.of_summaries[place].get_or_init(|| self.summaries.with(&labels));
            summary.observe(seconds);
            return;
        };
        if let Some(Some((name, series))) = self.plugins.get(plugin)
            && !others.contains(name)
        {
            let [step, operation, rejected] = labels;
            let make = || self.controllers.with(&[name, step, operation, rejected]);
            series[place].get_or_init(make).observe(seconds);
        }
    }
}

fn place(step: AdmissionStep, operation: Operation, rejected: bool) -> usize {
    let step = usize::from(step == AdmissionStep::Validate);
    let operation = match operation {
        Operation::Create => 0,
        Operation::Update => 1,
        Operation::Delete => 2,
        Operation::Connect => 3,
    };
    (step * 4 + operation) * 2 + usize::from(rejected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_with_one_step_exist() {
        for name in VALIDATE_ONLY.iter().chain(ADMIT_ONLY) {
            assert!(PLUGINS.iter().any(|plugin| plugin.name == *name), "{name}");
        }
    }
}
