//! Services.

use super::{has_elements, set_missing, string};
use crate::value::{Map, Value};

/// How long a client sticks to an endpoint, in seconds.
const CLIENT_IP_TIMEOUT: i64 = 3 * 60 * 60;

/// There is a configuration if and only if there is something to configure.
pub(super) fn session_affinity_config(spec: &mut Map, field: &str) {
    match string(spec, "sessionAffinity") {
        "None" => drop(spec.remove(field)),
        "ClientIP" => {
            let config = spec.get(field).and_then(|c| c.at(&["clientIP", "timeoutSeconds"]));
            if config.is_none() {
                let timeout = Map::from_iter([("timeoutSeconds", Value::Int(CLIENT_IP_TIMEOUT))]);
                let config = Map::from_iter([("clientIP", Value::Map(timeout))]);
                spec.insert(field, Value::Map(config));
            }
        }
        _ => {}
    }
}

/// Only services that can be reached from outside have an external policy.
pub(super) fn external_traffic_policy(spec: &mut Map, field: &str) {
    let external = match string(spec, "type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => has_elements(spec.get("externalIPs")),
        _ => false,
    };
    if external {
        set_missing(spec, field, "Cluster");
    }
}

pub(super) fn internal_traffic_policy(spec: &mut Map, field: &str) {
    if let "ClusterIP" | "LoadBalancer" | "NodePort" = string(spec, "type") {
        set_missing(spec, field, "Cluster");
    }
}

/// The addresses of a load balancer are virtual unless it says otherwise.
pub(super) fn load_balancer_ip_mode(service: &mut Map, field: &str) {
    let ty = service.get("spec").map(|spec| spec.str_at(&["type"]));
    if ty != Some("LoadBalancer") {
        return;
    }
    let status = service.get_mut(field);
    let ingress = status.and_then(|status| status.at_mut(&["loadBalancer", "ingress"]));
    for point in ingress.and_then(Value::as_list_mut).into_iter().flatten() {
        if let Value::Map(point) = point
            && !string(point, "ip").is_empty()
        {
            set_missing(point, "ipMode", "VIP");
        }
    }
}
