//! Conversion of objects between versions of their group.
//!
//! Most versions of a kind differ in name only. A version with another structure has a row here, with the steps to and
//! from the kind's main form. A conversion goes up from one version and down to the other; fields that the target's
//! schema does not have are dropped.
//!
//! The reference converts every stored object to its internal type and back, which unifies pairs of fields with the
//! same meaning (`serviceAccount` and `serviceAccountName`). Here that is a conversion from a version to itself.

mod apps;
mod core;
mod dynamic_resources;
mod event;
mod horizontal_pod_autoscaler;
mod metric;
mod pod;

use crate::builtin;
use crate::gvk::{GroupVersion, GroupVersionKind};
use crate::prune::prune;
use crate::schema::{Schema, Type};
use crate::value::{Map, Value};

/// Decodes a JSON text to a tree; `None` if it is invalid. The codecs are another crate.
pub type ReadJson<'a> = &'a dyn Fn(&str) -> Option<Value>;

/// Whether objects of a built-in kind can be converted to another version.
pub fn converts(from: &GroupVersionKind, to: &GroupVersion) -> bool {
    builtin::schema(&from.group, &from.version, &from.kind).is_some() && target(from, to).is_ok()
}

/// Converts an object of a built-in kind to another version, or normalizes it in its own.
///
/// ```
/// use kevel_api::{convert, gvk::{GroupVersion, GroupVersionKind}, value::{Map, Value}};
/// let event = Map::from_iter([("message", Value::from("Started")), ("apiVersion", "v1".into())]);
/// let event = convert::convert(
///     Value::Map(event),
///     &GroupVersionKind::new("", "v1", "Event"),
///     &GroupVersion::new("events.k8s.io", "v1"),
///     &|_| None,
/// )?;
/// assert_eq!(event.str_at(&["note"]), "Started");
/// assert_eq!(event.str_at(&["apiVersion"]), "events.k8s.io/v1");
/// # Ok::<(), String>(())
/// ```
pub fn convert(
    mut value: Value,
    from: &GroupVersionKind,
    to: &GroupVersion,
    json: ReadJson<'_>,
) -> Result<Value, String> {
    let kind = from.kind.as_str();
    let same = from.group == to.group && from.version == to.version;
    let schema = if same { None } else { Some(target(from, to)?) };
    let Value::Map(object) = &mut value else { return Err("not an object".to_owned()) };
    let of_list = kind.strip_suffix("List").filter(|_| object.contains_key("items"));
    let stepped = of_list.unwrap_or(kind);
    let up = form(&from.group, &from.version, stepped);
    let down = if same { up } else { form(&to.group, &to.version, stepped) };
    let step = |object: &mut Map| -> Result<(), String> {
        up.map_or(Ok(()), |form| (form.1)(object, json))?;
        down.map_or(Ok(()), |form| (form.2)(object, json))
    };
    if of_list.is_some() {
        let items = object.get_mut("items").and_then(Value::as_list_mut);
        let mut items = items.into_iter().flatten().filter_map(Value::as_map_mut);
        items.try_for_each(step)?;
    } else {
        step(object)?;
    }
    let Some(schema) = schema else { return Ok(value) };
    if object.contains_key("apiVersion") {
        object.insert("apiVersion", to.to_string().as_str().into());
    }
    prune(&mut value, schema);
    drop_zeros(&mut value, schema);
    Ok(value)
}

/// Schema of a kind in another version.
fn target(from: &GroupVersionKind, to: &GroupVersion) -> Result<Schema<'static>, String> {
    let related = from.group == to.group || GROUPS_OF_EVENTS == sorted(&from.group, &to.group);
    let schema = builtin::schema(&to.group, &to.version, &from.kind).filter(|_| related);
    schema.ok_or_else(|| {
        format!("no kind {:?} is registered for version {:?}", from.kind, to.to_string())
    })
}

/// A form of a kind: group, version and kind, the step to the main form, and the step from it.
type KindConversion = ((&'static str, &'static str, &'static str), Step, Step);

type Step = fn(&mut Map, ReadJson<'_>) -> Result<(), String>;

/// Forms other than the main one, and forms whose fields have to be unified.
const FORMS: [KindConversion; 21] = [
    (("", "v1", "Node"), core::node, keep),
    (("", "v1", "Pod"), pod::pod, keep),
    (("", "v1", "PodStatusResult"), pod::status, keep),
    (("", "v1", "PodTemplate"), pod::template, keep),
    (("", "v1", "ReplicationController"), pod::template_in_spec, keep),
    (("", "v1", "Secret"), core::secret, keep),
    (
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        core::custom_resource_definition,
        keep,
    ),
    (("apps", "v1", "DaemonSet"), apps::daemon_set, keep),
    (("apps", "v1", "Deployment"), apps::deployment, keep),
    (("apps", "v1", "ReplicaSet"), pod::template_in_spec, keep),
    (("apps", "v1", "StatefulSet"), apps::stateful_set, keep),
    (
        ("autoscaling", "v1", "HorizontalPodAutoscaler"),
        horizontal_pod_autoscaler::from_v1,
        horizontal_pod_autoscaler::to_v1,
    ),
    (
        ("autoscaling", "v2", "HorizontalPodAutoscaler"),
        horizontal_pod_autoscaler::drop_annotations,
        keep,
    ),
    (("batch", "v1", "CronJob"), pod::cron_job, keep),
    (("batch", "v1", "Job"), pod::template_in_spec, keep),
    (("events.k8s.io", "v1", "Event"), event::to_core, event::from_core),
    (("policy", "v1", "PodDisruptionBudget"), core::pod_disruption_budget, keep),
    (
        ("policy", "v1beta1", "PodDisruptionBudget"),
        |budget, json| match core::replace_v1beta1_selector(budget) {
            true => Ok(()),
            false => core::pod_disruption_budget(budget, json),
        },
        keep,
    ),
    (
        ("resource.k8s.io", "v1beta1", "ResourceClaim"),
        dynamic_resources::claim_from_v1beta1,
        dynamic_resources::claim_to_v1beta1,
    ),
    (
        ("resource.k8s.io", "v1beta1", "ResourceClaimTemplate"),
        dynamic_resources::template_from_v1beta1,
        dynamic_resources::template_to_v1beta1,
    ),
    (
        ("resource.k8s.io", "v1beta1", "ResourceSlice"),
        dynamic_resources::slice_from_v1beta1,
        dynamic_resources::slice_to_v1beta1,
    ),
];

fn keep(_: &mut Map, _: ReadJson<'_>) -> Result<(), String> {
    Ok(())
}

/// Groups of Event, the one kind that two groups share.
const GROUPS_OF_EVENTS: [&str; 2] = ["", "events.k8s.io"];

fn sorted<'a>(a: &'a str, b: &'a str) -> [&'a str; 2] {
    if a < b { [a, b] } else { [b, a] }
}

fn form(group: &str, version: &str, kind: &str) -> Option<&'static KindConversion> {
    FORMS.iter().find(|form| form.0 == (group, version, kind))
}

/// Drops zeros that the source distinguishes from absent, and the target does not.
fn drop_zeros(value: &mut Value, schema: Schema<'_>) {
    match (value, schema.ty()) {
        (Value::Map(map), Type::Struct(_)) => map.retain(|name, value| {
            let Some(field) = schema.field(name) else { return true };
            drop_zeros(value, field.schema());
            let scalar = matches!(value, Value::Bool(_) | Value::Int(_) | Value::String(_));
            field.pointer() || !scalar || !value.is_empty()
        }),
        (Value::Map(map), Type::Map { value: of, .. }) => {
            map.iter_mut().for_each(|(_, value)| drop_zeros(value, schema.other(*of)));
        }
        (Value::List(list), Type::List { item, .. }) => {
            list.iter_mut().for_each(|value| drop_zeros(value, schema.other(*item)));
        }
        _ => {}
    }
}

/// Annotations of an object, if there are any.
fn annotations(object: &mut Map) -> Option<&mut Map> {
    object.get_mut("metadata")?.at_mut(&["annotations"])?.as_map_mut()
}

/// Struct in a field, made if it is absent.
fn made_in<'m>(map: &'m mut Map, field: &str) -> Option<&'m mut Map> {
    map.entry_or_insert_with(field, || Value::Map(Map::new())).as_map_mut()
}

/// String in a field; empty if it is absent.
fn string<'m>(map: &'m Map, field: &str) -> &'m str {
    map.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Renames fields.
fn rename(map: &mut Map, names: impl IntoIterator<Item = (&'static str, &'static str)>) {
    for (from, to) in names {
        if let Some(value) = map.remove(from) {
            map.insert(to, value);
        }
    }
}

#[cfg(test)]
mod tests;
