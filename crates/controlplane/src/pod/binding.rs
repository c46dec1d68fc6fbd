//! Bindings: the scheduler tells on which node a pod runs.

use kevel_api::field_error::{BadValue, FieldError, Path, aggregate};
use kevel_api::gvk::GroupResource;
use kevel_api::name::is_path_segment_name;
use kevel_api::quote::quote;
use kevel_api::status::{SUCCESS, Status, StatusError, StorageError};
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_component::future::Pending;
use kevel_features::{Feature, FeatureSet};
use kevel_registry::resource::{CreateRequest, Created, Creater, Resource};
use kevel_registry::storage::shown_key;

use super::condition::Condition;

/// Creater of `pods/binding`, and of its old form `bindings`.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// Features that are on.
    pub features: FeatureSet,
}

impl Creater for Binding {
    fn create<'a>(
        &'a self,
        request: &'a CreateRequest<'a>,
        binding: Value,
    ) -> Pending<'a, Result<Created, StatusError>> {
        Box::pin(async move {
            request.check_name(&binding, "Binding")?;
            check(&binding)?;
            let name = binding.str_at(&["metadata", "name"]);
            if name.is_empty() {
                return Err(StatusError::bad_request("Name parameter required."));
            }
            let problems = is_path_segment_name(name, false);
            if !problems.is_empty() {
                let (name, why) = (quote(name), problems.join(";"));
                let message = format!("Name parameter invalid: {name}: {why}");
                return Err(StatusError::bad_request(message));
            }
            let pods = {
                let rows = request.resources.current();
                let row = rows.get("", "v1", "pods").cloned();
                row.ok_or_else(|| StatusError::internal("pods are not served"))?
            };
            let assigned = pods.modify(request.namespace, name, request.dry_run, |pod| {
                check_preconditions(request, pod, &binding, &pods)?;
                self.assign(pod, &binding, Time::now(request.clock)).map_err(|why| {
                    StatusError::conflict(&GroupResource::new("", "pods/binding"), name, why)
                })
            });
            assigned.await?;
            Ok(Created::Status(Status { status: SUCCESS.into(), ..Status::default() }))
        })
    }
}

fn check(binding: &Value) -> Result<(), StatusError> {
    let mut errors = Vec::new();
    let root = Path::new("target");
    let kind = binding.str_at(&["target", "kind"]);
    if !kind.is_empty() && kind != "Node" {
        let known = ["Node", "<empty>"];
        let path = root.child("kind");
        errors.push(FieldError::not_supported(&path, BadValue::from(kind), known));
    }
    if binding.str_at(&["target", "name"]).is_empty() {
        errors.push(FieldError::required(&root.child("name"), ""));
    }
    match aggregate(&errors) {
        Some(message) => Err(StatusError::unknown(500, message)),
        None => Ok(()),
    }
}

/// A binding may say which pod it means, and as of when. In the old form, the first is not heeded.
fn check_preconditions(
    request: &CreateRequest<'_>,
    pod: &Value,
    binding: &Value,
    pods: &Resource,
) -> Result<(), StatusError> {
    let heeded = |field: &str| field != "uid" || !request.subresource.is_empty();
    for (field, what) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let (meant, there) =
            (binding.str_at(&["metadata", field]), pod.str_at(&["metadata", field]));
        if meant.is_empty() || meant == there || !heeded(field) {
            continue;
        }
        let name = pod.str_at(&["metadata", "name"]);
        let key = pods.storage.as_ref().map(|storage| storage.key(request.namespace, name));
        let key = shown_key(&key.unwrap_or_default());
        let message = format!(
            "Precondition failed: {what} in precondition: {meant}, {what} in object meta: {there}"
        );
        let error = StorageError::invalid_object(key, message);
        return Err(error.to_status("update", &pods.group_resource(), name));
    }
    Ok(())
}

impl Binding {
    /// Puts a pod on a node, if it is on none.
    fn assign(&self, pod: &mut Value, binding: &Value, now: Time) -> Result<(), String> {
        let name = pod.str_at(&["metadata", "name"]);
        if !pod.str_at(&["metadata", "deletionTimestamp"]).is_empty() {
            return Err(format!("pod {name} is being deleted, cannot be assigned to a host"));
        }
        let node = pod.str_at(&["spec", "nodeName"]);
        if !node.is_empty() {
            return Err(format!("pod {name} is already assigned to node {node:?}"));
        }
        if pod.at(&["spec", "schedulingGates"]).is_some_and(|gates| !gates.is_empty()) {
            return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
        }
        merge(pod, binding, "annotations");
        if self.features.has(Feature::PodTopologyLabelsAdmission) {
            merge(pod, binding, "labels");
        }
        let status = pod.at_mut(&["status"]).and_then(Value::as_map_mut);
        if let Some(status) = status
            && self.features.has(Feature::ClearingNominatedNodeNameAfterBinding)
        {
            status.remove("nominatedNodeName");
        }
        if let Some(spec) = pod.at_mut(&["spec"]).and_then(Value::as_map_mut) {
            spec.insert("nodeName", binding.str_at(&["target", "name"]).into());
        }
        Condition { ty: "PodScheduled", status: "True", ..Condition::default() }.set(pod, now);
        Ok(())
    }
}

fn merge(pod: &mut Value, binding: &Value, field: &str) {
    let Some(given) = binding.at(&["metadata", field]).and_then(Value::as_map) else { return };
    let Some(metadata) = pod.at_mut(&["metadata"]).and_then(Value::as_map_mut) else { return };
    let place = metadata.entry_or_insert_with(field, || Map::new().into());
    let Some(place) = place.as_map_mut() else { return };
    for (key, value) in given.iter() {
        place.insert(key, value.clone());
    }
}
