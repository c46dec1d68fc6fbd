//! Kind Service: strategy and warnings.

use std::collections::HashSet;

use kevel_api::field_error::Path;
use kevel_api::ip::{cidr_warnings, ip_warnings};
use kevel_api::name;
use kevel_api::value::{Map, Value};
use kevel_api::warning::WarningList;

use super::spec::{NONE, Spec};
use super::validation;
use crate::capabilities::Capabilities;
use crate::columns;
use crate::kind::{Kind, Selectable, Subresource};
use crate::rules::Rules;
use crate::validation::load_balancer_warnings;

/// `services`
pub static KIND: Kind = Kind {
    validate_name: name::name_is_dns_label,
    selectable_fields: &[Selectable::field("spec.clusterIP"), Selectable::field("spec.type")],
    storage_key: Some("services/specs"),
    returns_deleted_object: true,
    allow_create_on_update: true,
    subresources: &[("proxy", Subresource::Connecter)],
    columns: columns::service::SERVICE,
    rules: Rules {
        prepare_for_create: |service, _| drop_internal_traffic_policy(service),
        validate_create: validation::validate_create,
        prepare_for_update,
        validate_update: validation::validate_update,
        validate_status_update: validation::validate_status_update,
        warnings,
        status_warnings: load_balancer_warnings,
        ..Rules::NONE
    },
    ..Kind::new("", "services")
};

/// Drops `internalTrafficPolicy` of an ExternalName Service. An invalid policy is left for validation to report.
fn drop_internal_traffic_policy(object: &mut Value) {
    let external = object.str_at(&["spec", "type"]) == "ExternalName";
    let policy = object.str_at(&["spec", "internalTrafficPolicy"]);
    if external
        && matches!(policy, "Cluster" | "Local")
        && let Some(spec) = object.at_mut(&["spec"]).and_then(Value::as_map_mut)
    {
        spec.remove("internalTrafficPolicy");
    }
}

/// Drops fields of the old type on a change of type, unless the client changes them: then validation reports them.
fn prepare_for_update(object: &mut Value, old: &Value, _: &Capabilities) {
    let (spec, before) = (Spec::read(object), Spec::read(old));
    let text = |object: &Value, field: &str| object.str_at(&["spec", field]).to_owned();
    let same = |field: &str| object.at(&["spec", field]) == old.at(&["spec", field]);
    let mut dropped: Vec<&str> = Vec::new();
    if before.needs_cluster_ip() && !spec.needs_cluster_ip() {
        if spec.cluster_ip == before.cluster_ip && spec.cluster_ips == before.cluster_ips {
            dropped.extend(["clusterIP", "clusterIPs"]);
        }
        dropped.extend(["ipFamilies", "ipFamilyPolicy"].into_iter().filter(|field| same(field)));
    }
    let had: HashSet<i64> = before.node_ports().collect();
    let keeps_node_ports = !before.may_have_node_ports()
        || spec.may_have_node_ports()
        || spec.node_ports().any(|port| !had.contains(&port));
    if before.needs_health_check() && !spec.needs_health_check() && same("healthCheckNodePort") {
        dropped.push("healthCheckNodePort");
    }
    if before.is_load_balancer() && !spec.is_load_balancer() {
        let fields = ["allocateLoadBalancerNodePorts", "loadBalancerClass"];
        dropped.extend(fields.into_iter().filter(|field| same(field)));
    }
    let accessible = |object: &Value| match text(object, "type").as_str() {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => object.at(&["spec", "externalIPs"]).is_some_and(|ips| !ips.is_empty()),
        _ => false,
    };
    if accessible(old) && !accessible(object) && same("externalTrafficPolicy") {
        dropped.push("externalTrafficPolicy");
    }
    if let Some(map) = object.at_mut(&["spec"]).and_then(Value::as_map_mut) {
        dropped.iter().for_each(|field| drop(map.remove(field)));
        let ports = map.get_mut("ports").and_then(Value::as_list_mut);
        let ports = ports.filter(|_| !keeps_node_ports).into_iter().flatten();
        ports.filter_map(Value::as_map_mut).for_each(|port| drop(port.remove("nodePort")));
    }
    let status = object.at_mut(&["status"]).and_then(Value::as_map_mut);
    if let Some(status) = status.filter(|_| !spec.is_load_balancer()) {
        // The reference always shows the empty struct.
        status.insert("loadBalancer", Map::new().into());
    }
    drop_internal_traffic_policy(object);
}

fn warnings(service: &Value, _old: Option<&Value>) -> Vec<String> {
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    const MODE: &str = "service.kubernetes.io/topology-mode";
    let mut warnings = WarningList::default();
    if service.at(&["metadata", "annotations", HINTS]).is_some() {
        warnings.add(format!("annotation {HINTS} is deprecated, please use {MODE} instead"));
    }
    let root = Path::new("spec");
    let texts = |field: &str| {
        let list = service.at(&["spec", field]).and_then(Value::as_list).unwrap_or_default();
        list.iter().filter_map(Value::as_str).enumerate()
    };
    let text = |field: &str| service.str_at(&["spec", field]);
    let external_ips = texts("externalIPs").next().is_some();
    let (ip, ty) = (text("clusterIP"), text("type"));
    if !ip.is_empty() && ip != NONE {
        let path = root.child("clusterIPs");
        warnings.extend(texts("clusterIPs").flat_map(|(i, ip)| ip_warnings(&path.index(i), ip)));
    }
    let headless = ty == "ClusterIP" && ip == NONE;
    if headless {
        for (ignored, field) in [
            (!text("loadBalancerIP").is_empty(), "loadBalancerIP"),
            (external_ips, "externalIPs"),
            (text("sessionAffinity") != "None", "SessionAffinity"),
        ] {
            if ignored {
                warnings.add(format!("spec.{field} is ignored for headless services"));
            }
        }
    }
    let path = root.child("externalIPs");
    warnings.extend(texts("externalIPs").flat_map(|(i, ip)| ip_warnings(&path.index(i), ip)));
    if external_ips && !headless && ty != "ExternalName" {
        let why =
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
        warnings.add(why);
    }
    warnings.extend(ip_warnings(&root.child("loadBalancerIP"), text("loadBalancerIP")));
    let path = root.child("loadBalancerSourceRanges");
    let ranges = texts("loadBalancerSourceRanges");
    warnings.extend(ranges.flat_map(|(i, range)| cidr_warnings(&path.index(i), range)));
    if ty == "ExternalName" && external_ips {
        warnings.add("spec.externalIPs is ignored when spec.type is \"ExternalName\"");
    }
    if ty != "ExternalName" && !text("externalName").is_empty() {
        warnings.add("spec.externalName is ignored when spec.type is not \"ExternalName\"");
    }
    if text("trafficDistribution") == "PreferClose" {
        let why = "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.add(why);
    }
    warnings.into_said()
}
