//! Columns of Service and Endpoints.

use std::collections::BTreeSet;

use kevel_registry::columns::Column;

use super::cell::{Few, FieldValue, NONE, Shown, UNKNOWN, some_or_none};
use super::{Columns, columns};

pub(crate) const SERVICE: Columns = columns!(
    |o| where {
        let first = o.each("spec.clusterIPs").next().map(FieldValue::as_text);
        let ports: Vec<String> = o.each("spec.ports").map(port).collect();
    }
    Column::NAME => o.name(),
    Column::text("Type", "core.v1.ServiceSpec#type") => o.text("spec.type"),
    Column::text("Cluster-IP", "core.v1.ServiceSpec#clusterIP") =>
        first.unwrap_or_else(|| o.text_or("spec.clusterIP", NONE)),
    Column::text("External-IP", "core.v1.ServiceSpec#externalIPs") => external_ip(o),
    Column::text("Port(s)", "core.v1.ServiceSpec#ports") => some_or_none(ports.join(",")),
    Column::AGE => o.age(),
    Column::text("Selector", "core.v1.ServiceSpec#selector").wide() => o.labels("spec.selector"),
);

pub(crate) const ENDPOINTS: Columns = columns!(|o|
    Column::NAME => o.name(),
    Column::text("Endpoints", "core.v1.Endpoints#subsets") => endpoints(o),
    Column::AGE => o.age(),
);

fn external_ip(o: &Shown<'_>) -> String {
    let given = o.joined("spec.externalIPs", "", ",");
    match o.text("spec.type") {
        "ClusterIP" | "NodePort" => some_or_none(given),
        "LoadBalancer" => match (load_balancer(o), given) {
            (balanced, given) if balanced.is_empty() && given.is_empty() => "<pending>".into(),
            (balanced, given) if given.is_empty() => balanced,
            (balanced, given) if balanced.is_empty() => given,
            (balanced, given) => format!("{balanced},{given}"),
        },
        "ExternalName" => o.text("spec.externalName").into(),
        _ => UNKNOWN.into(),
    }
}

/// Addresses or host names of a load balancer, sorted.
pub(super) fn load_balancer(o: &Shown<'_>) -> String {
    let points = o.each("status.loadBalancer.ingress");
    let points: BTreeSet<&str> =
        points.map(|point| point.text_or("ip", point.text("hostname"))).collect();
    points.into_iter().filter(|point| !point.is_empty()).collect::<Vec<_>>().join(",")
}

fn port(port: FieldValue<'_>) -> String {
    let (number, protocol) = (port.int("port"), port.text("protocol"));
    match port.int("nodePort") {
        node if node > 0 => format!("{number}:{node}/{protocol}"),
        _ => format!("{number}/{protocol}"),
    }
}

fn endpoints(o: &Shown<'_>) -> String {
    if o.count("subsets") == 0 {
        return NONE.into();
    }
    let mut few = Few { shown: Vec::new(), count: 0 };
    for subset in o.each("subsets") {
        let ports: Vec<Option<i64>> = match subset.count("ports") {
            // A headless Service may have no ports.
            0 => vec![None],
            _ => subset.each("ports").map(|port| Some(port.int("port"))).collect(),
        };
        for port in ports {
            let addresses = subset.each("addresses");
            few.count += addresses.len();
            let left = Few::MAX - few.shown.len();
            few.shown.extend(addresses.take(left).map(|a| host_port(a.text("ip"), port)));
        }
    }
    few.or("")
}

fn host_port(ip: &str, port: Option<i64>) -> String {
    match port {
        None => ip.into(),
        Some(port) if ip.contains(':') => format!("[{ip}]:{port}"),
        Some(port) => format!("{ip}:{port}"),
    }
}
