//! Validation of annotations with a meaning for pods: mirror pods, deletion cost, seccomp and AppArmor.

use kevel_features::Feature;

use std::collections::HashSet;

use super::each_container;
use crate::validation::Field;

pub const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
pub const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Checks a pod's annotations.
pub fn check(annotations: Field, spec: Field, any_cost: bool) {
    if annotations.is_empty() {
        return;
    }
    if annotations.key(MIRROR).is_set() && spec.at("nodeName").is_empty() {
        let mirror = annotations.key(MIRROR);
        mirror.invalid("must set spec.nodeName if mirror pod annotation is set");
    }
    let cost = annotations.key(DELETION_COST);
    let any_cost = any_cost || !cost.capabilities().features.has(Feature::PodDeletionCost);
    if !any_cost && !is_deletion_cost(cost) {
        cost.invalid("must be a 32bit integer");
    }
    if annotations.key(SECCOMP_POD).is_set() {
        seccomp(annotations.at(SECCOMP_POD), annotations.key(SECCOMP_POD).str());
    }
    for (key, value) in annotations.entries() {
        if key.starts_with(SECCOMP_CONTAINER) {
            seccomp(annotations.at(key), value.str());
        }
    }
    let mut containers = HashSet::new();
    each_container(spec, |container| _ = containers.insert(container.at("name").str()));
    for (key, value) in annotations.entries() {
        let Some(container) = key.strip_prefix(APP_ARMOR) else { continue };
        if !containers.contains(container) {
            value.invalid_as(container, "container not found");
        }
        let known = matches!(value.str(), "" | "runtime/default" | "unconfined");
        if !known && !value.str().starts_with("localhost/") {
            value.invalid(format!("invalid AppArmor profile name: {:?}", value.str()));
        }
    }
}

/// True if the deletion cost is absent or an integer in canonical form.
pub fn is_deletion_cost(cost: Field) -> bool {
    let text = cost.str();
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = text == "0" || !(digits.starts_with('0') || text.starts_with('+'));
    cost.is_absent() || (plain && text.parse::<i32>().is_ok())
}

pub fn deletion_cost<'v, 'f>(annotations: &'f Field<'v, '_>) -> Field<'v, 'f> {
    annotations.key(DELETION_COST)
}

fn seccomp(called: Field, profile: &str) {
    match profile {
        "runtime/default" | "docker/default" | "unconfined" => {}
        _ => match profile.strip_prefix("localhost/") {
            Some(path) => called.with(Some(&path.into())).local_descending_path(),
            None => called.invalid_as(profile, "must be a valid seccomp profile"),
        },
    }
}

/// Checks changes of annotations on an update.
pub fn update(annotations: Field, old: Field) {
    let kinds = |key: &str| (key.starts_with(APP_ARMOR), key == MIRROR);
    for (key, was) in old.entries() {
        let now = annotations.key(key);
        if now.is_set() && now.same(&was) {
            continue;
        }
        match kinds(key) {
            (true, _) => now.forbidden("may not remove or update AppArmor annotations"),
            (_, true) => now.forbidden("may not remove or update mirror pod annotation"),
            _ => {}
        }
    }
    for (key, now) in annotations.entries().filter(|(key, _)| old.key(key).is_absent()) {
        match kinds(key) {
            (true, _) => now.forbidden("may not add AppArmor annotations"),
            (_, true) => now.forbidden("may not add mirror pod annotation"),
            _ => {}
        }
    }
}

/// Checks that the seccomp and AppArmor annotations agree with the fields where both are set.
pub fn agree_with_fields(annotations: Field, spec: Field) {
    if annotations.is_empty() {
        return;
    }
    let context = spec.at("securityContext");
    let pod = context.at("seccompProfile");
    agree(annotations.key(SECCOMP_POD), pod, "seccomp", &["runtime/default", "docker/default"]);
    each_container(spec, |container| {
        let key = format!("{SECCOMP_CONTAINER}{}", container.at("name").str());
        let context = container.at("securityContext");
        let profile = context.at("seccompProfile");
        agree(annotations.key(&key), profile, "seccomp", &["runtime/default", "docker/default"]);
    });
    if spec.at("os").at("name").str() == "windows" {
        return;
    }
    let of_pod = context.at("appArmorProfile");
    each_container(spec, |container| {
        let key = format!("{APP_ARMOR}{}", container.at("name").str());
        let context = container.at("securityContext");
        let own = context.at("appArmorProfile");
        let profile = if own.is_set() { own } else { own.with(of_pod.get()) };
        agree(annotations.key(&key), profile, "apparmor", &["runtime/default"]);
    });
}

fn agree(annotation: Field, profile: Field, what: &str, defaults: &[&str]) {
    if annotation.is_absent() || profile.is_absent() {
        return;
    }
    let (ty, path) = (profile.at("type"), profile.at("localhostProfile"));
    let said = annotation.str();
    let local = said.strip_prefix("localhost/");
    let same = match ty.str() {
        "Unconfined" => said == "unconfined",
        "RuntimeDefault" => defaults.contains(&said),
        "Localhost" => local.is_some(),
        _ => true,
    };
    if !same {
        ty.forbidden(format!("{what} type in annotation and field must match"));
    } else if ty.str() == "Localhost" && (path.is_absent() || local != Some(path.str())) {
        path.forbidden(format!("{what} profile in annotation and field must match"));
    }
}
