//! Default rules of Services.

use super::{has_elements, set_missing, string};
use crate::value::{Map, Value};

/// Default timeout of session affinity by client IP, in seconds.
const CLIENT_IP_TIMEOUT: i64 = 3 * 60 * 60;

/// Sets or removes `sessionAffinityConfig` by `sessionAffinity`.
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

/// Sets `externalTrafficPolicy` for services that are reachable from outside, and no others.
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

/// Sets `ipMode` of load balancer addresses to VIP.
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
