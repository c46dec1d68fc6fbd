//! Validation of resource requests, limits and claims.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use kevel_api::field_error::{BadValue, FieldError, FieldErrorKind};
use kevel_api::name;
use kevel_api::quantity::Quantity;
use kevel_api::value::Value;

use super::Options;
use crate::validation::Field;

/// Names in a pod's `resourceClaims`.
pub type Claims<'v> = BTreeSet<&'v str>;

/// Standard resource names, which have no domain.
const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Resources whose amounts must be integers.
const COUNTED: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

const HUGE_PAGES: &str = "hugepages-";

/// Checks the resources of a container.
pub fn container(resources: Field, claims: &Claims, options: &Options) {
    if resources.is_set() {
        requirements(resources, container_resource_name, claims, options);
    }
}

/// Checks pod-level resources.
pub fn pod(spec: Field, claims: &Claims, options: &Options) {
    let resources = spec.at("resources");
    if resources.is_absent() {
        return;
    }
    if spec.at("os").at("name").str() == "windows" {
        return resources.forbidden("may not be set for a windows pod");
    }
    if resources.at("claims").is_set() {
        resources.at("claims").forbidden("claims may not be set for Resources at pod-level");
    }
    requirements(resources, pod_resource_name, claims, options);
    consistent(spec, resources);
}

/// Checks a pod's overhead.
pub fn overhead(overhead: Field, options: &Options) {
    let limits = overhead.at("limits");
    amounts(limits.with(overhead.get()), container_resource_name, options);
    huge_pages_alone(overhead, overhead.keys());
}

fn huge_pages_alone<'v>(field: Field, mut names: impl Iterator<Item = &'v str> + Clone) {
    let huge = names.clone().any(|name| name.starts_with(HUGE_PAGES));
    if huge && !names.any(|name| matches!(name, "cpu" | "memory")) {
        field.forbidden("HugePages require cpu or memory");
    }
}

fn requirements(resources: Field, name: fn(Field, &str), claims: &Claims, options: &Options) {
    let (limits, requests) = (resources.at("limits"), resources.at("requests"));
    amounts(limits, name, options);
    for (resource, request) in requests.entries() {
        amount(request, resource, name);
        let Some(asked) = request.quantity() else { continue };
        let overcommitted = is_native(resource) && !resource.starts_with(HUGE_PAGES);
        match limits.key(resource).quantity() {
            Some(limit) if asked != limit && !overcommitted => {
                let why = format!("must be equal to {resource} limit of {limit}");
                requests.invalid_as(asked.to_string(), why);
            }
            Some(limit) if asked > limit => {
                let why = format!("must be less than or equal to {resource} limit of {limit}");
                requests.invalid_as(asked.to_string(), why);
            }
            Some(_) => {}
            None if !overcommitted => {
                limits.required("Limit must be set for non overcommitable resources");
            }
            None => {}
        }
        huge_pages(request, resource, options);
    }
    huge_pages_alone(resources, limits.keys().chain(requests.keys()));
    claim_names(resources.at("claims"), claims);
}

fn amounts(list: Field, name: fn(Field, &str), options: &Options) {
    for (resource, field) in list.entries() {
        amount(field, resource, name);
        huge_pages(field, resource, options);
    }
}

fn amount(field: Field, resource: &str, name: fn(Field, &str)) {
    name(field, resource);
    quantity(field, resource);
}

/// Checks an amount: not negative, and an integer for countable and extended resources.
pub fn quantity(field: Field, resource: &str) {
    field.non_negative_quantity();
    let Some(amount) = field.quantity() else { return };
    let counted = COUNTED.contains(&resource) || is_extended(resource);
    if counted && !amount.is_whole() {
        field.invalid_as(BadValue::named_string(&field.quantity_text()), "must be an integer");
    }
}

fn huge_pages(field: Field, resource: &str, options: &Options) {
    let Some(size) = resource.strip_prefix(HUGE_PAGES) else { return };
    let Some(amount) = field.quantity() else { return };
    if !options.tolerates.huge_pages && !divides(size, amount) {
        let shown = field.quantity_text();
        let why = format!("{shown} is not positive integer multiple of {resource}");
        field.invalid_as(shown, why);
    }
}

/// True if a container requests a fraction of a huge page.
pub fn has_broken_huge_pages(spec: Field) -> bool {
    let mut broken = false;
    super::each_container(spec, |container| {
        let resources = container.at("resources");
        for list in ["limits", "requests"] {
            for (name, amount) in resources.at(list).entries() {
                broken |= amount.fails(|amount| huge_pages(amount, name, &Options::default()));
            }
        }
    });
    broken
}

fn divides(size: &str, amount: Quantity) -> bool {
    let Ok(size) = size.parse::<Quantity>() else { return false };
    let whole = size.signum() > 0 && size.milli_value() % 1000 == 0;
    whole && size.value() != 0 && amount.value() % size.value() == 0
}

/// Checks a resource name: a standard one, or one with a domain.
pub fn resource_name(field: Field, resource: &str) {
    let problems = name::is_label_key(resource);
    let shown = || BadValue::named_string(resource);
    if !problems.is_empty() {
        return problems.into_iter().for_each(|problem| field.invalid_as(shown(), problem));
    }
    let known = STANDARD.contains(&resource) || is_quota_huge_page(resource);
    if !resource.contains('/') && !known {
        field.invalid_as(shown(), "must be a standard resource type or fully qualified");
    }
}

pub fn is_quota_huge_page(resource: &str) -> bool {
    resource.strip_prefix("requests.").unwrap_or(resource).starts_with(HUGE_PAGES)
}

/// Checks a resource name in a container.
pub fn container_resource_name(field: Field, resource: &str) {
    resource_name(field, resource);
    let shown = || BadValue::named_string(resource);
    if !resource.contains('/') {
        let known = matches!(resource, "cpu" | "memory" | "ephemeral-storage");
        if !known && !resource.starts_with(HUGE_PAGES) {
            field.invalid_as(shown(), "must be a standard resource for containers");
        }
    } else if !is_native(resource) && !is_extended(resource) {
        field.invalid_as(shown(), "doesn't follow extended resource name standard");
    }
}

fn pod_resource_name(field: Field, resource: &str) {
    let before = field.found();
    resource_name(field, resource);
    let known = matches!(resource, "cpu" | "memory") || resource.starts_with(HUGE_PAGES);
    if field.found() == before && !known {
        field.unsupported_as(BadValue::named_string(resource), &["cpu", "hugepages-", "memory"]);
    }
}

/// True for native resources: without a domain, or in `kubernetes.io`.
pub fn is_native(resource: &str) -> bool {
    !resource.contains('/') || resource.contains("kubernetes.io/")
}

/// True for extended resources.
pub fn is_extended(resource: &str) -> bool {
    !is_native(resource)
        && !resource.starts_with("requests.")
        && name::is_label_key(&format!("requests.{resource}")).is_empty()
}

/// Checks a container's claims: claims of the pod, each named once, as a whole or by request.
fn claim_names(claims: Field, known: &Claims) {
    let mut seen: HashSet<(&str, &str)> = HashSet::new();
    // Number of requests named of each claim.
    let mut parts: HashMap<&str, usize> = HashMap::new();
    for claim in claims.items() {
        let (name, request) = (claim.at("name").str(), claim.at("request"));
        if name.is_empty() {
            claim.required("");
            continue;
        }
        if seen.contains(&(name, "")) {
            claim.duplicate_as(name);
        } else {
            if !request.is_empty() {
                request.form(name::is_dns1123_label);
            }
            let key = (name, request.str());
            if seen.contains(&key) {
                claim.duplicate_as(format!("{name}/{}", request.str()));
            } else if request.is_empty() {
                let times = parts.get(name).copied().unwrap_or_default();
                (0..times).for_each(|_| claim.duplicate_as(name));
            }
            seen.insert(key);
            *parts.entry(name).or_default() += 1;
        }
        if !known.contains(name) {
            claim.add(|| {
                let names: Vec<&str> = known.iter().copied().collect();
                let which = match names.is_empty() {
                    true => " which is empty".to_owned(),
                    false => format!(": {}", names.join(", ")),
                };
                let why = format!("must be one of the names in pod.spec.resourceClaims{which}");
                FieldError::new(FieldErrorKind::NotFound, &claim.path(), name, why)
            });
        }
    }
}

/// Checks pod-level resources against the containers: requests cover their sum, and limits each container's limit.
fn consistent(spec: Field, resources: Field) {
    let requests = resources.at("requests");
    for (resource, wanted) in aggregate(spec, "requests") {
        let field = requests.key(resource);
        match field.quantity() {
            Some(asked) if wanted > asked => field.invalid_as(
                asked.to_string(),
                format!(
                    "must be greater than or equal to aggregate container requests of {wanted}"
                ),
            ),
            _ => {}
        }
    }
    let limits = resources.at("limits");
    for (resource, wanted) in aggregate(spec, "limits") {
        let field = limits.key(resource);
        match field.quantity() {
            Some(limit) if resource.starts_with(HUGE_PAGES) && wanted > limit => field.invalid_as(
                limit.to_string(),
                format!("must be greater than or equal to aggregate container limits of {wanted}"),
            ),
            _ => {}
        }
    }
    let called = resources.at("containers");
    for (index, container) in spec.at("containers").items().enumerate() {
        for (resource, limit) in container.at("resources").at("limits").entries() {
            let (Some(own), Some(whole)) = (limit.quantity(), limits.key(resource).quantity())
            else {
                continue;
            };
            if own > whole {
                let why = format!("must be less than or equal to pod limits of {whole}");
                let place = called.index(index);
                place.key(resource).at("limits").invalid_as(own.to_string(), why);
            }
        }
    }
}

/// Adds an amount to a sum, and returns the sum.
fn add<'v>(sums: &mut BTreeMap<&'v str, Quantity>, name: &'v str, amount: Quantity) -> Quantity {
    *sums.entry(name).and_modify(|sum| *sum += amount).or_insert(amount)
}

/// Sum of the containers' amounts, counting those that run at the same time.
fn aggregate<'v>(spec: Field<'v, '_>, list: &str) -> BTreeMap<&'v str, Quantity> {
    let amounts = |container: &'v Value| {
        let amounts = container.at(&["resources", list]).and_then(Value::as_map);
        let amounts = amounts.into_iter().flat_map(|map| map.iter());
        let parse = |value: &Value| value.as_str().and_then(|text| text.parse::<Quantity>().ok());
        amounts.filter_map(move |(name, value)| Some((name, parse(value)?)))
    };
    let mut together: BTreeMap<&str, Quantity> = BTreeMap::new();
    for (name, amount) in spec.at("containers").list().iter().flat_map(amounts) {
        add(&mut together, name, amount);
    }
    let mut sidecars: BTreeMap<&str, Quantity> = BTreeMap::new();
    let mut peaks: BTreeMap<&str, Quantity> = BTreeMap::new();
    for container in spec.at("initContainers").list() {
        let sidecar = container.str_at(&["restartPolicy"]) == "Always";
        // A restartable init container is in `sidecars` already.
        for (name, amount) in amounts(container) {
            let now = match sidecar {
                true => {
                    add(&mut together, name, amount);
                    add(&mut sidecars, name, amount)
                }
                false => {
                    let mut sum = amount;
                    sum += sidecars.get(name).copied().unwrap_or_default();
                    sum
                }
            };
            let peak = peaks.entry(name).or_insert(now);
            *peak = (*peak).max(now);
        }
    }
    for (name, peak) in peaks {
        let sum = together.entry(name).or_insert(peak);
        *sum = (*sum).max(peak);
    }
    together
}
