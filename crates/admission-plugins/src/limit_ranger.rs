//! `LimitRanger`: what a namespace's limit ranges give to containers that do not say, and refuse.

use std::collections::HashSet;
use std::sync::Arc;

use kevel_api::field_error::{MAX_ERRORS, aggregate};
use kevel_api::quantity::Quantity;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};
use kevel_store::cache::At;

use super::resource_list::{self, PodResources, ResourceList};
use super::{Context, Registration};
use kevel_controlplane::lister::{Facts, Lister};
use kevel_features::Feature;

/// Annotation with the defaults that a pod was given.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// Largest amount that is compared in thousandths.
const MAX_MILLI: i64 = i64::MAX / 1000;

/// `LimitRanger`, as the command line knows it.
pub const REGISTRATION: Registration =
    Registration::on("LimitRanger", |context| Ok(Arc::new(LimitRanger::new(context)?)));

/// The admission plug-in of that name.
#[derive(Debug)]
pub struct LimitRanger {
    limit_ranges: Lister<LimitRange>,
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
    ) -> Result<Vec<Arc<LimitRange>>, StatusError> {
        let leaving = |old: &Value| !old.str_at(&["metadata", "deletionTimestamp"]).is_empty();
        match attributes.old.is_some_and(leaving) {
            true => Ok(Vec::new()),
            false => self.limit_ranges.list(attributes.namespace, At::Any).await,
        }
    }

    async fn complete(
        &self,
        attributes: &Attributes<'_>,
        pod: &mut Value,
    ) -> Result<(), StatusError> {
        let mut room = MAX_GIVEN;
        for limit_range in self.limit_ranges(attributes).await? {
            limit_range.complete(pod, &mut room)?;
        }
        Ok(())
    }

    async fn check_pod(&self, attributes: &Attributes<'_>, pod: &Value) -> Result<(), StatusError> {
        let limit_ranges = self.limit_ranges(attributes).await?;
        if limit_ranges.is_empty() {
            return Ok(());
        }
        let containers = ["containers", "initContainers"].into_iter();
        let containers = containers.flat_map(|kind| pod.list_at(&["spec", kind]));
        let list = |container, field| resource_list::at(container, &["resources", field]);
        let containers = containers
            .map(|container| Asked(list(container, "requests"), list(container, "limits")));
        let containers: Vec<Asked> = containers.collect();
        let of = &self.pod_resources;
        let whole = [Asked(of.requests(pod), of.limits(pod))];
        let rules: [(Bound, Rule); 3] = [
            (|limit| &limit.min, min),
            (|limit| &limit.max, max),
            (|limit| &limit.max_limit_request_ratio, max_limit_request_ratio),
        ];
        self.check(attributes, pod, &limit_ranges, &rules, |kind| match kind {
            "Container" => &containers,
            "Pod" => &whole,
            _ => &[],
        })
    }

    async fn check_claim(
        &self,
        attributes: &Attributes<'_>,
        claim: &Value,
    ) -> Result<(), StatusError> {
        let limit_ranges = self.limit_ranges(attributes).await?;
        let requests = resource_list::at(claim, &["spec", "resources", "requests"]);
        let asked = [Asked(requests, ResourceList::new())];
        let rules: [(Bound, Rule); 2] =
            [(|limit| &limit.min, min), (|limit| &limit.max, max_request)];
        self.check(attributes, claim, &limit_ranges, &rules, |kind| match kind {
            "PersistentVolumeClaim" => &asked,
            _ => &[],
        })
    }

    /// Checks requests and limits against all limits of their type.
    fn check<'a>(
        &self,
        attributes: &Attributes<'_>,
        object: &Value,
        limit_ranges: &[Arc<LimitRange>],
        rules: &[(Bound, Rule)],
        asked: impl Fn(&str) -> &'a [Asked],
    ) -> Result<(), StatusError> {
        for limit_range in limit_ranges {
            let wrong = limit_range.limits.iter().flat_map(|limit| {
                let asked = asked(&limit.kind).iter();
                let held = asked.flat_map(|asked| rules.iter().map(move |rule| (asked, rule)));
                held.flat_map(|(asked, (bound, rule))| {
                    let enforced = bound(limit).iter().inspect(|_| kevel_compute::charge(1));
                    enforced
                        .filter_map(|(name, amount)| rule(&limit.kind, name, *amount, asked).err())
                })
            });
            // What would not be told is not looked for.
            let mut seen = HashSet::new();
            let told = wrong.filter(|error| seen.insert(error.clone())).take(MAX_ERRORS);
            if let Some(error) = aggregate(told) {
                return Err(attributes.forbidden(Some(object), error));
            }
        }
        Ok(())
    }
}

/// A limit range, as far as it is enforced here. As many amounts are kept as it has, in a hundred bytes each.
#[derive(Debug)]
struct LimitRange {
    limits: Vec<Limit>,
    /// Requests and limits of containers that have none.
    requests: ResourceList,
    default_limits: ResourceList,
}

#[derive(Debug)]
struct Limit {
    kind: String,
    min: ResourceList,
    max: ResourceList,
    max_limit_request_ratio: ResourceList,
}

/// Selects one of a limit's lists of amounts, such as `max`.
type Bound = fn(&Limit) -> &ResourceList;

/// Requests and limits.
struct Asked(ResourceList, ResourceList);

impl Facts for LimitRange {
    fn read(limit_range: &Value) -> Self {
        let limits = limit_range.list_at(&["spec", "limits"]);
        let (mut requests, mut default_limits) = (ResourceList::new(), ResourceList::new());
        for limit in limits.iter().filter(|limit| limit.str_at(&["type"]) == "Container") {
            requests.extend(resource_list::at(limit, &["defaultRequest"]));
            default_limits.extend(resource_list::at(limit, &["default"]));
        }
        let limits = limits.iter().map(|limit| Limit {
            kind: limit.str_at(&["type"]).to_owned(),
            min: resource_list::at(limit, &["min"]),
            max: resource_list::at(limit, &["max"]),
            max_limit_request_ratio: resource_list::at(limit, &["maxLimitRequestRatio"]),
        });
        LimitRange { limits: limits.collect(), requests, default_limits }
    }
}

impl LimitRange {
    /// Sets default requests and limits of containers, and records them in an annotation.
    fn complete(&self, pod: &mut Value, room: &mut usize) -> Result<(), StatusError> {
        if self.requests.is_empty() && self.default_limits.is_empty() {
            return Ok(());
        }
        let mut given = Vec::new();
        for (field, what) in [("containers", "container"), ("initContainers", "init container")] {
            let containers = pod.at_mut(&["spec", field]).and_then(Value::as_list_mut);
            for container in containers.into_iter().flatten() {
                let name = container.str_at(&["name"]).to_owned();
                for (field, kind, defaults) in [
                    ("requests", "request", &self.requests),
                    ("limits", "limit", &self.default_limits),
                ] {
                    let set = set_missing(container, field, defaults);
                    *room = room.checked_sub(set.len()).ok_or_else(too_many)?;
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
        Ok(())
    }
}

/// Limit on the amounts that a pod is given: ten each of a thousand containers, as requests and as limits. Limit ranges may
/// name some ten thousand resources, and a pod as many containers: each is below what can be stored, and all of them
/// together far above.
const MAX_GIVEN: usize = 20_000;

fn too_many() -> StatusError {
    let why = format!("limit ranges would set more than {MAX_GIVEN} requests and limits");
    StatusError::request_entity_too_large(&why)
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
            Some(pod) if concerns_pod(attributes) => Box::pin(self.check_pod(attributes, pod)),
            Some(claim) if attributes.is("", "persistentvolumeclaims") => {
                Box::pin(self.check_claim(attributes, claim))
            }
            _ => ready(Ok(())),
        }
    }
}

/// Whether the write sets a pod's resources: a creation, or a resize.
fn concerns_pod(attributes: &Attributes<'_>) -> bool {
    attributes.concerns("", "pods")
        && matches!(
            (attributes.operation, attributes.subresource),
            (Operation::Create, "") | (Operation::Update, "resize")
        )
}

/// Sets the amounts that a container does not have; their names.
fn set_missing<'d>(container: &mut Value, field: &str, defaults: &'d ResourceList) -> Vec<&'d str> {
    let own = container.at(&["resources", field]).and_then(Value::as_map);
    let defaults = defaults.iter().inspect(|_| kevel_compute::charge(1));
    let missing = defaults.filter(|(name, _)| own.is_none_or(|own| own.get(name).is_none()));
    let missing: Vec<_> = missing.collect();
    if !missing.is_empty() {
        let amounts = missing
            .iter()
            .map(|(name, amount)| (name.as_str().into(), Value::from(amount.to_string().as_str())));
        container.make_map(&["resources", field]).extend(amounts);
    }
    missing.into_iter().map(|(name, _)| name.as_str()).collect()
}

/// Check of a container's requests and limits against one field of a LimitRange.
type Rule = fn(&str, &str, Quantity, &Asked) -> Result<(), String>;

fn min(kind: &str, name: &str, enforced: Quantity, asked: &Asked) -> Result<(), String> {
    let Asked(requests, limits) = asked;
    let wrong = |what: String| Err(format!("minimum {name} usage per {kind} is {enforced}{what}"));
    let (request, limit) = (requests.get(name), limits.get(name));
    let Some(request) = request else { return wrong(".  No request is specified".to_owned()) };
    let [asked, limited, least] = comparable([Some(request), limit, Some(&enforced)]);
    match limit {
        _ if asked < least => wrong(format!(", but request is {request}")),
        Some(limit) if limited < least => wrong(format!(", but limit is {limit}")),
        _ => Ok(()),
    }
}

fn max(kind: &str, name: &str, enforced: Quantity, asked: &Asked) -> Result<(), String> {
    let Asked(requests, limits) = asked;
    let wrong = |what: String| Err(format!("maximum {name} usage per {kind} is {enforced}{what}"));
    let (request, limit) = (requests.get(name), limits.get(name));
    let Some(limit) = limit else { return wrong(".  No limit is specified".to_owned()) };
    let [asked, limited, most] = comparable([request, Some(limit), Some(&enforced)]);
    match request {
        _ if limited > most => wrong(format!(", but limit is {limit}")),
        Some(request) if asked > most => wrong(format!(", but request is {request}")),
        _ => Ok(()),
    }
}

fn max_request(kind: &str, name: &str, enforced: Quantity, asked: &Asked) -> Result<(), String> {
    let Asked(requests, _) = asked;
    let wrong = |what: String| Err(format!("maximum {name} usage per {kind} is {enforced}{what}"));
    let request = requests.get(name);
    let Some(request) = request else { return wrong(".  No request is specified".to_owned()) };
    let [asked, _, most] = comparable([Some(request), None, Some(&enforced)]);
    if asked > most { wrong(format!(", but request is {request}")) } else { Ok(()) }
}

fn max_limit_request_ratio(
    kind: &str,
    name: &str,
    enforced: Quantity,
    asked: &Asked,
) -> Result<(), String> {
    let Asked(requests, limits) = asked;
    let wrong = |what: String| {
        Err(format!("{name} max limit to request ratio per {kind} is {enforced}, but {what}"))
    };
    let (request, limit) = (requests.get(name), limits.get(name));
    let [asked, limited, _] = comparable([request, limit, Some(&enforced)]);
    if request.is_none() || asked == 0 {
        return wrong("no request is specified or request is 0".to_owned());
    }
    if limit.is_none() || limited == 0 {
        return wrong("no limit is specified or limit is 0".to_owned());
    }
    let ratio = limited as f64 / asked as f64;
    let exceeds = match enforced.value() <= MAX_MILLI {
        true => ratio * 1000.0 > enforced.milli_value() as f64,
        false => ratio > enforced.value() as f64,
    };
    if exceeds { wrong(format!("provided ratio is {ratio:.6}")) } else { Ok(()) }
}

/// Amounts in thousandths, or in units where one of them is too large for that.
fn comparable<const N: usize>(amounts: [Option<&Quantity>; N]) -> [i64; N] {
    let units = amounts.map(|amount| amount.map_or(0, Quantity::value));
    match units.iter().all(|units| *units <= MAX_MILLI) {
        true => amounts.map(|amount| amount.map_or(0, Quantity::milli_value)),
        false => units,
    }
}
