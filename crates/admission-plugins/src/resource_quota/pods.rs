//! Usage of pods in quotas, and the quota scopes that match them.

use std::collections::{BTreeMap, BTreeSet};

use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_clock::Clock;
use kevel_registry::admission::{Attributes, Operation};

use super::super::resource_list::{self, PodResources, ResourceList, is_extended, is_native};
use super::evaluator::{Evaluator, ONE};
use super::scopes::Scope;
use kevel_controlplane::qos;

/// Resources that are limited under their own name.
const NAMES: [&str; 11] = [
    "count/pods",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "pods",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
/// Resources that every container must set while they are limited.
const REQUIRED: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
/// Resources that count under their plain name, as request and as limit.
const COUNTED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const HUGE_PAGES: &str = "hugepages-";
const REQUESTS: &str = "requests.";
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

#[derive(Debug)]
pub(super) struct Pods {
    resources: PodResources,
    /// `PodLevelResources`
    pod_level: bool,
    clock: Clock,
}

impl Pods {
    /// `pod_level_resources` is the feature gate of that name.
    pub fn new(pod_level_resources: bool, clock: Clock) -> Self {
        let pod_level: fn(&str) -> bool = if pod_level_resources { of_pod } else { |_| false };
        let resources = PodResources { status: true, overhead: true, pod_level };
        Pods { resources, pod_level: pod_level_resources, clock }
    }
}

/// Whether a pod can set the resource at pod level.
fn of_pod(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES)
}

impl Evaluator for Pods {
    fn handles(&self, attributes: &Attributes<'_>, pod: &Value) -> bool {
        match (attributes.operation, attributes.subresource) {
            (Operation::Create, "") | (Operation::Update, "resize") => true,
            (Operation::Update, "") => {
                attributes.old.is_some_and(|old| terminates(old) != terminates(pod))
            }
            _ => false,
        }
    }

    fn limited_by(&self, name: &str) -> bool {
        let huge_pages = |name: &str| name.starts_with(HUGE_PAGES);
        let requested = name.strip_prefix(REQUESTS);
        NAMES.contains(&name)
            || huge_pages(name)
            || requested.is_some_and(|requested| {
                huge_pages(requested) || !is_native(name) || requested.starts_with(DEVICE_CLASS)
            })
    }

    fn usage(&self, pod: &Value) -> ResourceList {
        let mut usage = ResourceList::from([("count/pods".to_owned(), ONE)]);
        if counts(pod, Time::now(&self.clock)) {
            let (requests, limits) = (self.resources.requests(pod), self.resources.limits(pod));
            resource_list::add(&mut usage, &used(&requests, &limits));
        }
        usage
    }

    fn is_in(&self, scope: &Scope, pod: &Value) -> bool {
        match scope.name.as_str() {
            "Terminating" => terminates(pod),
            "NotTerminating" => !terminates(pod),
            "BestEffort" => qos::class(pod) == "BestEffort",
            "NotBestEffort" => qos::class(pod) != "BestEffort",
            "PriorityClass" => {
                let class = pod.str_at(&["spec", "priorityClassName"]);
                scope.selects(if class.is_empty() { &[] } else { std::slice::from_ref(&class) })
            }
            "CrossNamespacePodAffinity" => crosses_namespaces(pod),
            _ => false,
        }
    }

    fn check(&self, limited: &[&str], pod: &Value) -> Result<(), String> {
        let says = |kind| {
            let list = pod.at(&["spec", "resources", kind]).and_then(Value::as_map);
            list.is_some_and(|list| list.iter().any(|(name, _)| of_pod(name)))
        };
        if self.pod_level && (says("requests") || says("limits")) {
            return Ok(());
        }
        let required: Vec<_> = limited.iter().filter(|name| REQUIRED.contains(name)).collect();
        let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for container in
            ["containers", "initContainers"].into_iter().flat_map(|k| pod.list_at(&["spec", k]))
        {
            let list = |kind| resource_list::at(container, &["resources", kind]);
            let said = used(&list("requests"), &list("limits"));
            for name in required.iter().filter(|name| !said.contains_key(***name)) {
                missing.entry(name).or_default().insert(container.str_at(&["name"]));
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let missing = missing.into_iter().map(|(name, containers)| {
            format!("{name} for: {}", containers.into_iter().collect::<Vec<_>>().join(","))
        });
        Err(format!("must specify {}", missing.collect::<Vec<_>>().join("; ")))
    }
}

/// Usage by the names that requests and limits have in quotas.
fn used(requests: &ResourceList, limits: &ResourceList) -> ResourceList {
    let mut used = ResourceList::from([("pods".to_owned(), ONE)]);
    for name in COUNTED {
        if let Some(request) = requests.get(name) {
            used.insert(name.to_owned(), *request);
            used.insert(format!("{REQUESTS}{name}"), *request);
        }
        if let Some(limit) = limits.get(name) {
            used.insert(format!("limits.{name}"), *limit);
        }
    }
    for (name, request) in requests {
        let huge_pages = name.starts_with(HUGE_PAGES);
        if huge_pages {
            used.insert(name.clone(), *request);
        }
        if huge_pages || is_extended(name) || name.starts_with(DEVICE_CLASS) {
            used.insert(format!("{REQUESTS}{name}"), *request);
        }
    }
    used
}

/// Whether a pod ends by itself at some time.
fn terminates(pod: &Value) -> bool {
    let deadline = pod.at(&["spec", "activeDeadlineSeconds"]).and_then(Value::as_int);
    deadline.is_some_and(|seconds| seconds >= 0)
}

/// Whether a pod still uses anything.
fn counts(pod: &Value, now: Time) -> bool {
    if matches!(pod.str_at(&["status", "phase"]), "Failed" | "Succeeded") {
        return false;
    }
    let deleted = pod.str_at(&["metadata", "deletionTimestamp"]).parse::<Time>().ok();
    let grace = pod.at(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_int);
    let (Some(deleted), Some(grace)) = (deleted, grace) else { return true };
    now.seconds <= deleted.seconds.saturating_add(grace)
}

fn crosses_namespaces(pod: &Value) -> bool {
    let crosses = |term: &Value| {
        !term.list_at(&["namespaces"]).is_empty() || term.at(&["namespaceSelector"]).is_some()
    };
    ["podAffinity", "podAntiAffinity"].into_iter().any(|kind| {
        let terms = |strength| pod.list_at(&["spec", "affinity", kind, strength]).iter();
        let weighted = terms("preferredDuringSchedulingIgnoredDuringExecution");
        let mut weighted = weighted.filter_map(|term| term.at(&["podAffinityTerm"]));
        terms("requiredDuringSchedulingIgnoredDuringExecution").any(crosses)
            || weighted.any(crosses)
    })
}
