//! Preparation of pods before validation: defaults from other fields, dropped fields.

use std::collections::{HashMap, VecDeque};

use kevel_api::name;
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_features::{Feature, FeatureSet};

use super::annotations::APP_ARMOR;
use super::condition::Condition;
use super::gated;
use super::qos;
use super::security_context::MAX_PROFILE;
use crate::capabilities::Capabilities;

/// A new pod waits, and is of the quality that its resources make it.
pub fn create(pod: &mut Value, capabilities: &Capabilities) {
    gated::drop_from_spec(pod, None, &capabilities.features);
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
    merge_label_keys(pod, &capabilities.features);
    app_armor_fields(pod);
}

/// Fields of features that are off go, unless they are there already.
pub fn update(pod: &mut Value, old: &Value, capabilities: &Capabilities) {
    gated::drop_from_spec(pod, Some(old), &capabilities.features);
}

/// Prepares a pod template; `old` is the one that it replaces.
pub fn template(template: &mut Value, old: Option<&Value>, capabilities: &Capabilities) {
    gated::drop_from_spec(template, old, &capabilities.features);
}

/// Labels of the pod that are named in its affinities and spreads go into their selectors.
fn merge_label_keys(pod: &mut Value, features: &FeatureSet) {
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
    let merged = [
        Feature::MatchLabelKeysInPodTopologySpread,
        Feature::MatchLabelKeysInPodTopologySpreadSelectorMerge,
    ];
    if !merged.iter().all(|feature| features.has(*feature)) {
        return;
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

/// Keeps status fields that older clients do not know.
pub fn status(pod: &mut Value, old: &Value, capabilities: &Capabilities) {
    for field in ["qosClass", "observedGeneration"] {
        let kept = old.at(&["status", field]).cloned();
        if let (true, Some(kept)) = (pod.at(&["status", field]).is_none_or(Value::is_empty), kept) {
            pod.make_map(&["status"]).insert(field, kept);
        }
    }
    condition_generations(pod, old);
    gated::drop_from_status(pod, old, &capabilities.features);
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

    const POD: &str = r#"{"spec": {"schedulingGroup": {"podGroupName": "g"},
        "containers": [{"name": "c", "lifecycle": {"stopSignal": "SIGTERM"}}],
        "volumes": [{"projected": {"sources": [{"clusterTrustBundle": {}}, {"podCertificate": {}}]}}]}}"#;

    /// Gated fields that a new pod keeps if one gate is on.
    fn kept(gate: Option<Feature>) -> Vec<&'static str> {
        let mut pod = decode_any(POD.as_bytes(), Unknown::Report).unwrap().value;
        let features = FeatureSet::new(|feature| Some(feature) == gate);
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
