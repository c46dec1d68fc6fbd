//! Validation of the status of a pod.

use std::collections::{HashMap, HashSet};

use kevel_api::field_error::FieldError;
use kevel_api::ip;
use kevel_api::name;
use kevel_api::value::{Map, Value};

use super::{Options, annotations};
use crate::validation::Field;

const LISTS: [(&str, &str); 3] = [
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
];

const MAX_HEALTH_MESSAGE: usize = 4096;

pub fn check(pod: Field, old: Field) {
    let (metadata, old_metadata) = (pod.at("metadata"), old.at("metadata"));
    let any_cost = Options::of_pod(old).tolerates.deletion_cost;
    let (spec, old_spec) = (pod.at("spec"), old.at("spec"));
    annotations::update(metadata.at("annotations"), old_metadata.at("annotations"));
    annotations::check(metadata.at("annotations"), spec, any_cost);
    let (status, old) = (pod.at("status"), old.at("status"));
    conditions(status.at("conditions"));
    nominated_node(status.at("nominatedNodeName"), old.at("nominatedNodeName"), old_spec);
    let generation = status.at("observedGeneration");
    if generation.int() < 0 {
        generation.invalid("must be a non-negative integer");
    }
    status.at("qosClass").immutable(&old.at("qosClass"));
    for (statuses, containers) in LISTS {
        let of = (containers != "ephemeralContainers").then(|| old_spec.at(containers));
        transitions(status.at(statuses), old.at(statuses), of, old_spec);
    }
    resource_claims(status, spec);
    extended_resource_claim(status.at("extendedResourceClaimStatus"), spec);
    addresses(status.at("podIPs"), old.at("podIPs"));
    let hosts = status.at("hostIPs");
    if !hosts.is_empty() {
        let first = hosts.index(0);
        if first.at("ip").str() != status.at("hostIP").str() {
            first.at("ip").invalid("must be equal to `hostIP`");
        }
        addresses(hosts, old.at("hostIPs"));
    }
    let os = spec.at("os");
    for (statuses, _) in LISTS {
        status.at(statuses).items().for_each(|container| user(container, os));
    }
    for (statuses, containers) in LISTS {
        let known = first_by_name(spec.at(containers).list()).into_iter();
        let known = known.map(|(name, container)| (name, Asked::of(container))).collect();
        for container in status.at(statuses).items() {
            match containers {
                "ephemeralContainers" => none_allocated(container),
                _ => allocated_resources(container, &known),
            }
        }
    }
}

fn conditions(conditions: Field) {
    for condition in conditions.items() {
        let generation = condition.at("observedGeneration");
        if generation.int() < 0 {
            generation.invalid("must be a non-negative integer");
        }
        let ty = condition.at("type");
        if !matches!(ty.str(), "PodScheduled" | "Ready" | "Initialized") {
            condition.at("Type").with(ty.get()).label_name();
        }
    }
}

fn nominated_node(node: Field, old: Field, old_spec: Field) {
    if node.is_empty() || node.same(&old) {
        return;
    }
    node.object_name(name::name_is_dns_subdomain);
    if !old_spec.at("nodeName").is_empty() {
        node.forbidden("may not be set on pods that are already bound to a node");
    }
}

/// A terminated container may run again only if its restart policy allows it.
fn transitions(statuses: Field, old: Field, containers: Option<Field>, spec: Field) {
    if containers.is_some() && could_restart_all(spec) {
        return;
    }
    let ended = |status: Field| status.down("state.terminated").is_set();
    let running = first_by_name(statuses.list());
    let containers = first_by_name(containers.map(|list| list.list()).unwrap_or_default());
    for (index, before) in old.items().enumerate().filter(|(_, status)| ended(*status)) {
        let name = before.at("name").str();
        if running.get(name).is_none_or(|now| ended(statuses.with(Some(*now)))) {
            continue;
        }
        let container = containers.get(name).copied();
        let code = before.down("state.terminated.exitCode").int();
        let restarts = container.is_some_and(|container| {
            restarts(spec.with(Some(container)), spec.at("restartPolicy").str(), code)
        });
        if !restarts {
            let state = statuses.index(index);
            state.at("state").forbidden("may not be transitioned to non-terminated state");
        }
    }
}

/// Items by their names; of those that have the same, the first.
fn first_by_name(items: &[Value]) -> HashMap<&str, &Value> {
    items.iter().rev().map(|item| (item.str_at(&["name"]), item)).collect()
}

/// Whether some container's end restarts all of them.
fn could_restart_all(spec: Field) -> bool {
    let mut could = false;
    super::each_container(spec, |container| {
        let rules = container.at("restartPolicyRules").list();
        could |= rules.iter().any(|rule| rule.str_at(&["action"]) == "RestartAllContainers");
    });
    could
}

/// Whether a container is started again after it ended with a code.
fn restarts(container: Field, policy: &str, code: i64) -> bool {
    for rule in container.at("restartPolicyRules").items() {
        let codes = rule.at("exitCodes");
        let listed = codes.at("values").list().iter().any(|value| value.as_int() == Some(code));
        let applies = match codes.at("operator").str() {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        };
        if applies && rule.at("action").str() == "Restart" {
            return true;
        }
    }
    let own = container.at("restartPolicy").str();
    match if own.is_empty() { policy } else { own } {
        "OnFailure" => code != 0,
        "Never" => false,
        _ => true,
    }
}

fn resource_claims(status: Field, spec: Field) {
    let mut seen = HashSet::new();
    let known = spec.at("resourceClaims");
    let known: HashSet<&str> = known.list().iter().map(|c| c.str_at(&["name"])).collect();
    for claim in status.at("resourceClaimStatuses").items() {
        let name = claim.at("name");
        if !known.contains(name.str()) {
            name.invalid_as(name.str(), "must match the name of an entry in `spec.resourceClaims`");
        }
        name.unique(&mut seen, name.str());
        if claim.at("resourceClaimName").is_set() {
            claim.at("resourceClaimName").object_name(name::name_is_dns_subdomain);
        }
    }
}

fn extended_resource_claim(claim: Field, spec: Field) {
    if claim.is_absent() {
        return;
    }
    let mappings = claim.at("requestMappings");
    mappings.must("at least one request mapping is required");
    let mut seen = HashSet::new();
    let lists = ["initContainers", "containers"].map(|list| spec.at(list).list());
    let known: HashMap<&str, &Value> =
        lists.into_iter().flat_map(|list| first_by_name(list)).collect();
    for mapping in mappings.items() {
        let (container, resource) = (mapping.at("containerName"), mapping.at("resourceName"));
        let request = mapping.at("requestName");
        let found = known.get(container.str());
        match found.map(|found| found.at(&["resources", "requests", resource.str()]).is_some()) {
            None => container.invalid(
                "must match the name of an entry in spec.initContainers.name or \
                 spec.containers.name",
            ),
            Some(false) => resource.invalid(
                "must match the extended resource name of an entry in \
                 spec.initContainers.resources.requests or spec.containers.resources.requests",
            ),
            Some(true) => {}
        }
        claim.at("requestName").with(request.get()).form(name::is_dns1123_label);
        let key = (container.str(), resource.str(), request.str());
        if !seen.insert(key) {
            [container, resource, request].iter().for_each(Field::duplicate);
        }
    }
    let name = claim.at("resourceClaimName");
    if name.must("") {
        name.object_name(name::name_is_dns_subdomain);
    }
}

/// At most one address of each family; those that were there before may be of an odd form.
fn addresses(list: Field, old: Field) {
    let known: HashSet<&str> = old.list().iter().map(|entry| entry.str_at(&["ip"])).collect();
    for entry in list.items() {
        let address = entry.at("ip").str();
        let strict = list.strict_ips() && !known.contains(address);
        entry.extend(ip::is_valid_ip_for_legacy_field(&entry.path(), address, strict));
    }
    let unreadable = |entry: &Field| kevel_api::ip::parse_ip_sloppy(entry.at("ip").str()).is_none();
    let bad = list.items().enumerate().find(|(_, entry)| unreadable(entry));
    if let Some((index, entry)) = bad.filter(|_| list.len() > 1) {
        let address = entry.at("ip").str();
        list.push(FieldError::internal(
            &list.path(),
            format!("failed to check for dual stack with error:invalid IP[{index}]: {address}"),
        ));
    }
    let six: Vec<bool> = list.items().map(|entry| entry.at("ip").str().contains(':')).collect();
    let dual = six.contains(&true) && six.contains(&false);
    if six.len() > 1 && (!dual || bad.is_some() || six.len() > 2) {
        list.invalid("may specify no more than one IP for each IP family");
    }
}

fn user(container: Field, os: Field) {
    let user = container.at("user");
    let linux = user.at("linux");
    match os.at("name").str() {
        "windows" if linux.is_set() => linux.forbidden("cannot be set for a windows pod"),
        "linux" | "" if linux.is_set() => {
            linux.at("uid").in_range(0, i64::from(i32::MAX));
            linux.at("gid").in_range(0, i64::from(i32::MAX));
            linux.at("supplementalGroups").items().for_each(|group| group.user_or_group());
        }
        _ => {}
    }
}

fn none_allocated(status: Field) {
    let allocated = status.at("allocatedResourcesStatus");
    if !allocated.is_empty() {
        allocated.forbidden("must not be specified in container status");
    }
}

/// The health of the devices that a container was given.
fn allocated_resources(status: Field, containers: &HashMap<&str, Asked>) {
    let allocated = status.at("allocatedResourcesStatus");
    let asked = containers.get(status.at("name").str());
    for resource in allocated.items() {
        let name = resource.at("name");
        if let Some(asked) = asked {
            asked.check(name);
        }
        let mut seen = HashSet::new();
        for device in resource.at("resources").items() {
            device.at("health").one_of(&["Healthy", "Unhealthy", "Unknown"]);
            let message = device.at("message");
            if message.is_set() {
                message.must("must be non-empty if specified");
            }
            if message.len() > MAX_HEALTH_MESSAGE {
                message.too_long(MAX_HEALTH_MESSAGE);
            }
            device.at("resourceID").unique(&mut seen, device.at("resourceID").str());
        }
    }
}

/// Resource claims that a container requests by name.
struct Asked<'v> {
    requests: Option<&'v Map>,
    /// `claim` or `claim/request`
    claims: HashSet<String>,
}

impl<'v> Asked<'v> {
    fn of(container: &'v Value) -> Self {
        let claims = container.list_at(&["resources", "claims"]).iter();
        let claims =
            claims.map(|claim| match (claim.str_at(&["name"]), claim.str_at(&["request"])) {
                (name, "") => name.to_owned(),
                (name, request) => format!("{name}/{request}"),
            });
        let requests = container.at(&["resources", "requests"]).and_then(Value::as_map);
        Asked { requests, claims: claims.collect() }
    }

    fn check(&self, name: Field) {
        match name.str().strip_prefix("claim:") {
            Some(claim) if self.claims.contains(claim) => {}
            Some(_) => name.invalid(
                "must match one of the container's resource claims in a format \
                 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty",
            ),
            None if self.requests.is_some_and(|requests| requests.contains_key(name.str())) => {}
            None => name.invalid("must match one of the container's resource requests"),
        }
    }
}
