//! Metrics of the `PodSecurity` plug-in.

use std::sync::Arc;

use kevel_registry::admission::{Attributes, Operation};
use kevel_server::metrics::{Counter, Description, Family, Metrics};
use kevel_server::version::API_LEVEL;

/// Counters of pod security: evaluations of policies, exemptions, errors.
#[derive(Clone, Debug)]
pub struct PodSecurityMetrics {
    evaluations: Arc<Family<Counter>>,
    exemptions: Arc<Family<Counter>>,
    errors: Arc<Family<Counter>>,
}

/// An evaluated policy.
#[derive(Clone, Copy, Debug)]
pub struct PolicyEvaluation<'e> {
    /// Whether the pod conforms.
    pub allowed: bool,
    /// Level of the policy.
    pub level: &'e str,
    /// Minor version of the policy; `None` is the latest.
    pub minor: Option<u32>,
    /// `enforce`, `audit` or `warn`.
    pub mode: &'static str,
}

impl PodSecurityMetrics {
    /// Registers the metrics: once per server.
    pub fn new(metrics: &Metrics) -> Self {
        let all = PodSecurityMetrics {
            evaluations: metrics.counter(Description {
                name: "pod_security_evaluations_total",
                help: "[ALPHA] Evaluations of pod security policies, without exempt requests.",
                labels: &[
                    "decision",
                    "policy_level",
                    "policy_version",
                    "mode",
                    "request_operation",
                    "resource",
                    "subresource",
                ],
            }),
            exemptions: metrics.counter(Description {
                name: "pod_security_exemptions_total",
                help: "[ALPHA] Requests that are exempt from pod security.",
                labels: &["request_operation", "resource", "subresource"],
            }),
            errors: metrics.counter(Description {
                name: "pod_security_errors_total",
                help: "[ALPHA] Errors in evaluations of pod security.",
                labels: &["fatal", "request_operation", "resource", "subresource"],
            }),
        };
        // Shown from the start, as by the reference.
        for operation in ["create", "update"] {
            let common = ["allow", "privileged", "latest", "enforce", operation, "pod", ""];
            all.evaluations.with(&common);
            for resource in ["pod", "controller"] {
                all.exemptions.with(&[operation, resource, ""]);
            }
        }
        all
    }

    /// Counts an evaluation.
    pub fn evaluated(&self, evaluation: PolicyEvaluation<'_>, attributes: &Attributes<'_>) {
        let PolicyEvaluation { allowed, level, minor, mode } = evaluation;
        let version = match minor.filter(|_| level != "privileged") {
            None => "latest".to_owned(),
            Some(minor) if minor > API_LEVEL.1 => "future".to_owned(),
            Some(minor) => format!("v1.{minor}"),
        };
        let decision = if allowed { "allow" } else { "deny" };
        let [operation, resource, subresource] = labels(attributes);
        let labels = [decision, level, &version, mode, operation, resource, subresource];
        self.evaluations.with(&labels).increment();
    }

    /// Counts an exempt request.
    pub fn exempted(&self, attributes: &Attributes<'_>) {
        self.exemptions.with(&labels(attributes)).increment();
    }

    /// Counts an error; a fatal one left nothing to evaluate.
    pub fn failed(&self, fatal: bool, attributes: &Attributes<'_>) {
        let [operation, resource, subresource] = labels(attributes);
        let fatal = if fatal { "true" } else { "false" };
        self.errors.with(&[fatal, operation, resource, subresource]).increment();
    }
}

/// Operation, resource and subresource. The plug-in sees pods, namespaces and what makes pods.
fn labels<'a>(attributes: &'a Attributes<'_>) -> [&'a str; 3] {
    let operation = match attributes.operation {
        Operation::Create => "create",
        Operation::Update => "update",
        Operation::Delete => "delete",
        Operation::Connect => "connect",
    };
    let resource = if attributes.concerns("", "pods") {
        "pod"
    } else if attributes.concerns("", "namespaces") {
        "namespace"
    } else {
        "controller"
    };
    [operation, resource, attributes.subresource]
}
