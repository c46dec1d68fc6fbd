//! Kind EndpointSlice: strategy and validation.

use std::collections::HashSet;

use kevel_api::field_error::{FieldError, Path};
use kevel_api::ip::{ip_warnings, is_valid_ip};
use kevel_api::name;
use kevel_api::value::Value;
use kevel_api::warning::WarningList;
use kevel_registry::metadata::count_generation;

use super::address::{endpoint_ip, is_ipv4, is_ipv6, legacy_ip};
use super::validation::PROTOCOLS;
use crate::capabilities::Capabilities;
use crate::columns;
use crate::kind::{Kind, MetadataChecks};
use crate::rules::Rules;
use crate::validation::{Field, IMMUTABLE};

/// `endpointslices`
pub static KIND: Kind = Kind {
    counts_generation: true,
    columns: columns::discovery::ENDPOINT_SLICE,
    rules: Rules {
        prepare_for_create: |slice, _| drop_topology(slice, None),
        validate_create,
        prepare_for_update,
        validate_update,
        warnings,
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::Meta,
    ..Kind::new("discovery.k8s.io", "endpointslices")
};

const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;
const MAX_TOPOLOGY_LABELS: usize = 16;
const MAX_HINTS: usize = 8;

const HOST_NAME: &str = "kubernetes.io/hostname";

fn prepare_for_update(slice: &mut Value, old: &Value, _: &Capabilities) {
    // Changed labels and changed deprecated topology, though it is dropped, raise the generation: consumers select by
    // labels.
    let labels = |slice: &Value| slice.at(&["metadata", "labels"]).cloned();
    let changed = labels(slice) != labels(old) || topologies(slice) != topologies(old);
    drop_topology(slice, Some(old));
    if changed {
        count_generation(slice, old);
    }
}

/// `deprecatedTopology` of each endpoint.
fn topologies(slice: &Value) -> Vec<Option<&Value>> {
    let is_empty = |topology: &Value| topology.as_map().is_none_or(|map| map.is_empty());
    let endpoints = slice.list_at(&["endpoints"]).iter();
    let topology = |endpoint| Value::at(endpoint, &["deprecatedTopology"]);
    endpoints.map(|endpoint| topology(endpoint).filter(|found| !is_empty(found))).collect()
}

/// Drops `deprecatedTopology`, which can no longer be written. An endpoint whose node is named only there keeps its
/// node name.
fn drop_topology(slice: &mut Value, old: Option<&Value>) {
    let endpoints = |slice: &Value| slice.at(&["endpoints"]).cloned();
    if old.is_some_and(|old| endpoints(old) == endpoints(slice)) {
        return;
    }
    let named = |endpoint: &Value| endpoint.str_at(&["deprecatedTopology", HOST_NAME]).to_owned();
    let before = old.and_then(|old| old.at(&["endpoints"])).and_then(Value::as_list);
    let known: HashSet<String> =
        before.unwrap_or_default().iter().map(named).filter(|name| !name.is_empty()).collect();
    let list = slice.at_mut(&["endpoints"]).and_then(Value::as_list_mut);
    for endpoint in list.into_iter().flatten() {
        let name = named(endpoint);
        let Some(endpoint) = endpoint.as_map_mut() else { continue };
        let valid = known.contains(&name) && name::name_is_dns_subdomain(&name, false).is_empty();
        if !endpoint.contains_key("nodeName") && valid {
            endpoint.insert("nodeName", name.as_str().into());
        }
        endpoint.remove("deprecatedTopology");
    }
}

fn validate_create(slice: Field) {
    let ty = slice.at("addressType");
    ty.must_one_of("", &["FQDN", "IPv4", "IPv6"]);
    check_ports(&slice.at("ports"));
    check_endpoints(&slice.at("endpoints"), ty.str());
}

/// Checks endpoints only if they change: stored ones may be invalid by today's rules.
fn validate_update(slice: Field, old: Field) {
    let (ty, endpoints) = (slice.at("addressType"), slice.at("endpoints"));
    ty.must_one_of("", &["FQDN", "IPv4", "IPv6"]);
    check_ports(&slice.at("ports"));
    if !endpoints.same(&old.at("endpoints")) {
        check_endpoints(&endpoints, ty.str());
    }
    if ty.str() != old.at("addressType").str() {
        ty.invalid_as(ty.bad_value_as_json(), IMMUTABLE);
    }
}

fn check_ports(ports: &Field) {
    if ports.len() > MAX_PORTS {
        return ports.too_many(ports.len(), MAX_PORTS);
    }
    let mut names = HashSet::new();
    for port in ports.items() {
        let (name, protocol) = (port.at("name"), port.at("protocol"));
        if !name.is_empty() {
            name.form(name::is_dns1123_label);
        }
        if !names.insert(name.str()) {
            name.duplicate_as(name.str());
        }
        match protocol.is_absent() {
            true => protocol.required(""),
            false => protocol.one_of(PROTOCOLS),
        }
        let application = port.at("appProtocol");
        if application.is_set() {
            application.form(name::is_label_key);
        }
    }
}

fn check_endpoints(endpoints: &Field, ty: &str) {
    if endpoints.len() > MAX_ENDPOINTS {
        return endpoints.too_many(endpoints.len(), MAX_ENDPOINTS);
    }
    for endpoint in endpoints.items() {
        check_addresses(&endpoint.at("addresses"), ty);
        let node = endpoint.at("nodeName");
        if node.is_set() {
            node.object_name(name::name_is_dns_subdomain);
        }
        let topology = endpoint.at("deprecatedTopology");
        if topology.len() > MAX_TOPOLOGY_LABELS {
            topology.too_many(topology.len(), MAX_TOPOLOGY_LABELS);
        }
        topology.labels();
        let host = endpoint.at("hostname");
        if host.is_set() {
            host.form(name::is_dns1123_label);
        }
        check_hints(&endpoint.at("hints"));
    }
}

fn check_addresses(addresses: &Field, ty: &str) {
    if addresses.is_empty() {
        addresses.required("must contain at least 1 address");
    } else if addresses.len() > MAX_ADDRESSES {
        addresses.too_many(addresses.len(), MAX_ADDRESSES);
    }
    let is_of = if ty == "IPv6" { is_ipv6 } else { is_ipv4 };
    for address in addresses.items() {
        let valid = match ty {
            "IPv4" => legacy_ip(&address, &HashSet::new()),
            "IPv6" => {
                let errors = is_valid_ip(&address.path(), address.str());
                let valid = errors.is_empty();
                address.extend(errors);
                valid
            }
            "FQDN" => {
                let path = address.path();
                address.extend(name::is_fully_qualified_domain_name(&path, address.str()));
                false
            }
            _ => false,
        };
        if !valid {
            continue;
        }
        if !is_of(address.str()) {
            let why = format!("must be an {ty} address");
            addresses.push(FieldError::invalid(&addresses.path(), address.str(), why));
        }
        endpoint_ip(&address);
    }
}

fn check_hints(hints: &Field) {
    let (zones, nodes) = (hints.at("forZones"), hints.at("forNodes"));
    if check_names(&zones, name::is_label_value) {
        check_names(&nodes, |node| name::name_is_dns_subdomain(node, false));
    }
}

/// Checks names for form and duplicates; `false` if the list is too long to be checked.
fn check_names(list: &Field, problems: fn(&str) -> Vec<String>) -> bool {
    if list.len() > MAX_HINTS {
        list.too_many(list.len(), MAX_HINTS);
        return false;
    }
    let mut names = HashSet::new();
    for hint in list.items() {
        let name = hint.at("name");
        if !names.insert(name.str()) {
            name.duplicate_as(name.str());
        }
        name.form(problems);
    }
    true
}

fn warnings(slice: &Value, old: Option<&Value>) -> Vec<String> {
    const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
    /// Controllers that only write canonical addresses.
    const CONTROLLERS: [&str; 2] =
        ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];
    let mut warnings = WarningList::default();
    if old.is_none() && slice.str_at(&["addressType"]) == "FQDN" {
        warnings.add("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    if CONTROLLERS.contains(&slice.str_at(&["metadata", "labels", MANAGED_BY])) {
        return warnings.into_said();
    }
    let root = Path::new("endpoints");
    let endpoints = slice.at(&["endpoints"]).and_then(Value::as_list).unwrap_or_default();
    for (index, endpoint) in endpoints.iter().enumerate() {
        let path = root.index(index);
        let path = path.child("addresses");
        let list = endpoint.at(&["addresses"]).and_then(Value::as_list).unwrap_or_default();
        for (index, address) in list.iter().filter_map(Value::as_str).enumerate() {
            warnings.extend(ip_warnings(&path.index(index), address));
        }
    }
    warnings.into_said()
}
