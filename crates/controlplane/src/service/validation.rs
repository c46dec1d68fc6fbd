//! Validation of Services.

use std::collections::HashSet;

use kevel_api::field_error::{BadValue, FieldError};
use kevel_api::name;

use super::address::{endpoint_ip, is_ipv4, is_ipv6, known, legacy_cidr, legacy_ip};
use super::cluster_ips;
use super::spec::NONE;
use kevel_api::value::Value;
use kevel_features::Feature;

use crate::validation::{Field, IMMUTABLE};

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const TRAFFIC_POLICIES: &[&str] = &["Cluster", "Local"];
const DISTRIBUTIONS: &[&str] = &["PreferClose", "PreferSameZone", "PreferSameNode"];
pub const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

const ONLY_LOAD_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";
pub const FIXED: &str = "may not change once set";

/// Maximum `timeoutSeconds` of session affinity.
const MAX_AFFINITY: i64 = 86_400;

pub fn validate_create(service: Field) {
    let relaxed = service.capabilities().features.has(Feature::RelaxedServiceNameValidation);
    let name = service.down("metadata.name");
    if !relaxed && name::name_is_dns_label(name.str(), false).is_empty() {
        name.object_name(name::name_is_dns1035_label);
    }
    check(&service, &service.with(None));
}

pub fn validate_update(service: Field, old: Field) {
    let (spec, before) = (service.at("spec"), old.at("spec"));
    if spec.at("type").str() != "ExternalName" && before.at("type").str() != "ExternalName" {
        cluster_ips::check_change(&spec, &before);
    }
    let (class, class_before) = (spec.at("loadBalancerClass"), before.at("loadBalancerClass"));
    let balanced = |spec: &Field| spec.at("type").str() == "LoadBalancer";
    if balanced(&spec) && balanced(&before) && class.get() != class_before.get() {
        class.invalid_as(class.bad_value_by_type(), FIXED);
    }
    load_balancer_class(&spec);
    let (port, port_before) = (spec.at("healthCheckNodePort"), before.at("healthCheckNodePort"));
    let checked = needs_health_check(&spec) && needs_health_check(&before);
    if checked && port.int() != port_before.int() {
        port.forbidden(IMMUTABLE);
    }
    check(&service, &old);
}

pub fn validate_status_update(service: Field, old: Field) {
    let status = service.at("status");
    let balancer = status.at("loadBalancer");
    let points = balancer.at("ingress");
    let ty = service.at("spec").at("type").str();
    if ty != "LoadBalancer" && !points.is_empty() {
        return points.forbidden("may only be used when `spec.type` is 'LoadBalancer'");
    }
    let before: HashSet<&str> = old
        .at("status")
        .at("loadBalancer")
        .at("ingress")
        .list()
        .iter()
        .map(|point| point.str_at(&["ip"]))
        .collect();
    for point in points.items() {
        let (ip, mode, host) = (point.at("ip"), point.at("ipMode"), point.at("hostname"));
        if !ip.is_empty() {
            legacy_ip(&ip, &before);
        }
        match (mode.is_set(), ip.is_empty()) {
            (false, false) => mode.required("must be specified when `ip` is set"),
            (true, true) => mode.forbidden("may not be specified when `ip` is not set"),
            (true, false) => mode.one_of(&["Proxy", "VIP"]),
            (false, true) => {}
        }
        if !host.is_empty() {
            host.form(name::is_dns1123_subdomain);
            if is_ipv4(host.str()) || is_ipv6(host.str()) {
                host.invalid_as(host.str(), "must be a DNS name, not an IP address");
            }
        }
    }
}

fn check(service: &Field, old: &Field) {
    let metadata = service.at("metadata");
    let annotations = metadata.at("annotations");
    let (mode, hints) = (annotations.key(TOPOLOGY_MODE), annotations.key(TOPOLOGY_HINTS));
    if mode.is_set() && hints.is_set() && mode.str() != hints.str() {
        let why = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        mode.invalid_as(mode.str(), why);
    }
    let (spec, before) = (service.at("spec"), old.at("spec"));
    let ty = spec.at("type");
    let ports = spec.at("ports");
    if ports.is_empty() && !is_headless(&spec) && ty.str() != "ExternalName" {
        ports.required("");
    }
    by_type(&spec);
    let mut names = HashSet::new();
    ports.items().for_each(|port| check_port(&port, ports.len() > 1, &mut names));
    spec.at("selector").labels();
    session_affinity(&spec);
    cluster_ips::check(&spec, &before);
    let known = known(&before.at("externalIPs"));
    for ip in spec.at("externalIPs").items() {
        if legacy_ip(&ip, &known) {
            endpoint_ip(&ip);
        }
    }
    ty.must_one_of("", TYPES);
    node_ports(&spec);
    duplicate_ports(&spec);
    source_ranges(service, old);
    let allocates = spec.at("allocateLoadBalancerNodePorts");
    if allocates.is_set() && ty.str() != "LoadBalancer" {
        allocates.forbidden(ONLY_LOAD_BALANCER);
    }
    if allocates.is_absent() && ty.str() == "LoadBalancer" {
        service.at("allocateLoadBalancerNodePorts").required("");
    }
    load_balancer_class(&spec);
    traffic(&spec);
}

/// Checks rules that depend on the type.
fn by_type(spec: &Field) {
    let (ips, families) = (spec.at("clusterIPs"), spec.at("ipFamilies"));
    let policy = spec.at("ipFamilyPolicy");
    let ty = spec.at("type").str();
    match ty {
        "LoadBalancer" | "NodePort" if is_headless(spec) => {
            if let Some(first) = ips.items().next() {
                first.invalid(format!("may not be set to 'None' for {ty} services"));
            }
        }
        "ExternalName" => {
            let why = "may not be set for ExternalName services";
            for field in [&ips, &families, &policy] {
                if !field.is_empty() {
                    field.forbidden(why);
                }
            }
            let external = spec.at("externalName");
            let name = external.str().strip_suffix('.').unwrap_or(external.str());
            if name.is_empty() {
                external.required("");
            }
            if !name.is_empty() {
                for problem in name::is_dns1123_subdomain(name) {
                    external.invalid_as(name, problem);
                }
            }
        }
        _ => {}
    }
}

fn check_port<'v>(port: &Field<'v, '_>, many: bool, names: &mut HashSet<&'v str>) {
    let name = port.at("name");
    if name.is_empty() && many {
        name.required("");
    }
    if !name.is_empty() {
        name.form(name::is_dns1123_label);
        if !names.insert(name.str()) {
            name.duplicate();
        }
    }
    port.at("port").in_range(1, 65_535);
    port.at("protocol").must_one_of("", PROTOCOLS);
    port.at("targetPort").port_or_name();
    let application = port.at("appProtocol");
    if application.is_set() {
        application.form(name::is_label_key);
    }
}

fn session_affinity(spec: &Field) {
    let (affinity, config) = (spec.at("sessionAffinity"), spec.at("sessionAffinityConfig"));
    affinity.must_one_of("", &["ClientIP", "None"]);
    match affinity.str() {
        "ClientIP" => {
            let client = config.at("clientIP");
            let timeout = client.at("timeoutSeconds");
            let missing = [&config, &client, &timeout].into_iter().find(|field| field.is_absent());
            if let Some(missing) = missing {
                missing.required("when session affinity type is ClientIP");
            } else if !(1..=MAX_AFFINITY).contains(&timeout.int()) {
                let why = format!("must be greater than 0 and less than {MAX_AFFINITY}");
                timeout.invalid_as(timeout.int(), why);
            }
        }
        "None" if config.is_set() => {
            config.forbidden("must not be set when session affinity is None");
        }
        _ => {}
    }
}

fn node_ports(spec: &Field) {
    let ports = spec.at("ports");
    if spec.at("type").str() == "ClusterIP" {
        for port in ports.items().filter(|port| port.at("nodePort").int() != 0) {
            port.at("nodePort").forbidden("may not be used when `type` is 'ClusterIP'");
        }
    }
    let mut seen = HashSet::new();
    for port in ports.items() {
        let node_port = port.at("nodePort");
        let key = (port.at("protocol").str(), node_port.int());
        if node_port.int() != 0 && !seen.insert(key) {
            node_port.duplicate();
        }
    }
}

fn duplicate_ports(spec: &Field) {
    let ports = spec.at("ports");
    let mut seen = HashSet::new();
    for port in ports.items() {
        let (protocol, number) = (port.at("protocol").str(), port.at("port").int());
        if !seen.insert((protocol, number)) {
            // The reference shows only the compared fields as the bad value.
            let key = [("protocol", protocol.into()), ("port", number.into())];
            let key = Value::Map(key.into_iter().collect());
            port.duplicate_as(port.with(Some(&key)).bad_value());
        }
    }
}

/// Checks `loadBalancerSourceRanges`, or the annotation that preceded it.
fn source_ranges(service: &Field, old: &Field) {
    let (spec, before) = (service.at("spec"), old.at("spec"));
    let balanced = spec.at("type").str() == "LoadBalancer";
    // The reference capitalizes the field's name here.
    let ranges = spec.at("loadBalancerSourceRanges");
    let path = spec.path();
    let ranges = ranges.named(path.child("LoadBalancerSourceRanges"));
    if !ranges.is_empty() {
        if !balanced {
            ranges.forbidden(ONLY_LOAD_BALANCER);
        }
        let known: HashSet<&str> = before
            .at("loadBalancerSourceRanges")
            .list()
            .iter()
            .filter_map(|old| old.as_str().map(str::trim))
            .collect();
        for range in ranges.items().filter(|range| !known.contains(range.str().trim())) {
            legacy_cidr(&range, range.str().trim());
        }
        return;
    }
    let (metadata, old) = (service.at("metadata"), old.at("metadata"));
    let (annotations, old) = (metadata.at("annotations"), old.at("annotations"));
    let annotation = annotations.key(SOURCE_RANGES);
    if annotation.is_absent() {
        return;
    }
    if !balanced {
        annotation.forbidden(ONLY_LOAD_BALANCER);
    }
    let value = annotation.str().trim();
    if annotation.get() != old.key(SOURCE_RANGES).get() && !value.is_empty() {
        value.split(',').for_each(|range| legacy_cidr(&annotation, range.trim()));
    }
}

fn load_balancer_class(spec: &Field) {
    let class = spec.at("loadBalancerClass");
    match spec.at("type").str() {
        _ if class.is_absent() => {}
        "LoadBalancer" => class.form(name::is_label_key),
        _ => class.forbidden(ONLY_LOAD_BALANCER),
    }
}

fn traffic(spec: &Field) {
    let external = spec.at("externalTrafficPolicy");
    if is_externally_accessible(spec) {
        external.must_one_of("", TRAFFIC_POLICIES);
    } else if !external.is_empty() {
        let value = BadValue::named_string(external.str());
        external.invalid_as(value, "may only be set for externally-accessible services");
    }
    let health = spec.at("healthCheckNodePort");
    match (needs_health_check(spec), health.int()) {
        (true, 0) => health.required(""),
        (true, _) => health.in_range(1, 65_535),
        (false, 0) => {}
        (false, _) => health.invalid(
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        ),
    }
    let internal = spec.at("internalTrafficPolicy");
    let ty = spec.at("type").str();
    if internal.is_set() {
        internal.one_of(TRAFFIC_POLICIES);
    } else if matches!(ty, "ClusterIP" | "LoadBalancer" | "NodePort") {
        internal.required("");
    }
    let distribution = spec.at("trafficDistribution");
    if distribution.is_set() && !DISTRIBUTIONS.contains(&distribution.str()) {
        let text = distribution.str();
        distribution.push(FieldError::not_supported(&distribution.path(), text, DISTRIBUTIONS));
    }
}

pub fn is_headless(spec: &Field) -> bool {
    matches!(spec.at("clusterIPs").list(), [only] if only.as_str() == Some(NONE))
}

fn is_externally_accessible(spec: &Field) -> bool {
    match spec.at("type").str() {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !spec.at("externalIPs").is_empty(),
        _ => false,
    }
}

fn needs_health_check(spec: &Field) -> bool {
    spec.at("type").str() == "LoadBalancer" && spec.at("externalTrafficPolicy").str() == "Local"
}
