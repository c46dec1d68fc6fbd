//! Admission policies among the documents: waiting until they are in force.

use std::time::Duration;

use kevel_clock::monotonic_now;
use kevel_codec::json::{Unknown, decode_any};

use bytes::Bytes;
use http::Method;

use super::cluster::{CheckRequest, escaped};
use super::order::InstallStep;
use super::run::{CheckRun, PlannedDocument};

/// Longest wait for policies, which takes milliseconds: they are compiled in the background.
const POLICY_WAIT: Duration = Duration::from_secs(10);
/// Time between two questions.
const POLL: Duration = Duration::from_millis(1);

/// Name of the policies that show that all before them are in force, and of the object that they are about.
const PROBE: &str = "probe.check.kevel.dev";

/// Path of the kinds of policies.
const ROOT: &str = "/apis/admissionregistration.k8s.io";

/// Waits until the policies and bindings that are stored are in force. A validating policy is stored after all others
/// that warns of an object of its own, and says whether a mutating policy has changed that object.
pub async fn wait(run: &mut CheckRun<'_>, planned: &[PlannedDocument<'_>]) {
    let mutating = planned.iter().find(|one| {
        one.step == InstallStep::Policies && one.document.kind == "MutatingAdmissionPolicy"
    });
    let version = mutating.map(|one| one.document.api_version.rsplit('/').next().unwrap_or("v1"));
    let constraints = format!(
        r#""failurePolicy":"Ignore","matchConstraints":{{"resourceRules":[{{"apiGroups":["coordination.k8s.io"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["leases"],"resourceNames":["{PROBE}"]}}]}}"#
    );
    if let Some(version) = version {
        let change = r#"Object{metadata: Object.metadata{labels: {\"probe\": \"seen\"}}}"#;
        let spec = format!(
            r#"{constraints},"reinvocationPolicy":"Never","mutations":[{{"patchType":"ApplyConfiguration","applyConfiguration":{{"expression":"{change}"}}}}]"#
        );
        install(run, &format!("{ROOT}/{version}/mutatingadmissionpolicies"), &spec).await;
        let bindings = format!("{ROOT}/{version}/mutatingadmissionpolicybindings");
        install(run, &bindings, &format!(r#""policyName":"{PROBE}""#)).await;
    }
    let said =
        r#"has(object.metadata.labels) && 'probe' in object.metadata.labels ? 'mutated' : 'seen'"#;
    let spec = format!(
        r#"{constraints},"validations":[{{"expression":"false","messageExpression":"{said}"}}]"#
    );
    install(run, &format!("{ROOT}/v1/validatingadmissionpolicies"), &spec).await;
    let binding = format!(r#""policyName":"{PROBE}","validationActions":["Warn"]"#);
    install(run, &format!("{ROOT}/v1/validatingadmissionpolicybindings"), &binding).await;
    let expected = if version.is_some() { ": mutated" } else { ": seen" };
    if !answered(run, expected).await {
        run.report.notes.push("the admission policies did not come into force in time".to_owned());
    }
}

async fn install(run: &CheckRun<'_>, path: &str, spec: &str) {
    let text = format!(r#"{{"metadata":{{"name":"{PROBE}"}},"spec":{{{spec}}}}}"#);
    if let Ok(object) = decode_any(text.as_bytes(), Unknown::Ignore) {
        // If policies of this kind are not served, nothing answers, and that is noted.
        let _ = run.cluster.create(path, &object.value).await;
    }
}

/// Whether a warning of the probe ends so before the time is up.
async fn answered(run: &CheckRun<'_>, expected: &str) -> bool {
    let namespace = escaped(run.namespace());
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases?dryRun=All");
    let body = Bytes::from(format!(r#"{{"metadata":{{"name":"{PROBE}"}}}}"#));
    let deadline = monotonic_now() + POLICY_WAIT;
    while monotonic_now() < deadline {
        let (method, body, path) = (Method::POST, body.clone(), path.as_str());
        let request = CheckRequest { method, path, body, media_type: "application/json" };
        let warnings = run.cluster.send(request).await.warnings;
        if warnings.iter().any(|warning| warning.contains(PROBE) && warning.ends_with(expected)) {
            return true;
        }
        tokio::time::sleep(POLL).await;
    }
    false
}
