//! `pods/eviction`: deletions that respect PodDisruptionBudgets.

use std::sync::Arc;

use kevel_api::field_error::{FieldError, Path};
use kevel_api::gvk::{GroupKind, GroupResource};
use kevel_api::selector::label::LabelSelector;
use kevel_api::status::{FAILURE, SUCCESS, Status, StatusCause, StatusError, reason};
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_component::future::Pending;
use kevel_registry::deletion::DeleteOptions;
use kevel_registry::resource::{CreateRequest, Created, Creater, Resource};
use kevel_store::cache::At;

use super::condition::Condition;
use crate::lister::{Facts, Lister};

/// Cause type of a refused eviction.
const CAUSE: &str = "DisruptionBudget";

/// Limit on `disruptedPods` of a budget that its controller has not processed yet.
const MAX_DISRUPTED: usize = 2000;

/// Creater of `pods/eviction`.
#[derive(Clone, Copy, Debug)]
pub struct Eviction;

impl Creater for Eviction {
    fn accepted_versions(&self) -> &'static [(&'static str, &'static str)] {
        // Sent by clients that predate policy/v1; the reference accepts it, though it no longer serves that version.
        &[("policy", "v1beta1")]
    }

    fn create<'a>(
        &'a self,
        request: &'a CreateRequest<'a>,
        eviction: Value,
    ) -> Pending<'a, Result<Created, StatusError>> {
        Box::pin(async move {
            request.check_name(&eviction, "Eviction")?;
            refuse_unsafe(&eviction, request.name)?;
            let mut options = delete_options(&eviction);
            if request.dry_run {
                if !options.dry_run.is_empty() && options.dry_run != ["All"] {
                    return Err(other_dry_run(&options));
                }
                options.dry_run = vec!["All".to_owned()];
            }
            let pods = request.resource;
            let pod = pods.find(request.namespace, request.name).await?;
            let mut refusal = None;
            let fixed = match unbudgeted(&pod) {
                Some(fixed) => fixed,
                None => match self.spend(request, &pod, options.is_dry_run()).await? {
                    Spent::Free => false,
                    Spent::Unhealthy(budget) => {
                        refusal = Some(budget);
                        true
                    }
                    Spent::Ambiguous => return Ok(Created::Status(ambiguous())),
                },
            };
            if fixed && options.resource_version.is_none() {
                options.resource_version =
                    Some(pod.str_at(&["metadata", "resourceVersion"]).into());
            }
            match evict(pods, request, options).await {
                Err(error) if error.reason() == reason::CONFLICT => match refusal {
                    Some(budget) => Err(still_processed(&budget)),
                    None => Err(error),
                },
                result => result.map(|()| {
                    Created::Status(Status { status: SUCCESS.into(), ..Status::default() })
                }),
            }
        })
    }
}

/// Refuses the option to delete an object that cannot be read: an eviction has to read its pod.
fn refuse_unsafe(eviction: &Value, name: &str) -> Result<(), StatusError> {
    let option = "ignoreStoreReadErrorWithClusterBreakingPotential";
    if eviction.at(&["deleteOptions", option]).and_then(Value::as_bool) != Some(true) {
        return Ok(());
    }
    let why = "can not be set for pod eviction, try after removing the option";
    let error = FieldError::invalid(&Path::new("deleteOptions").child(option), true, why);
    Err(StatusError::invalid(&GroupKind::new("policy", "Eviction"), name, error))
}

/// Result of charging an eviction to the pod's budget.
enum Spent {
    /// No budget applies, or the disruption has been charged.
    Free,
    /// The pod is unhealthy, so that the eviction is free while the pod is at this resourceVersion.
    Unhealthy(String),
    /// More than one budget selects the pod.
    Ambiguous,
}

impl Eviction {
    async fn spend(
        &self,
        request: &CreateRequest<'_>,
        pod: &Value,
        dry_run: bool,
    ) -> Result<Spent, StatusError> {
        let row = request.resources.current().get("policy", "v1", "poddisruptionbudgets").cloned();
        let Some(budgets) = row else { return Ok(Spent::Free) };
        let storage = budgets.storage.clone().ok_or_else(|| StatusError::internal("not stored"))?;
        let known: Lister<Budget> = Lister::new(storage);
        let mut matching = known.list(request.namespace, At::Consistent).await?;
        matching.retain(|budget| budget.selector.selects(pod));
        let Some(budget) = matching.pop() else { return Ok(Spent::Free) };
        if !matching.is_empty() {
            return Ok(Spent::Ambiguous);
        }
        let name = budget.name.clone();
        let ready = Condition { ty: "Ready", status: "True", ..Condition::default() };
        if !ready.holds(pod) {
            let Budget { healthy, desired, .. } = *budget;
            if budget.always_allows_unhealthy || (healthy >= desired && desired > 0) {
                return Ok(Spent::Unhealthy(name));
            }
        }
        let pay =
            |budget: &mut Value| decrement(budget, request.name, dry_run, Time::now(request.clock));
        budgets.modify(request.namespace, &name, dry_run, pay).await?;
        Ok(Spent::Free)
    }
}

/// For pods that need no budget, whether the pod must still be in the observed state; `None` if a budget is needed.
fn unbudgeted(pod: &Value) -> Option<bool> {
    let deleting = !pod.str_at(&["metadata", "deletionTimestamp"]).is_empty();
    match pod.str_at(&["status", "phase"]) {
        "Succeeded" | "Failed" => Some(false),
        _ if deleting => Some(false),
        "Pending" => Some(true),
        _ => None,
    }
}

/// Facts by which an eviction finds the PodDisruptionBudget of its pod.
#[derive(Debug)]
struct Budget {
    name: String,
    selector: LabelSelector,
    healthy: i64,
    desired: i64,
    always_allows_unhealthy: bool,
}

impl Facts for Budget {
    fn read(budget: &Value) -> Self {
        // A budget with an invalid selector selects no pod.
        let selector = LabelSelector::from_value(budget.at(&["spec", "selector"]));
        Budget {
            name: budget.str_at(&["metadata", "name"]).to_owned(),
            selector: selector.unwrap_or(LabelSelector::NOTHING),
            healthy: number(budget, "currentHealthy"),
            desired: number(budget, "desiredHealthy"),
            always_allows_unhealthy: budget.str_at(&["spec", "unhealthyPodEvictionPolicy"])
                == "AlwaysAllow",
        }
    }
}

fn number(budget: &Value, field: &str) -> i64 {
    budget.at(&["status", field]).and_then(Value::as_int).unwrap_or(0)
}

/// Takes one disruption from a budget; an error if none is left.
fn decrement(budget: &mut Value, pod: &str, dry_run: bool, now: Time) -> Result<(), StatusError> {
    let name = budget.str_at(&["metadata", "name"]).to_owned();
    let generation = budget.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0);
    let allowed = number(budget, "disruptionsAllowed");
    let disrupted = budget.at(&["status", "disruptedPods"]).and_then(Value::as_map);
    let forbidden = |why: &str| {
        StatusError::forbidden(&GroupResource::new("policy", "poddisruptionbudget"), &name, why)
    };
    if number(budget, "observedGeneration") < generation {
        return Err(still_processed(&name));
    }
    if allowed < 0 {
        return Err(forbidden("pdb disruptions allowed is negative"));
    }
    if disrupted.is_some_and(|pods| pods.len() > MAX_DISRUPTED) {
        return Err(forbidden(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ));
    }
    if allowed == 0 {
        return Err(refused(0, exhausted(budget, &name)));
    }
    let Some(status) = budget.at_mut(&["status"]).and_then(Value::as_map_mut) else {
        return Ok(());
    };
    status.insert("disruptionsAllowed", Value::Int(allowed - 1));
    if dry_run {
        return Ok(());
    }
    let pods = status.entry_or_insert_with("disruptedPods", || Map::new().into());
    if let Some(pods) = pods.as_map_mut() {
        pods.insert(pod, now.to_string().as_str().into());
    }
    Ok(())
}

/// Message for a budget without disruptions left.
fn exhausted(budget: &Value, name: &str) -> String {
    let conditions = budget.at(&["status", "conditions"]).and_then(Value::as_list);
    let condition = conditions.unwrap_or_default().iter().find(|condition| {
        condition.str_at(&["type"]) == "DisruptionAllowed"
            && condition.str_at(&["status"]) == "False"
            && !condition.str_at(&["message"]).is_empty()
    });
    let text = |field: &str| condition.map(|condition| condition.str_at(&[field]));
    let (healthy, desired) = (number(budget, "currentHealthy"), number(budget, "desiredHealthy"));
    let (reason, message) = (text("reason").unwrap_or_default(), text("message"));
    match message {
        Some(message) if reason == "SyncFailed" => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
        ),
        _ if healthy <= desired => format!(
            "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        ),
        Some(message) => format!(
            "The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
        ),
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

fn other_dry_run(options: &DeleteOptions) -> StatusError {
    let said = options.dry_run.join(" ");
    let why = format!("Non-matching dry-run options in request and content: [All] and [{said}]");
    StatusError::unknown(500, why)
}

fn still_processed(name: &str) -> StatusError {
    refused(10, format!("The disruption budget {name} is still being processed by the server."))
}

fn refused(retry_after: i32, why: String) -> StatusError {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let cause = StatusCause { reason: CAUSE.into(), message: why.into(), ..StatusCause::default() };
    StatusError::too_many_requests(message, retry_after).with_cause(cause)
}

fn ambiguous() -> Status {
    Status {
        status: FAILURE.into(),
        message: "This pod has more than one PodDisruptionBudget, which the eviction subresource \
                  does not support."
            .into(),
        code: 500,
        ..Status::default()
    }
}

/// Sets the DisruptionTarget condition and deletes the pod.
async fn evict(
    pods: &Arc<Resource>,
    request: &CreateRequest<'_>,
    mut options: DeleteOptions,
) -> Result<(), StatusError> {
    let (namespace, name) = (request.namespace, request.name);
    if !options.is_dry_run() {
        let marked = pods.modify(namespace, name, false, |pod| {
            options.check(pods, pod)?;
            Condition {
                ty: "DisruptionTarget",
                status: "True",
                reason: "EvictionByEvictionAPI",
                message: "Eviction API: evicting",
            }
            .set(pod, Time::now(request.clock));
            Ok(())
        });
        let marked = marked.await?;
        if let Some(version) = &mut options.resource_version {
            *version = marked.str_at(&["metadata", "resourceVersion"]).to_owned();
        }
    }
    options.validate([])?;
    pods.remove(namespace, name, &options).await
}

fn delete_options(eviction: &Value) -> DeleteOptions {
    let Some(options) = eviction.at(&["deleteOptions"]) else { return DeleteOptions::default() };
    let text = |path: &[&str]| options.at(path).and_then(Value::as_str).map(str::to_owned);
    DeleteOptions {
        grace_period: options.at(&["gracePeriodSeconds"]).and_then(Value::as_int),
        uid: text(&["preconditions", "uid"]),
        resource_version: text(&["preconditions", "resourceVersion"]),
        propagation: text(&["propagationPolicy"]),
        orphan_dependents: options.at(&["orphanDependents"]).and_then(Value::as_bool),
        dry_run: DeleteOptions::stages(options),
        ..DeleteOptions::default()
    }
}
