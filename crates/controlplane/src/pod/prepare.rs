//! What the server writes into pods before they are checked.

use std::collections::{HashMap, VecDeque};

use kevel_api::name;
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};

use super::annotations::APP_ARMOR;
use super::condition::Condition;
use super::qos;
use super::security_context::MAX_PROFILE;
use crate::capabilities::{Capabilities, Features};

/// A new pod waits, and is of the quality that its resources make it.
pub fn create(pod: &mut Value, capabilities: &Capabilities) {
    let status =
        Map::from_iter([("phase", Value::from("Pending")), ("qosClass", qos::class(pod).into())]);
    let gated = pod.at(&["spec", "schedulingGates"]).is_some_and(|gates| !gates.is_empty());
    if let Some(pod) = pod.as_map_mut() {
        pod.insert("status", status.into());
    }
    if gated {
        let condition = Condition {
            ty: "PodScheduled",
            status: "False",
            reason: "SchedulingGated",
            message: "Scheduling is blocked due to non-empty scheduling gates",
        };
        condition.set(pod, Time::now(&capabilities.clock));
    }
    merge_label_keys(pod);
    if let Some(spec) = pod.at_mut(&["spec"]) {
        drop_disabled(spec, None, capabilities.features);
    }
    app_armor_fields(pod);
}

/// Fields of features that are off go, unless they are there already.
pub fn update(pod: &mut Value, old: &Value, capabilities: &Capabilities) {
    if let Some(spec) = pod.at_mut(&["spec"]) {
        drop_disabled(spec, old.at(&["spec"]), capabilities.features);
    }
}

/// The same for a template; `old` is the one that it replaces.
pub fn template(template: &mut Value, old: Option<&Value>, capabilities: &Capabilities) {
    if let Some(spec) = template.at_mut(&["spec"]) {
        let old = old.and_then(|old| old.at(&["spec"]));
        drop_disabled(spec, old, capabilities.features);
    }
}

/// What is there already stays.
fn drop_disabled(spec: &mut Value, old: Option<&Value>, features: Features) {
    let lists = ["containers", "initContainers", "ephemeralContainers"];
    let list = |list: &str| old.and_then(|old| old.at(&[list])).and_then(Value::as_list);
    let signals = features.container_stop_signals
        || lists
            .iter()
            .flat_map(|name| list(name).unwrap_or_default())
            .any(|container| container.at(&["lifecycle", "stopSignal"]).is_some());
    let projects = |kind: &str| {
        let mut volumes = list("volumes").unwrap_or_default().iter();
        volumes.any(|volume| {
            let sources = volume.at(&["projected", "sources"]).and_then(Value::as_list);
            sources.unwrap_or_default().iter().any(|source| source.at(&[kind]).is_some())
        })
    };
    let grouped =
        features.generic_workload || old.is_some_and(|old| old.at(&["schedulingGroup"]).is_some());
    let gone = [
        ("clusterTrustBundle", features.cluster_trust_bundle_projection),
        ("podCertificate", features.pod_certificate_request),
    ];
    let gone = gone.into_iter().filter(|(kind, on)| !on && !projects(kind));
    let gone: Vec<&str> = gone.map(|(kind, _)| kind).collect();
    let Some(spec) = spec.as_map_mut() else { return };
    if !grouped {
        spec.remove("schedulingGroup");
    }
    for name in lists.into_iter().filter(|_| !signals) {
        let containers = spec.get_mut(name).and_then(Value::as_list_mut).into_iter().flatten();
        for container in containers {
            let Some(container) = container.as_map_mut() else { continue };
            let lifecycle = container.get_mut("lifecycle").and_then(Value::as_map_mut);
            let dropped = lifecycle.is_some_and(|lifecycle| {
                lifecycle.remove("stopSignal").is_some() && lifecycle.is_empty()
            });
            if dropped {
                container.remove("lifecycle");
            }
        }
    }
    let volumes = spec.get_mut("volumes").and_then(Value::as_list_mut).into_iter().flatten();
    for volume in volumes {
        let sources = volume.at_mut(&["projected", "sources"]).and_then(Value::as_list_mut);
        for source in sources.into_iter().flatten().filter_map(Value::as_map_mut) {
            gone.iter().for_each(|kind| {
                source.remove(kind);
            });
        }
    }
}

/// Labels of the pod that are named in its affinities and spreads go into their selectors.
fn merge_label_keys(pod: &mut Value) {
    let wanted = |spec: &Value| {
        spec.at(&["affinity"]).is_some() || spec.at(&["topologySpreadConstraints"]).is_some()
    };
    if !pod.at(&["spec"]).is_some_and(wanted) {
        return;
    }
    let labels = pod.at(&["metadata", "labels"]).cloned().unwrap_or_default();
    let Some(spec) = pod.at_mut(&["spec"]) else { return };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        for (list, inner) in [(preferred, Some("podAffinityTerm")), (required, None)] {
            let terms = spec.at_mut(&["affinity", kind, list]).and_then(Value::as_list_mut);
            for term in terms.into_iter().flatten() {
                let term = match inner {
                    Some(inner) => term.at_mut(&[inner]),
                    None => Some(term),
                };
                term.into_iter().for_each(|term| add_to_selector(term, &labels));
            }
        }
    }
    let spreads = spec.at_mut(&["topologySpreadConstraints"]).and_then(Value::as_list_mut);
    spreads.into_iter().flatten().for_each(|spread| add_to_selector(spread, &labels));
}

fn add_to_selector(term: &mut Value, labels: &Value) {
    let mut added = Vec::new();
    for (list, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys = term.at(&[list]).and_then(Value::as_list).unwrap_or_default();
        let mut times: HashMap<&str, usize> = HashMap::new();
        for key in keys.iter().filter_map(Value::as_str) {
            let Some(value) = labels.at(&[key]) else { continue };
            // A key that is there twice is refused later, as a label is that is none: to say so, it
            // need not be copied as often as a client names it.
            let times = times.entry(key).or_default();
            *times += 1;
            if *times > 2 || value.as_str().is_some_and(|v| v.len() > name::LABEL_MAX_LENGTH) {
                continue;
            }
            let values = Value::List([value.clone()].into_iter().collect());
            added.push(Value::from(Map::from_iter([
                ("key", key.into()),
                ("operator", operator.into()),
                ("values", values),
            ])));
        }
    }
    let Some(selector) = term.at_mut(&["labelSelector"]).and_then(Value::as_map_mut) else {
        return;
    };
    if !added.is_empty() {
        let list =
            selector.entry_or_insert_with("matchExpressions", || Value::List(<_>::default()));
        if let Some(list) = list.as_list_mut() {
            list.extend(added);
        }
    }
}

/// AppArmor profiles that are given by annotations become fields.
fn app_armor_fields(pod: &mut Value) {
    let annotations = pod.at(&["metadata", "annotations"]).and_then(Value::as_map);
    let annotations = annotations.into_iter().flat_map(Map::iter);
    // With how often it was given to a container of the name: more than one are refused later.
    let mut profiles: HashMap<String, (Value, usize)> = annotations
        .filter_map(|(key, value)| Some((key.strip_prefix(APP_ARMOR)?, value.as_str()?)))
        .filter_map(|(container, value)| Some((container.to_owned(), (app_armor_field(value)?, 0))))
        .collect();
    if profiles.is_empty() || pod.str_at(&["spec", "os", "name"]) == "windows" {
        return;
    }
    let of_pod = pod.at(&["spec", "securityContext", "appArmorProfile"]).cloned();
    for list in ["initContainers", "containers"] {
        let containers = pod.at_mut(&["spec", list]).and_then(Value::as_list_mut);
        for container in containers.into_iter().flatten() {
            let name = container.str_at(&["name"]);
            let Some((profile, times)) = profiles.get_mut(name) else { continue };
            let own = container.at(&["securityContext", "appArmorProfile"]);
            if own.is_some() || *times > 1 || of_pod.as_ref() == Some(profile) {
                continue;
            }
            *times += 1;
            let Some(container) = container.as_map_mut() else { continue };
            let context = container.entry_or_insert_with("securityContext", || Map::new().into());
            if let Some(context) = context.as_map_mut() {
                context.insert("appArmorProfile", profile.clone());
            }
        }
    }
}

/// The field that an annotation means, if it is a valid one.
pub(super) fn app_armor_field(annotation: &str) -> Option<Value> {
    let ty = |ty: &str| Map::from_iter([("type", Value::from(ty))]);
    let profile = match annotation {
        "unconfined" => ty("Unconfined"),
        "runtime/default" => ty("RuntimeDefault"),
        _ => {
            let is_valid =
                |path: &&str| !path.is_empty() && path.trim() == *path && path.len() <= MAX_PROFILE;
            let path = annotation.strip_prefix("localhost/").filter(is_valid)?;
            let mut profile = ty("Localhost");
            profile.insert("localhostProfile", path.into());
            profile
        }
    };
    Some(profile.into())
}

/// A write to the status keeps what it does not know to say.
pub fn status(pod: &mut Value, old: &Value, _: &Capabilities) {
    for field in ["qosClass", "observedGeneration"] {
        let kept = old.at(&["status", field]).cloned();
        if let (true, Some(kept)) = (pod.at(&["status", field]).is_none_or(Value::is_empty), kept) {
            pod.make_map(&["status"]).insert(field, kept);
        }
    }
    condition_generations(pod, old);
    if let Some(status) = pod.at_mut(&["status"]).and_then(Value::as_map_mut) {
        drop_disabled_status(status, old);
    }
}

fn drop_disabled_status(status: &mut Map, old: &Value) {
    if old.at(&["status", "nodeAllocatableResourceClaimStatuses"]).is_none() {
        status.remove("nodeAllocatableResourceClaimStatuses");
    }
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        let containers = status.get_mut(list).and_then(Value::as_list_mut).into_iter().flatten();
        for container in containers {
            let mounts = container.at_mut(&["volumeMounts"]).and_then(Value::as_list_mut);
            for mount in mounts.into_iter().flatten().filter_map(Value::as_map_mut) {
                mount.remove("volumeStatus");
            }
        }
    }
}

/// Conditions that do not say which generation they are about are about the same as before.
fn condition_generations(pod: &mut Value, old: &Value) {
    let mut before: HashMap<&str, VecDeque<Option<&Value>>> = HashMap::new();
    for condition in old.list_at(&["status", "conditions"]) {
        let generations = before.entry(condition.str_at(&["type"])).or_default();
        generations.push_back(condition.at(&["observedGeneration"]));
    }
    let conditions = pod.at_mut(&["status", "conditions"]).and_then(Value::as_list_mut);
    for condition in conditions.into_iter().flatten() {
        let same = before.get_mut(condition.str_at(&["type"]));
        let was = same.and_then(VecDeque::pop_front).flatten();
        if condition.at(&["observedGeneration"]).is_none()
            && let (Some(was), Some(map)) = (was, condition.as_map_mut())
        {
            map.insert("observedGeneration", was.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use kevel_codec::json::{Unknown, decode_any};

    use super::*;
    use crate::features::Feature;

    const POD: &str = r#"{"spec": {"schedulingGroup": {"podGroupName": "g"},
        "containers": [{"name": "c", "lifecycle": {"stopSignal": "SIGTERM"}}],
        "volumes": [{"projected": {"sources": [{"clusterTrustBundle": {}}, {"podCertificate": {}}]}}]}}"#;

    /// Which fields of features a new pod keeps where one gate is on.
    fn kept(gate: Option<Feature>) -> Vec<&'static str> {
        let mut pod = decode_any(POD.as_bytes(), Unknown::Report).unwrap().value;
        let features = Features::new(|feature| Some(feature) == gate);
        create(&mut pod, &Capabilities { features, ..Capabilities::default() });
        let mut text = Vec::new();
        kevel_codec::json::encode_any(&pod, &mut text);
        let text = String::from_utf8(text).unwrap();
        let fields = ["schedulingGroup", "stopSignal", "clusterTrustBundle", "podCertificate"];
        fields.into_iter().filter(|field| text.contains(field)).collect()
    }

    #[test]
    fn fields_of_features_that_are_off_go() {
        for (gate, expected) in [
            (None, &[][..]),
            (Some(Feature::GenericWorkload), &["schedulingGroup"]),
            (Some(Feature::ContainerStopSignals), &["stopSignal"]),
            (Some(Feature::ClusterTrustBundleProjection), &["clusterTrustBundle"]),
            (Some(Feature::PodCertificateRequest), &["podCertificate"]),
        ] {
            assert_eq!(kept(gate), expected, "{gate:?}");
        }
    }
}
