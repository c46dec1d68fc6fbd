//! Pod Security Standards: the checks of the level `restricted`.

use std::collections::BTreeSet;

use kevel_api::value::Value;

use super::baseline::{self, added_capabilities, uses};
use super::checks::{Pod, Violation, named, quoted, setters, violation};

const CONTEXT: &str = "securityContext";

pub(super) fn allow_privilege_escalation(pod: &Pod<'_>) -> Option<Violation> {
    let field = [CONTEXT, "allowPrivilegeEscalation"];
    let containers = pod.containers_where(|c| c.at(&field) != Some(&Value::Bool(false)));
    if containers.is_empty() {
        return None;
    }
    let who = named("container", &containers);
    let detail = format!("{who} must set securityContext.allowPrivilegeEscalation=false");
    violation("allowPrivilegeEscalation != false", detail)
}

pub(super) fn allow_privilege_escalation_1_25(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { allow_privilege_escalation(pod) }
}

pub(super) fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    let keeping = pod.containers_where(|container| {
        let dropped = container.list_at(&[CONTEXT, "capabilities", "drop"]);
        !dropped.iter().any(|name| name.as_str() == Some("ALL"))
    });
    let (adding, added) = added_capabilities(pod, &["NET_BIND_SERVICE"]);
    let mut details = Vec::new();
    if !keeping.is_empty() {
        let who = named("container", &keeping);
        details.push(format!(r#"{who} must set securityContext.capabilities.drop=["ALL"]"#));
    }
    if !adding.is_empty() {
        details.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            named("container", &adding),
            quoted(&added)
        ));
    }
    if details.is_empty() {
        return None;
    }
    violation("unrestricted capabilities", details.join("; "))
}

pub(super) fn capabilities_1_25(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { capabilities(pod) }
}

/// Volume sources that are allowed.
const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// Volume sources that are forbidden, in the order in which they are checked.
const OTHER_VOLUMES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

pub(super) fn restricted_volumes(pod: &Pod<'_>) -> Option<Violation> {
    let (mut volumes, mut kinds) = (Vec::new(), BTreeSet::new());
    for volume in pod.spec.list_at(&["volumes"]) {
        let is = |kind: &&str| volume.at(&[kind]).is_some();
        if VOLUMES.iter().any(is) {
            continue;
        }
        volumes.push(volume.str_at(&["name"]));
        kinds.insert(OTHER_VOLUMES.into_iter().find(is).unwrap_or("unknown"));
    }
    if volumes.is_empty() {
        return None;
    }
    let kinds: Vec<&str> = kinds.into_iter().collect();
    let detail = format!(
        "{} {} {}",
        named("volume", &volumes),
        uses(volumes.len()),
        named("restricted volume type", &kinds)
    );
    violation("restricted volume types", detail)
}

pub(super) fn run_as_non_root(pod: &Pod<'_>) -> Option<Violation> {
    let says = |of: &Value| of.at(&[CONTEXT, "runAsNonRoot"]).and_then(Value::as_bool);
    let reason = "runAsNonRoot != true";
    let refusing = pod.containers_where(|container| says(container) == Some(false));
    if let Some(who) = setters(says(pod.spec) == Some(false), &refusing) {
        let detail = format!("{who} must not set securityContext.runAsNonRoot=false");
        return violation(reason, detail);
    }
    if says(pod.spec) == Some(true) {
        return None;
    }
    let silent = pod.containers_where(|container| says(container).is_none());
    if silent.is_empty() {
        return None;
    }
    let who = named("container", &silent);
    violation(reason, format!("pod or {who} must set securityContext.runAsNonRoot=true"))
}

pub(super) fn run_as_non_root_1_35(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_user_namespace() { None } else { run_as_non_root(pod) }
}

pub(super) fn run_as_user(pod: &Pod<'_>) -> Option<Violation> {
    let is_root = |of: &Value| of.at(&[CONTEXT, "runAsUser"]) == Some(&Value::Int(0));
    let who = setters(is_root(pod.spec), &pod.containers_where(is_root))?;
    violation("runAsUser=0", format!("{who} must not set runAsUser=0"))
}

pub(super) fn run_as_user_1_35(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_user_namespace() { None } else { run_as_user(pod) }
}

pub(super) fn seccomp_profile(pod: &Pod<'_>) -> Option<Violation> {
    if let Some(bad) = baseline::seccomp_profile(pod) {
        return Some(bad);
    }
    let says = |of: &Value| of.at(&[CONTEXT, "seccompProfile"]).is_some();
    let silent = pod.containers_where(|container| !says(container));
    if says(pod.spec) || silent.is_empty() {
        return None;
    }
    let who = named("container", &silent);
    let detail = format!(
        r#"pod or {who} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost""#
    );
    violation("seccompProfile", detail)
}

pub(super) fn seccomp_profile_1_25(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { seccomp_profile(pod) }
}
