//! Maintenance of the bootstrap objects: which must be created, updated or removed (upstream: flowcontrol/ensurer).

use kevel_api::value::{Map, Value, equivalent};

use super::AUTO_UPDATE_ANNOTATION;
use crate::EXEMPT;

/// Field manager of the bootstrap objects.
pub const FIELD_MANAGER: &str = "api-priority-and-fairness-config-producer-v1";

/// Resource of a bootstrap object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// `prioritylevelconfigurations`
    PriorityLevelConfigurations,
    /// `flowschemas`
    FlowSchemas,
}

impl Resource {
    /// Path of the collection.
    pub const fn path(self) -> &'static str {
        match self {
            Resource::PriorityLevelConfigurations => {
                "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"
            }
            Resource::FlowSchemas => "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        }
    }
}

/// Action on a bootstrap object.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Create a missing object.
    Create(Resource, Value),
    /// Replace an object; it has the `resourceVersion` that was read.
    Update(Resource, Value),
    /// Delete the object of this name, which is no bootstrap object any more.
    Delete(Resource, String),
}

/// Actions that bring the existing objects in line, in order.
///
/// Missing objects are created. The spec of a mandatory object is always restored, that of a suggested one if its
/// annotation (`apf.kubernetes.io/autoupdate-spec`) is true, or, without a valid annotation, if the spec is unchanged
/// since creation. Auto-updated objects that are no bootstrap objects any more are deleted.
pub fn ensure(priority_levels: &[Value], flow_schemas: &[Value]) -> Vec<Action> {
    use Resource::{FlowSchemas, PriorityLevelConfigurations};
    let (suggested, mandatory) = (false, true);
    let mut actions = Vec::new();
    let mut ensure_all = |resource, existing: &[Value], wanted: Vec<Value>, always| {
        let actions_of = wanted.into_iter().filter_map(|wanted| {
            let current = existing.iter().find(|object| name(object) == name(&wanted));
            match current {
                None => Some(Action::Create(resource, wanted)),
                Some(current) => {
                    revise(current, &wanted, always).map(|object| Action::Update(resource, object))
                }
            }
        });
        actions.extend(actions_of);
    };
    let levels = super::suggested_priority_levels().collect();
    ensure_all(PriorityLevelConfigurations, priority_levels, levels, suggested);
    let schemas = super::suggested_flow_schemas().collect();
    ensure_all(FlowSchemas, flow_schemas, schemas, suggested);
    let levels = super::mandatory_priority_levels().collect();
    ensure_all(PriorityLevelConfigurations, priority_levels, levels, mandatory);
    let schemas = super::mandatory_flow_schemas().collect();
    ensure_all(FlowSchemas, flow_schemas, schemas, mandatory);

    let known = super::mandatory_flow_schemas().chain(super::suggested_flow_schemas());
    actions.extend(unwanted(FlowSchemas, flow_schemas, known));
    let known = super::mandatory_priority_levels().chain(super::suggested_priority_levels());
    actions.extend(unwanted(PriorityLevelConfigurations, priority_levels, known));
    actions
}

/// The corrected object, if a correction is needed.
fn revise(current: &Value, wanted: &Value, always: bool) -> Option<Value> {
    let said = annotation(current);
    let update_spec = always || said.unwrap_or_else(|| is_untouched(current));
    let update_annotation = said != Some(update_spec);
    let spec_differs = update_spec && !same_spec(current, wanted);
    if !update_annotation && !spec_differs {
        return None;
    }
    let mut revised = current.clone();
    if spec_differs && let Some(spec) = wanted.at(&["spec"]) {
        revised.make_map(&[]).insert("spec", spec.clone());
    }
    if update_annotation {
        let text = if update_spec { "true" } else { "false" };
        let annotations: &mut Map = revised.make_map(&["metadata", "annotations"]);
        annotations.insert(AUTO_UPDATE_ANNOTATION, text.into());
    }
    Some(revised)
}

/// Deletions of auto-updated objects that are not among the known ones.
fn unwanted(
    resource: Resource,
    existing: &[Value],
    known: impl Iterator<Item = Value>,
) -> Vec<Action> {
    let known: Vec<Value> = known.collect();
    let is_known = |object: &Value| known.iter().any(|known| name(known) == name(object));
    let unwanted = existing.iter().filter(|object| !is_known(object));
    unwanted
        .filter(|object| annotation(object) == Some(true))
        .map(|object| Action::Delete(resource, name(object).to_owned()))
        .collect()
}

fn name(object: &Value) -> &str {
    object.str_at(&["metadata", "name"])
}

/// Value of the auto-update annotation, if it is valid.
fn annotation(object: &Value) -> Option<bool> {
    parse_bool(object.str_at(&["metadata", "annotations", AUTO_UPDATE_ANNOTATION]))
}

/// Whether the spec is unchanged since creation (generation 1).
fn is_untouched(object: &Value) -> bool {
    object.at(&["metadata", "generation"]).and_then(Value::as_int) == Some(1)
}

/// Whether two specs are equal. The exempt level's own settings are ignored: administrators may change them.
fn same_spec(current: &Value, wanted: &Value) -> bool {
    let (Some(current_spec), Some(wanted_spec)) = (current.at(&["spec"]), wanted.at(&["spec"]))
    else {
        return false;
    };
    if name(wanted) != EXEMPT || wanted_spec.at(&["exempt"]).is_none() {
        return equivalent(Some(current_spec), Some(wanted_spec));
    }
    let without = |spec: &Value| {
        let mut spec = spec.clone();
        let exempt = spec.as_map_mut().and_then(|spec| spec.remove("exempt"));
        (spec, exempt.is_some())
    };
    without(current_spec) == without(wanted_spec)
}

/// Boolean as Go's `strconv.ParseBool` reads it.
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}
