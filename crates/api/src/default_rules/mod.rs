//! Default rules in code, for defaults that are more than a value: an overlay names them as `default=@name`.

mod apiextensions;
mod batch;
mod container_image;
mod core;
mod networking;
mod pod;
mod pod_resources;
mod rbac;
mod resource;
mod service;
mod stateful_set;

use kevel_clock::Clock;

use crate::value::{Map, Value};

/// Sets fields of a struct. The second argument is the field that names the rule.
type Rule = fn(&mut Map, &str);

/// The rule that needs the current time.
const NOW: &str = "now";

/// Applies the named rule to a struct, for one of its fields; [`NOW`] only with a clock.
pub(crate) fn apply(name: &str, map: &mut Map, field: &str, clock: Option<&Clock>) {
    match (name, clock) {
        (NOW, Some(clock)) => resource::now(map, field, clock),
        _ => drop(find(name).map(|rule| rule(map, field))),
    }
}

/// Rule by name, except [`NOW`].
fn find(name: &str) -> Option<Rule> {
    Some(match name {
        "allocatable" => core::allocatable,
        "customResourceDefinition" => apiextensions::custom_resource_definition,
        "deviceRequest" => resource::device_request,
        "externalTrafficPolicy" => service::external_traffic_policy,
        "imagePullPolicy" => pod::image_pull_policy,
        "internalTrafficPolicy" => service::internal_traffic_policy,
        "job" => batch::job,
        "limitRangeItem" => core::limit_range_item,
        "loadBalancerIPMode" => service::load_balancer_ip_mode,
        "namespaceLabel" => core::namespace_label,
        "persistentVolume" => core::persistent_volume,
        "pod" => pod::pod,
        "policyTypes" => networking::policy_types,
        "replicationController" => core::replication_controller,
        "resourceList" => core::resource_list,
        "sessionAffinityConfig" => service::session_affinity_config,
        "statefulSetUpdateStrategy" => stateful_set::update_strategy,
        "subjectGroup" => rbac::subject_group,
        "volume" => pod::volume,
        _ => return None,
    })
}

/// Struct in a field, made if it is absent.
fn struct_in<'m>(map: &'m mut Map, field: &str) -> Option<&'m mut Map> {
    map.entry_or_insert_with(field, || Value::Map(Map::new())).as_map_mut()
}

/// Sets a field if it is absent.
fn set_missing(map: &mut Map, field: &str, value: impl Into<Value>) {
    map.entry_or_insert_with(field, || value.into());
}

/// String in a field; empty if it is absent.
fn string<'m>(map: &'m Map, field: &str) -> &'m str {
    map.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a list or map has elements.
fn has_elements(value: Option<&Value>) -> bool {
    value.is_some_and(|value| !value.is_empty())
}

/// Copies the labels of the pod template to an object without labels.
fn labels_of_template(object: &mut Map) {
    let labels = object.get("spec").and_then(|s| s.at(&["template", "metadata", "labels"]));
    let Some(labels) = labels.filter(|labels| !labels.is_empty()).cloned() else { return };
    if let Some(metadata) = struct_in(object, "metadata")
        && !has_elements(metadata.get("labels"))
    {
        metadata.insert("labels", labels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_that_the_definitions_name_exists() {
        let table = crate::builtin::table();
        for default in table.defaults.iter() {
            if let crate::schema::Constant::Rule(name) = default.value {
                let name = table.str(name);
                assert!(name == NOW || find(name).is_some(), "{name}");
            }
        }
    }
}
