//! Changes of a Service's slices: the fewest writes that make them right.

use std::collections::BTreeMap;
use std::sync::Arc;

use kevel_api::value::{Map, Value, equivalent};

use super::super::facts::{EndpointPod, map_at};
use super::super::slice::{
    EndpointSet, MANAGED_BY, PortKey, SERVICE_NAME, SliceChanges, endpoint_key, name_of, new_slice,
    port_key, same_endpoint, slice_port,
};
use super::super::{HEADLESS, is_headless};
use super::MANAGER;
use super::hints::set_hints;

/// Most endpoints of a slice (upstream: `--max-endpoints-per-slice`).
pub(super) const MAX_ENDPOINTS: usize = 100;
/// Labels of slices that do not come from their Service.
const RESERVED: [&str; 3] = [SERVICE_NAME, MANAGED_BY, HEADLESS];

/// Changes of the slices of one type of addresses, and pods that were left out.
#[derive(Debug, Default)]
pub(super) struct PlannedSlices {
    pub changes: SliceChanges,
    pub errors: Vec<String>,
}

/// Types of addresses of a Service.
pub(super) fn address_types(service: &Value) -> Vec<&'static str> {
    let families = service.list_at(&["spec", "ipFamilies"]);
    let has = |family: &str| families.iter().any(|found| found.as_str() == Some(family));
    let found: Vec<&str> = ["IPv4", "IPv6"].into_iter().filter(|family| has(family)).collect();
    if !found.is_empty() {
        return found;
    }
    if is_headless(service) {
        return vec!["IPv4", "IPv6"];
    }
    vec![if service.str_at(&["spec", "clusterIP"]).contains(':') { "IPv6" } else { "IPv4" }]
}

/// Whether a slice is of a Service, and not of an earlier one of the same name.
pub(super) fn is_owned(slice: &Value, service: &Value) -> bool {
    let uid = service.str_at(&["metadata", "uid"]);
    slice.list_at(&["metadata", "ownerReferences"]).iter().any(|owner| {
        owner.str_at(&["uid"]) == uid
            && owner.str_at(&["kind"]) == "Service"
            && owner.str_at(&["apiVersion"]) == "v1"
    })
}

/// Plans the changes of a Service's slices of one type of addresses. `zone` tells the zone of a node that exists.
pub(super) fn plan(
    service: &Value,
    pods: &[Arc<EndpointPod>],
    zone: &dyn Fn(&str) -> Option<Option<String>>,
    existing: &[Value],
    address_type: &'static str,
) -> PlannedSlices {
    let mut planned = PlannedSlices::default();
    let mut by_ports: BTreeMap<PortKey, Vec<&Value>> = BTreeMap::new();
    for slice in existing {
        if is_owned(slice, service) {
            by_ports.entry(port_key(slice.list_at(&["ports"]))).or_default().push(slice);
        } else {
            planned.changes.delete.push(slice.clone());
        }
    }
    let mut desired: BTreeMap<PortKey, (Vec<Value>, EndpointSet)> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| pod.is_endpoint(true)) {
        kevel_compute::charge(1);
        let ports = ports(service, pod);
        let (_, set) =
            desired.entry(port_key(&ports)).or_insert_with(|| (ports, EndpointSet::new()));
        let zone = zone(&pod.node);
        if zone.is_none() && !publishes_unready(service) {
            planned.errors.push(format!(
                "skipping Pod {} for Service {}/{}: Node {} Not Found",
                pod.name,
                service.str_at(&["metadata", "namespace"]),
                name_of(service),
                pod.node
            ));
            continue;
        }
        if let Some(endpoint) = endpoint(service, pod, zone.flatten(), address_type) {
            set.insert(endpoint_key(&endpoint), endpoint);
        }
    }
    for (key, (ports, set)) in desired {
        let slices = by_ports.remove(&key).unwrap_or_default();
        planned.changes.append(fill(service, &slices, set, &ports, address_type));
    }
    planned.changes.delete.extend(by_ports.into_values().flatten().cloned());
    keep_one(service, existing, &mut planned.changes, address_type);
    set_hints(service, existing, &mut planned.changes);
    planned
}

/// Makes an empty slice for a Service that would have none.
fn keep_one(service: &Value, existing: &[Value], changes: &mut SliceChanges, address_type: &str) {
    if existing.len() != changes.delete.len() || !changes.create.is_empty() {
        return;
    }
    let empty = new_slice(service, "Service", labels(service), &[], address_type);
    let same = |slice: &Value| {
        ["endpoints", "ports"].iter().all(|field| slice.list_at(&[field]).is_empty())
            && equivalent(slice.at(&["metadata", "labels"]), empty.at(&["metadata", "labels"]))
    };
    match changes.delete.as_slice() {
        [slice] if same(slice) => changes.delete.clear(),
        _ => changes.create.push(empty),
    }
}

fn publishes_unready(service: &Value) -> bool {
    service.at(&["spec", "publishNotReadyAddresses"]).and_then(Value::as_bool) == Some(true)
}

fn ports(service: &Value, pod: &EndpointPod) -> Vec<Value> {
    let ports = service.list_at(&["spec", "ports"]).iter();
    ports.filter_map(|port| Some(slice_port(port, pod.port(port)?))).collect()
}

/// Endpoint of a pod, if it has an address of the type.
fn endpoint(
    service: &Value,
    pod: &EndpointPod,
    zone: Option<String>,
    address_type: &str,
) -> Option<Value> {
    let of_type = pod.ips.iter().filter(|ip| ip.is_ipv6() == (address_type == "IPv6"));
    let addresses: Vec<Value> = of_type.map(|ip| ip.to_string().as_str().into()).collect();
    if addresses.is_empty() {
        return None;
    }
    let ready = publishes_unready(service) || (pod.ready && !pod.deleted);
    let conditions = Map::from_iter([
        ("ready", Value::Bool(ready)),
        ("serving", pod.ready.into()),
        ("terminating", pod.deleted.into()),
    ]);
    let mut endpoint = Map::from_iter([
        ("addresses", Value::List(addresses.into_iter().collect())),
        ("conditions", conditions.into()),
        ("targetRef", pod.target()),
    ]);
    let node = Some(pod.node.as_str()).filter(|node| !node.is_empty());
    for (field, value) in
        [("nodeName", node), ("zone", zone.as_deref()), ("hostname", pod.hostname_in(service))]
    {
        if let Some(value) = value {
            endpoint.insert(field, value.into());
        }
    }
    Some(endpoint.into())
}

/// Labels of a Service's slices.
pub(super) fn labels(service: &Value) -> Map {
    let mut labels = map_at(service, &["metadata", "labels"]);
    labels.retain(|key, _| !RESERVED.contains(&key));
    if is_headless(service) {
        labels.insert(HEADLESS, "".into());
    }
    labels.insert(SERVICE_NAME, name_of(service).into());
    labels.insert(MANAGED_BY, MANAGER.into());
    labels
}

/// Whether the labels that a slice has from its Service are those of the Service.
fn has_labels(slice: &Value, labels: &Map) -> bool {
    let plain = |mut labels: Map| {
        labels.retain(|key, _| !RESERVED.contains(&key));
        labels
    };
    plain(map_at(slice, &["metadata", "labels"])) == plain(labels.clone())
}

/// Changes of the slices with the same ports. Endpoints stay where they are; new ones go to slices that change anyway,
/// then to the one that they fill best, then to new slices.
fn fill(
    service: &Value,
    existing: &[&Value],
    mut desired: EndpointSet,
    ports: &[Value],
    address_type: &str,
) -> SliceChanges {
    let labels = labels(service);
    let mut changes = SliceChanges::default();
    let mut unchanged: Vec<&Value> = Vec::new();
    for slice in existing {
        let (kept, updated) = keep(slice, &mut desired);
        let relabelled = !has_labels(slice, &labels);
        if kept.is_empty() && !slice.list_at(&["endpoints"]).is_empty() {
            changes.delete.push((*slice).clone());
        } else if updated || relabelled {
            let mut changed = (*slice).clone();
            if updated {
                *changed.make_list(&[], "endpoints") = kept.into_iter().collect();
            }
            *changed.make_map(&["metadata", "labels"]) = labels.clone();
            changes.update.push(changed);
        } else {
            unchanged.push(slice);
        }
    }
    changes.update.sort_by_key(|slice| std::cmp::Reverse(slice.list_at(&["endpoints"]).len()));
    changes.update.iter_mut().for_each(|slice| pour(&mut desired, slice));
    while !desired.is_empty() {
        if let Some(at) = best(&unchanged, desired.len()) {
            let mut slice = unchanged.remove(at).clone();
            pour(&mut desired, &mut slice);
            changes.update.push(slice);
        } else {
            let mut slice = new_slice(service, "Service", labels.clone(), ports, address_type);
            pour(&mut desired, &mut slice);
            changes.create.push(slice);
        }
    }
    changes
}

/// Endpoints of a slice that stay, in their desired state, and whether that differs from the slice.
fn keep(slice: &Value, desired: &mut EndpointSet) -> (Vec<Value>, bool) {
    let found = slice.list_at(&["endpoints"]);
    let (mut kept, mut updated) = (Vec::new(), false);
    for endpoint in found {
        kevel_compute::charge(1);
        if let Some(wanted) = desired.remove(&endpoint_key(endpoint)) {
            updated |= !same_endpoint(&wanted, endpoint);
            kept.push(wanted);
        }
    }
    updated |= kept.len() != found.len();
    (kept, updated)
}

/// Moves endpoints into a slice until it is full.
fn pour(desired: &mut EndpointSet, slice: &mut Value) {
    let endpoints = slice.make_list(&[], "endpoints");
    while endpoints.len() < MAX_ENDPOINTS
        && let Some((_, endpoint)) = desired.pop_first()
    {
        endpoints.push(endpoint);
    }
}

/// Slice that `count` more endpoints fill best, if they fit into one.
fn best(slices: &[&Value], count: usize) -> Option<usize> {
    if count >= MAX_ENDPOINTS {
        return None;
    }
    let room = |slice: &Value| {
        let room = MAX_ENDPOINTS.checked_sub(count + slice.list_at(&["endpoints"]).len());
        room.filter(|room| *room < MAX_ENDPOINTS)
    };
    let rooms = slices.iter().enumerate().filter_map(|(at, slice)| Some((room(slice)?, at)));
    rooms.min().map(|(_, at)| at)
}

#[cfg(test)]
mod tests;
