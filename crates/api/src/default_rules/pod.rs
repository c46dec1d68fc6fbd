//! Default rules of Pods and parts of pod templates.

use super::container_image::is_latest;
use super::core::add_missing_amounts;
use super::pod_resources::default_pod_resources;
use super::{set_missing, string, struct_in};
use crate::value::{Map, Value};

/// Defaults of a Pod that a pod template does not have.
pub(super) fn pod(pod: &mut Map, field: &str) {
    let Some(spec) = struct_in(pod, field) else { return };
    for list in ["containers", "initContainers"] {
        for container in structs(spec, list) {
            // A container's requests default to its limits.
            if let Some(Value::Map(resources)) = container.get_mut("resources") {
                add_missing_amounts(resources, "limits", "requests");
            }
        }
    }
    default_pod_resources(spec);
    set_missing(spec, "enableServiceLinks", true);
    if spec.get("hostNetwork").and_then(Value::as_bool) == Some(true) {
        for list in ["containers", "initContainers"] {
            structs(spec, list).for_each(publish_ports);
        }
    }
}

/// Sets host ports to container ports, for pods on the host's network.
fn publish_ports(container: &mut Map) {
    for port in structs(container, "ports") {
        if let Some(number) = port.get("containerPort").cloned() {
            set_missing(port, "hostPort", number);
        }
    }
}

/// Makes a volume without a source an `emptyDir`.
pub(super) fn volume(volume: &mut Map, _: &str) {
    if volume.iter().all(|(field, _)| field == "name") {
        volume.insert("emptyDir", Value::Map(Map::new()));
    }
}

/// Sets the pull policy: Always for the tag `latest`.
pub(super) fn image_pull_policy(map: &mut Map, field: &str) {
    if map.contains_key(field) {
        return;
    }
    let image = if field == "imagePullPolicy" { "image" } else { "reference" };
    let latest = is_latest(string(map, image));
    map.insert(field, if latest { "Always" } else { "IfNotPresent" }.into());
}

/// Structs in a list.
fn structs<'m>(map: &'m mut Map, field: &str) -> impl Iterator<Item = &'m mut Map> {
    let list = map.get_mut(field).and_then(Value::as_list_mut);
    list.into_iter().flatten().filter_map(Value::as_map_mut)
}
