//! `pods/resize`: in-place changes of a running pod's resources.

use kevel_api::value::{Value, equivalent};
use kevel_features::Feature;

use super::{Options, is_static, metadata_and_spec, qos};
use crate::capabilities::Capabilities;
use crate::rules::Rules;
use crate::validation::Field;

/// Fields that `pods/resize` may write.
pub const PATHS: &[&[&str]] = &[
    &["spec", "containers", "*", "resources"],
    &["spec", "containers", "*", "resizePolicy"],
    &["spec", "initContainers", "*", "resources"],
    &["spec", "initContainers", "*", "resizePolicy"],
    &["spec", "resources"],
];

/// The rules of `pods/resize`.
pub const RULES: Rules = Rules { prepare_for_update, validate_update, ..Rules::NONE };

/// Resources of the pod as a whole stay as they are while they cannot be changed in place.
fn prepare_for_update(pod: &mut Value, old: &Value, capabilities: &Capabilities) {
    if capabilities.features.has(Feature::InPlacePodLevelResourcesVerticalScaling) {
        return;
    }
    let before = old.at(&["spec", "resources"]).cloned();
    let spec = pod.make_map(&["spec"]);
    match before {
        Some(before) => spec.insert("resources", before),
        None => spec.remove("resources"),
    };
}

fn validate_update(pod: Field, old: Field) {
    let (Some(new_pod), Some(old_pod)) = (pod.get(), old.get()) else { return };
    let nothing = pod.at("");
    if is_static(old_pod) {
        return nothing.forbidden("static pods cannot be resized");
    }
    if old_pod.str_at(&["spec", "os", "name"]) == "windows" {
        return nothing.forbidden("windows pods cannot be resized");
    }
    let first = pod.found();
    metadata_and_spec(pod, &Options::of_pod(old));
    let before = match old_pod.str_at(&["status", "qosClass"]) {
        "" => qos::class(old_pod),
        class => class,
    };
    let (spec, old_spec) = (pod.at("spec"), old.at("spec"));
    if before != qos::class(new_pod) {
        let why = "Pod QOS Class may not change as a result of resizing";
        spec.invalid_as(before, why);
    }
    if !node_supports_it(old) {
        spec.forbidden("Pod running on node without support for resize");
    }
    pod_resources(spec, old_spec);
    if !same_containers(spec, old_spec) {
        return;
    }
    let fixed = |container: Field| {
        let gate = Feature::InPlacePodVerticalScalingInitContainers;
        !container.capabilities().features.has(gate)
            && container.at("restartPolicy").str() != "Always"
    };
    for list in ["initContainers", "containers"] {
        for (container, old) in spec.at(list).items().zip(old_spec.at(list).items()) {
            if list == "initContainers" && fixed(container) {
                continue;
            }
            removed(container.at("resources"), old.at("resources"), "resource");
        }
    }
    for (container, old) in spec.at("containers").items().zip(old_spec.at("containers").items()) {
        if !only_amounts(container, old) {
            spec.forbidden("only cpu and memory resources are mutable");
        }
    }
    let init = spec.at("initContainers");
    for (container, old) in init.items().zip(old_spec.at("initContainers").items()) {
        if !fixed(container) {
            init_container(container, old);
        } else if !container.same(&old) {
            spec.forbidden("resources for non-sidecar init containers are immutable");
        }
    }
    let others = |key: &&str| !matches!(*key, "containers" | "initContainers" | "resources");
    let changed = |key: &str| !spec.at(key).same(&old_spec.at(key));
    let keys = || spec.keys().chain(old_spec.keys()).filter(others);
    if pod.found() == first && keys().any(changed) {
        spec.forbidden("only cpu and memory resources are mutable");
    }
}

/// True if the kubelet supports resizes: then it reports the resources of running containers.
fn node_supports_it(pod: Field) -> bool {
    let status = pod.at("status");
    let statuses = status.at("containerStatuses");
    let mut running = statuses.items().filter(|c| c.down("state.running").is_set());
    running.next().is_none_or(|container| container.at("resources").is_set())
}

fn pod_resources(spec: Field, old_spec: Field) {
    let (resources, old) = (spec.at("resources"), old_spec.at("resources"));
    let said = |r: Field| r.at("requests").len() + r.at("limits").len() > 0;
    if !said(resources) && !said(old) {
        return;
    }
    if old.is_set() && resources.is_absent() {
        return resources.forbidden("pod-level resources cannot be removed");
    }
    if old.is_set() {
        removed(resources, old, "pod-level resource");
    }
    if !same_but_amounts(resources.get(), old.get()) {
        spec.forbidden("only cpu and memory resources are mutable at pod-level");
    }
}

fn removed(resources: Field, old: Field, what: &str) {
    for list in ["requests", "limits"] {
        let (now, before) = (resources.at(list), old.at(list));
        if before.keys().any(|name| now.key(name).is_absent()) {
            now.forbidden(format!("{what} {list} cannot be removed"));
        }
    }
}

fn same_containers(spec: Field, old: Field) -> bool {
    let first = spec.found();
    for list in ["containers", "initContainers"] {
        let (now, before) = (spec.at(list), old.at(list));
        if now.len() != before.len() {
            now.forbidden(format!("{list} may not be added or removed on resize"));
            continue;
        }
        for (container, old) in now.items().zip(before.items()) {
            if container.at("name").str() != old.at("name").str() {
                let why = format!("{list} may not be renamed or reordered on resize");
                container.at("name").forbidden(why);
            }
        }
    }
    spec.found() == first
}

fn init_container(container: Field, old: Field) {
    if container.same(&old) {
        return;
    }
    if !only_amounts(container, old) {
        let why = "only cpu and memory resources for init or sidecar containers are mutable";
        container.forbidden(why);
    }
    if container.at("restartPolicy").str() == "Always" {
        return;
    }
    for policy in container.at("resizePolicy").items() {
        if policy.at("restartPolicy").str() == "RestartContainer" {
            let why = "non-sidecar init containers with a resize policy of RestartContainer \
                       cannot be resized";
            container.forbidden(why);
        }
    }
}

/// True if two containers differ only in the amounts of CPU and memory. Claims are ignored, because the reference
/// drops them before it compares.
fn only_amounts(container: Field, old: Field) -> bool {
    let keys = container.keys().chain(old.keys());
    keys.into_iter().all(|key| match key {
        "resources" => same_but_amounts(container.at(key).get(), old.at(key).get()),
        _ => container.at(key).same(&old.at(key)),
    })
}

fn same_but_amounts(a: Option<&Value>, b: Option<&Value>) -> bool {
    let entry = |value: Option<&Value>, list: &str, name: &str| {
        value.and_then(|value| value.at(&[list, name])).cloned()
    };
    let names = |value: Option<&Value>, list: &str| -> Vec<String> {
        let map = value.and_then(|value| value.at(&[list])).and_then(Value::as_map);
        map.into_iter().flat_map(|map| map.iter().map(|(key, _)| key.to_owned())).collect()
    };
    let claims = |value: Option<&Value>| value.and_then(|value| value.at(&["claims"])).cloned();
    let same = |list: &str| {
        let all = names(a, list).into_iter().chain(names(b, list));
        all.filter(|name| !matches!(name.as_str(), "cpu" | "memory"))
            .all(|name| entry(a, list, &name) == entry(b, list, &name))
    };
    same("requests") && same("limits") && equivalent(claims(a).as_ref(), claims(b).as_ref())
}
