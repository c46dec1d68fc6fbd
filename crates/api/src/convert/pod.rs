//! Conversion of pods and pod templates: fields that once had another name or place.

use super::{ReadJson, annotations, string};
use crate::value::{Map, Value};

/// Annotations of init containers from before they were fields.
const INIT_CONTAINERS: [&str; 4] = [
    "pod.alpha.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.beta.kubernetes.io/init-containers",
];

pub(super) fn pod(pod: &mut Map, json: ReadJson<'_>) -> Result<(), String> {
    settle(pod);
    let grace = pod.get_mut("spec").and_then(|s| s.at_mut(&["terminationGracePeriodSeconds"]));
    if let Some(Value::Int(seconds @ ..0)) = grace {
        *seconds = 1;
    }
    status(pod, json)
}

/// Normalizes a kind with a `template`.
pub(super) fn template(object: &mut Map, _: ReadJson<'_>) -> Result<(), String> {
    settle_at(object.get_mut("template"))
}

pub(super) fn template_in_spec(object: &mut Map, _: ReadJson<'_>) -> Result<(), String> {
    settle_at(object.get_mut("spec").and_then(|spec| spec.at_mut(&["template"])))
}

pub(super) fn cron_job(job: &mut Map, _: ReadJson<'_>) -> Result<(), String> {
    let spec = job.get_mut("spec");
    settle_at(spec.and_then(|spec| spec.at_mut(&["jobTemplate", "spec", "template"])))
}

/// Sets `podIP` and the first of `podIPs` to the same value; `podIP` wins.
pub(super) fn status(pod: &mut Map, _: ReadJson<'_>) -> Result<(), String> {
    if let Some(Value::Map(status)) = pod.get_mut("status") {
        first_of(status, "podIP", "podIPs", &["ip"]);
    }
    Ok(())
}

/// Unifies a field with the first element of a later list; in a list of structs, with a field of that element.
pub(super) fn first_of(map: &mut Map, one: &str, list: &str, path: &[&str]) {
    let first = map.get(list).and_then(Value::as_list).and_then(<[_]>::first);
    let listed = first.map(|first| first.at(path).and_then(Value::as_str).unwrap_or_default());
    let given = string(map, one);
    if given.is_empty() {
        if let Some(listed) = listed.filter(|listed| !listed.is_empty()).map(Value::from) {
            map.insert(one, listed);
        }
    } else if listed != Some(given) {
        let wrap = |value, field: &&str| Value::Map(Map::from_iter([(*field, value)]));
        let element = path.iter().rev().fold(given.into(), wrap);
        map.insert(list, Value::List([element].into_iter().collect()));
    }
}

fn settle_at(template: Option<&mut Value>) -> Result<(), String> {
    template.and_then(Value::as_map_mut).into_iter().for_each(settle);
    Ok(())
}

/// Normalizes a pod or pod template.
fn settle(pod: &mut Map) {
    if let Some(annotations) = annotations(pod) {
        annotations.retain(|name, _| !INIT_CONTAINERS.contains(&name));
    }
    let Some(Value::Map(spec)) = pod.get_mut("spec") else { return };
    let names = ["serviceAccountName", "serviceAccount"];
    let account = names.map(|name| string(spec, name)).into_iter().find(|name| !name.is_empty());
    if let Some(account) = account.map(Value::from) {
        for name in names {
            spec.insert(name, account.clone());
        }
    }
}
