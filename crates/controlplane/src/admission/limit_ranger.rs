//! `LimitRanger`: what a namespace's limit ranges give to containers that do not say, and refuse.

use std::sync::Arc;

use kevel_api::field_error::aggregate;
use kevel_api::quantity::Quantity;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_server::admission::{Attributes, Operation, Plugin, ready};
use kevel_server::future::Pending;

use super::lister::Lister;
use super::resource_list::{self, PodResources, ResourceList};
use super::{Context, Registration};
use crate::features::Feature;

/// Where it is written down what a pod was given.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// What is larger is not compared in thousandths.
const MAX_MILLI: i64 = i64::MAX / 1000;

/// `LimitRanger`, as the command line knows it.
pub const REGISTRATION: Registration =
    Registration::on("LimitRanger", |context| Ok(Arc::new(LimitRanger::new(context)?)));

/// The admission plug-in of that name.
#[derive(Debug)]
pub struct LimitRanger {
    limit_ranges: Lister,
    pod_resources: PodResources,
}

impl LimitRanger {
    pub fn new(context: &Context<'_>) -> Result<Self, String> {
        let pod_level: fn(&str) -> bool = match (context.feature)(Feature::PodLevelResources) {
            true => |name| matches!(name, "cpu" | "memory"),
            false => |_| false,
        };
        Ok(LimitRanger {
            limit_ranges: context.lister("", "limitranges")?,
            pod_resources: PodResources { status: false, overhead: false, pod_level },
        })
    }

    async fn limit_ranges(
        &self,
        attributes: &Attributes<'_>,
    ) -> Result<Vec<Arc<Value>>, StatusError> {
        let leaving = |old: &Value| !old.str_at(&["metadata", "deletionTimestamp"]).is_empty();
        match attributes.old.is_some_and(leaving) {
            true => Ok(Vec::new()),
            false => self.limit_ranges.list(attributes.namespace).await,
        }
    }

    async fn complete(
        &self,
        attributes: &Attributes<'_>,
        pod: &mut Value,
    ) -> Result<(), StatusError> {
        for limit_range in self.limit_ranges(attributes).await? {
            complete(pod, &limit_range);
        }
        Ok(())
    }

    async fn check(
        &self,
        attributes: &Attributes<'_>,
        object: &Value,
        check: fn(&Self, &Value, &Value, &mut Vec<String>),
    ) -> Result<(), StatusError> {
        for limit_range in self.limit_ranges(attributes).await? {
            let mut errors = Vec::new();
            for limit in limit_range.list_at(&["spec", "limits"]) {
                check(self, limit, object, &mut errors);
            }
            if let Some(error) = aggregate(errors) {
                return Err(attributes.forbidden(Some(object), error));
            }
        }
        Ok(())
    }

    fn check_pod(&self, limit: &Value, pod: &Value, errors: &mut Vec<String>) {
        let rules: [(&str, Rule); 3] =
            [("min", min), ("max", max), ("maxLimitRequestRatio", max_limit_request_ratio)];
        let check = |kind: &str, requests: &_, limits: &_, errors: &mut Vec<String>| {
            for (field, rule) in rules {
                for (name, enforced) in resource_list::at(limit, &[field]) {
                    let asked = (requests, limits);
                    errors.extend(rule(kind, &name, enforced, asked).err());
                }
            }
        };
        match limit.str_at(&["type"]) {
            kind @ "Container" => {
                for container in ["containers", "initContainers"]
                    .into_iter()
                    .flat_map(|kind| pod.list_at(&["spec", kind]))
                {
                    let list = |field| resource_list::at(container, &["resources", field]);
                    check(kind, &list("requests"), &list("limits"), errors);
                }
            }
            kind @ "Pod" => {
                let of = &self.pod_resources;
                check(kind, &of.requests(pod), &of.limits(pod), errors);
            }
            _ => {}
        }
    }

    fn check_claim(&self, limit: &Value, claim: &Value, errors: &mut Vec<String>) {
        let kind = "PersistentVolumeClaim";
        if limit.str_at(&["type"]) != kind {
            return;
        }
        let requests = resource_list::at(claim, &["spec", "resources", "requests"]);
        let asked = (&requests, &ResourceList::new());
        for (field, rule) in [("min", min as Rule), ("max", max_request)] {
            for (name, enforced) in resource_list::at(limit, &[field]) {
                errors.extend(rule(kind, &name, enforced, asked).err());
            }
        }
    }
}

impl Plugin for LimitRanger {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        match object {
            Some(pod) if concerns_pod(attributes) => Box::pin(self.complete(attributes, pod)),
            _ => ready(Ok(())),
        }
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        match object {
            Some(pod) if concerns_pod(attributes) => {
                Box::pin(self.check(attributes, pod, Self::check_pod))
            }
            Some(claim) if attributes.is("", "persistentvolumeclaims") => {
                Box::pin(self.check(attributes, claim, Self::check_claim))
            }
            _ => ready(Ok(())),
        }
    }
}

/// Whether it is said what a pod needs: when it is new, or changes its size.
fn concerns_pod(attributes: &Attributes<'_>) -> bool {
    attributes.concerns("", "pods")
        && matches!(
            (attributes.operation, attributes.subresource),
            (Operation::Create, "") | (Operation::Update, "resize")
        )
}

/// Gives containers what they do not say, and notes it.
fn complete(pod: &mut Value, limit_range: &Value) {
    let limits = limit_range.list_at(&["spec", "limits"]).iter();
    let for_containers = limits.filter(|limit| limit.str_at(&["type"]) == "Container");
    let (mut requests, mut limits) = (ResourceList::new(), ResourceList::new());
    for limit in for_containers {
        requests.extend(resource_list::at(limit, &["defaultRequest"]));
        limits.extend(resource_list::at(limit, &["default"]));
    }
    if requests.is_empty() && limits.is_empty() {
        return;
    }
    let mut given = Vec::new();
    for (field, what) in [("containers", "container"), ("initContainers", "init container")] {
        let containers = pod.at_mut(&["spec", field]).and_then(Value::as_list_mut);
        for container in containers.into_iter().flatten() {
            let name = container.str_at(&["name"]).to_owned();
            for (field, kind, defaults) in
                [("requests", "request", &requests), ("limits", "limit", &limits)]
            {
                let set = set_missing(container, field, defaults);
                if !set.is_empty() {
                    given.push(format!("{} {kind} for {what} {name}", set.join(", ")));
                }
            }
        }
    }
    if !given.is_empty() {
        let text = format!("LimitRanger plugin set: {}", given.join("; "));
        pod.make_map(&["metadata", "annotations"]).insert(ANNOTATION, text.as_str().into());
    }
}

/// Sets the amounts that a container does not have; their names.
fn set_missing(container: &mut Value, field: &str, defaults: &ResourceList) -> Vec<String> {
    let has = |name: &str| container.at(&["resources", field, name]).is_some();
    let missing = defaults.iter().filter(|(name, _)| !has(name));
    let missing: Vec<(String, String)> =
        missing.map(|(name, amount)| (name.clone(), amount.to_string())).collect();
    for (name, amount) in &missing {
        let list = container.make_map(&["resources", field]);
        list.insert(name.as_str(), amount.as_str().into());
    }
    missing.into_iter().map(|(name, _)| name).collect()
}

/// What a limit range asks of requests and limits.
type Rule = fn(&str, &str, Quantity, (&ResourceList, &ResourceList)) -> Result<(), String>;

fn min(
    kind: &str,
    name: &str,
    enforced: Quantity,
    (requests, limits): (&ResourceList, &ResourceList),
) -> Result<(), String> {
    let begin = format!("minimum {name} usage per {kind} is {enforced}");
    let (request, limit) = (requests.get(name), limits.get(name));
    let Some(request) = request else { return Err(format!("{begin}.  No request is specified")) };
    let [asked, limited, least] = comparable([Some(request), limit, Some(&enforced)]);
    match limit {
        _ if asked < least => Err(format!("{begin}, but request is {request}")),
        Some(limit) if limited < least => Err(format!("{begin}, but limit is {limit}")),
        _ => Ok(()),
    }
}

fn max(
    kind: &str,
    name: &str,
    enforced: Quantity,
    (requests, limits): (&ResourceList, &ResourceList),
) -> Result<(), String> {
    let begin = format!("maximum {name} usage per {kind} is {enforced}");
    let (request, limit) = (requests.get(name), limits.get(name));
    let Some(limit) = limit else { return Err(format!("{begin}.  No limit is specified")) };
    let [asked, limited, most] = comparable([request, Some(limit), Some(&enforced)]);
    match request {
        _ if limited > most => Err(format!("{begin}, but limit is {limit}")),
        Some(request) if asked > most => Err(format!("{begin}, but request is {request}")),
        _ => Ok(()),
    }
}

fn max_request(
    kind: &str,
    name: &str,
    enforced: Quantity,
    (requests, _): (&ResourceList, &ResourceList),
) -> Result<(), String> {
    let begin = format!("maximum {name} usage per {kind} is {enforced}");
    let request = requests.get(name);
    let Some(request) = request else { return Err(format!("{begin}.  No request is specified")) };
    let [asked, _, most] = comparable([Some(request), None, Some(&enforced)]);
    if asked > most { Err(format!("{begin}, but request is {request}")) } else { Ok(()) }
}

fn max_limit_request_ratio(
    kind: &str,
    name: &str,
    enforced: Quantity,
    (requests, limits): (&ResourceList, &ResourceList),
) -> Result<(), String> {
    let begin = format!("{name} max limit to request ratio per {kind} is {enforced}");
    let (request, limit) = (requests.get(name), limits.get(name));
    let [asked, limited, _] = comparable([request, limit, Some(&enforced)]);
    if request.is_none() || asked == 0 {
        return Err(format!("{begin}, but no request is specified or request is 0"));
    }
    if limit.is_none() || limited == 0 {
        return Err(format!("{begin}, but no limit is specified or limit is 0"));
    }
    let ratio = limited as f64 / asked as f64;
    let exceeds = match enforced.value() <= MAX_MILLI {
        true => ratio * 1000.0 > enforced.milli_value() as f64,
        false => ratio > enforced.value() as f64,
    };
    if exceeds { Err(format!("{begin}, but provided ratio is {ratio:.6}")) } else { Ok(()) }
}

/// Amounts in thousandths, or in units where one of them is too large for that.
fn comparable<const N: usize>(amounts: [Option<&Quantity>; N]) -> [i64; N] {
    let units = amounts.map(|amount| amount.map_or(0, Quantity::value));
    match units.iter().all(|units| *units <= MAX_MILLI) {
        true => amounts.map(|amount| amount.map_or(0, Quantity::milli_value)),
        false => units,
    }
}
