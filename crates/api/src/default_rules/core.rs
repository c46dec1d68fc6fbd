//! Default rules of core kinds other than Pods and Services.

use compact_str::CompactString;

use super::{has_elements, labels_of_template, set_missing, string, struct_in};
use crate::quantity;
use crate::value::{Map, Value};

/// Rounds amounts up to thousandths.
pub(super) fn resource_list(map: &mut Map, field: &str) {
    let Some(Value::Map(amounts)) = map.get_mut(field) else { return };
    for (_, amount) in amounts.iter_mut() {
        if let Value::String(text) = amount
            && !is_whole(text)
            && let Ok(rounded) = quantity::default_resource_json(text)
            && rounded != text.as_str()
        {
            *amount = rounded.as_ref().into();
        }
    }
}

/// Whether an amount is plainly a multiple of a thousandth: digits and a suffix.
fn is_whole(text: &str) -> bool {
    let suffix = text.trim_start_matches(|c: char| c.is_ascii_digit());
    matches!(suffix, "" | "m" | "k" | "M" | "G" | "T" | "P" | "E" | "Ki" | "Mi" | "Gi" | "Ti")
}

/// Sets a node's `allocatable` to its `capacity`.
pub(super) fn allocatable(status: &mut Map, field: &str) {
    if !status.contains_key(field)
        && let Some(capacity) = status.get("capacity")
    {
        status.insert(field, capacity.clone());
    }
    resource_list(status, field);
}

/// Defaults of a container's LimitRangeItem: the limit is the maximum, the request is the limit or else the minimum.
pub(super) fn limit_range_item(item: &mut Map, _: &str) {
    if string(item, "type") == "Container" {
        for (from, to) in
            [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")]
        {
            add_missing_amounts(item, from, to);
        }
    }
    for field in ["default", "defaultRequest", "max", "maxLimitRequestRatio", "min"] {
        resource_list(item, field);
    }
}

/// Copies the amounts of one field that another lacks.
pub(super) fn add_missing_amounts(map: &mut Map, from: &str, to: &str) {
    let Some(given) = map.get(from).and_then(Value::as_map) else { return };
    let known = map.get(to).and_then(Value::as_map);
    let lacks = |name: &str| known.is_none_or(|known| !known.contains_key(name));
    let missing = given.iter().filter(|(name, _)| lacks(name));
    let missing: Vec<_> = missing.map(|(n, v)| (CompactString::new(n), v.clone())).collect();
    if !missing.is_empty()
        && let Some(to) = struct_in(map, to)
    {
        to.extend(missing);
    }
}

pub(super) fn namespace_label(namespace: &mut Map, field: &str) {
    let Some(Value::Map(metadata)) = namespace.get_mut(field) else { return };
    // A name that is still to be generated cannot be a label.
    let name = string(metadata, "name").to_owned();
    if !name.is_empty()
        && let Some(labels) = struct_in(metadata, "labels")
    {
        labels.insert("kubernetes.io/metadata.name", name.as_str().into());
    }
}

pub(super) fn persistent_volume(volume: &mut Map, field: &str) {
    if let Some(spec) = struct_in(volume, field) {
        set_missing(spec, "persistentVolumeReclaimPolicy", "Retain");
        set_missing(spec, "volumeMode", "Filesystem");
    }
}

pub(super) fn replication_controller(controller: &mut Map, field: &str) {
    let Some(Value::Map(spec)) = controller.get_mut(field) else { return };
    let labels = spec.get("template").and_then(|t| t.at(&["metadata", "labels"]));
    if let Some(labels) = labels.filter(|labels| !labels.is_empty()).cloned()
        && !has_elements(spec.get("selector"))
    {
        spec.insert("selector", labels);
    }
    labels_of_template(controller);
}
