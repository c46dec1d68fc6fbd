//! Admission policies on a running server: how they come, change and go, their traces, and the cost of hostile ones.
//! The reference's decisions and messages in hundreds of cases are in `conformance/scenarios/policies.yaml`.

#![allow(clippy::unwrap_used)]

mod audit;
mod by_hand;
mod configuration;
mod hostile;
mod life;
mod manifests;
mod mutating;
mod params;
mod reinvocation;
mod validating;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use kevel_test_support::{Cluster, until};
use serde_json::{Value, json};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Makes an object that the server must take.
async fn create(cluster: &Cluster, path: &str, object: &Value) -> Value {
    cluster.admin.create(path, object).await
}

/// The rule that config maps are meant that are written.
fn rules() -> Value {
    json!({"resourceRules": [{
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["configmaps"],
    }]})
}

/// Objects with the label `case`.
fn only(case: &str) -> Value {
    let mut rules = rules();
    rules["objectSelector"] = json!({"matchLabels": {"case": case}});
    rules
}

/// A config map with the label `case`.
fn map(case: &str, data: Value) -> Value {
    json!({"metadata": {"name": case, "labels": {"case": case}}, "data": data})
}

/// Makes a policy of a kind with a binding of its name.
async fn bound(cluster: &Cluster, kind: &str, name: &str, spec: Value, binding: Value) {
    let policy = json!({"metadata": {"name": name}, "spec": spec});
    create(cluster, &format!("{GROUP}/{kind}admissionpolicies"), &policy).await;
    let mut binding = json!({"metadata": {"name": name}, "spec": binding});
    binding["spec"]["policyName"] = name.into();
    create(cluster, &format!("{GROUP}/{kind}admissionpolicybindings"), &binding).await;
}

/// Makes a validating policy that denies.
async fn validating(cluster: &Cluster, name: &str, spec: Value) {
    bound(cluster, "validating", name, spec, json!({"validationActions": ["Deny"]})).await;
}

/// Makes a mutating policy.
async fn mutating(cluster: &Cluster, name: &str, spec: Value) {
    bound(cluster, "mutating", name, spec, json!({})).await;
}

/// A mutation by apply configuration.
fn apply(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

/// A mutation by JSON patch.
fn patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

/// Waits until everything that was made so far is in force: policies that are made after it are.
async fn in_force(cluster: &Cluster) {
    static PROBES: AtomicUsize = AtomicUsize::new(0);
    let probe = format!("probe-{}", PROBES.fetch_add(1, Relaxed));
    let (denied, changed) = (format!("{probe}-denied"), format!("{probe}-changed"));
    let deny = json!({"matchConstraints": only(&denied), "validations": [{"expression": "false"}]});
    validating(cluster, &probe, deny).await;
    let change = json!({
        "matchConstraints": only(&changed),
        "reinvocationPolicy": "Never",
        "mutations": [apply(r#"Object{data: {"changed": "yes"}}"#)],
    });
    mutating(cluster, &probe, change).await;
    until(async || try_out(cluster, &map(&denied, json!({}))).await.0 == 422).await;
    let changed = map(&changed, json!({}));
    until(async || try_out(cluster, &changed).await.1["data"]["changed"] == "yes").await;
}

/// Response to the dry run of a creation.
async fn try_out(cluster: &Cluster, object: &Value) -> (u16, Value) {
    cluster.admin.post(&format!("{MAPS}?dryRun=All"), object).await
}
