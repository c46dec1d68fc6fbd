//! Typed fields of a Service's spec that the allocators read and write.

use std::collections::HashSet;

use kevel_api::value::{Map, Value};

/// Cluster IP of a headless Service.
pub const NONE: &str = "None";

/// Linked fields of a Service's spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    pub ty: String,
    pub cluster_ip: String,
    pub cluster_ips: Vec<String>,
    pub families: Vec<String>,
    pub policy: Option<String>,
    /// True if the Service has a selector.
    pub selects: bool,
    pub ports: Vec<Port>,
    pub health_check_node_port: i64,
    pub allocate_node_ports: Option<bool>,
    pub external_traffic_policy: String,
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    pub name: String,
    pub protocol: String,
    pub port: i64,
    /// 0 if not allocated.
    pub node_port: i64,
}

impl Spec {
    /// Reads the spec of a Service.
    pub fn read(service: &Value) -> Self {
        let text = |field: &str| service.str_at(&["spec", field]).to_owned();
        let int = |field: &str| service.at(&["spec", field]).and_then(Value::as_int).unwrap_or(0);
        let list =
            |field: &str| service.at(&["spec", field]).and_then(Value::as_list).unwrap_or_default();
        let texts = |field: &str| {
            list(field).iter().map(|item| item.as_str().unwrap_or_default().to_owned()).collect()
        };
        Spec {
            ty: text("type"),
            cluster_ip: text("clusterIP"),
            cluster_ips: texts("clusterIPs"),
            families: texts("ipFamilies"),
            policy: service.at(&["spec", "ipFamilyPolicy"]).and_then(Value::as_str).map(Into::into),
            selects: service.at(&["spec", "selector"]).is_some_and(|s| !s.is_empty()),
            ports: list("ports").iter().map(Port::read).collect(),
            health_check_node_port: int("healthCheckNodePort"),
            allocate_node_ports: service
                .at(&["spec", "allocateLoadBalancerNodePorts"])
                .and_then(Value::as_bool),
            external_traffic_policy: text("externalTrafficPolicy"),
        }
    }

    /// Writes the fields that allocation may have set.
    pub fn write(&self, service: &mut Value) {
        let Some(service) = service.as_map_mut() else { return };
        let spec = service.entry_or_insert_with("spec", || Map::new().into());
        let Some(spec) = spec.as_map_mut() else { return };
        let texts = |list: &[String]| -> Value {
            Value::List(list.iter().map(|text| Value::from(text.as_str())).collect())
        };
        set(spec, "clusterIP", text(&self.cluster_ip));
        set(spec, "clusterIPs", Some(texts(&self.cluster_ips)).filter(|list| !list.is_empty()));
        set(spec, "ipFamilies", Some(texts(&self.families)).filter(|list| !list.is_empty()));
        set(spec, "ipFamilyPolicy", self.policy.as_deref().map(Value::from));
        set(spec, "healthCheckNodePort", number(self.health_check_node_port));
        let ports = spec.get_mut("ports").and_then(Value::as_list_mut);
        for (written, port) in ports.into_iter().flatten().zip(&self.ports) {
            if let Some(written) = written.as_map_mut() {
                set(written, "nodePort", number(port.node_port));
            }
        }
    }

    pub fn is_external_name(&self) -> bool {
        self.ty == "ExternalName"
    }

    pub fn is_load_balancer(&self) -> bool {
        self.ty == "LoadBalancer"
    }

    pub fn needs_cluster_ip(&self) -> bool {
        !self.is_external_name()
    }

    /// True for headless Services.
    pub fn is_headless(&self) -> bool {
        self.cluster_ips.first().is_some_and(|ip| ip == NONE)
    }

    /// True for types with node ports.
    pub fn may_have_node_ports(&self) -> bool {
        matches!(self.ty.as_str(), "NodePort" | "LoadBalancer")
    }

    /// True if ports without a node port are allocated one.
    pub fn wants_node_ports(&self) -> bool {
        match self.ty.as_str() {
            "NodePort" => true,
            "LoadBalancer" => self.allocate_node_ports.unwrap_or(true),
            _ => false,
        }
    }

    /// True if the Service has a health check node port.
    pub fn needs_health_check(&self) -> bool {
        self.is_load_balancer() && self.external_traffic_policy == "Local"
    }

    pub fn is_single_stack(&self) -> bool {
        self.policy.as_deref() == Some("SingleStack")
    }

    /// Node ports of the Service's ports, in order.
    pub fn node_ports(&self) -> impl Iterator<Item = i64> + Clone + '_ {
        self.ports.iter().map(|port| port.node_port).filter(|port| *port != 0)
    }

    /// All node ports of the Service, with the health check port. A number shared by several protocols counts once; a
    /// number repeated for the same protocol, by mistake, is listed again.
    pub fn taken_ports(&self) -> Vec<i64> {
        let mut seen: HashSet<(i64, &str)> = HashSet::new();
        let mut numbers: HashSet<i64> = HashSet::new();
        let mut taken = Vec::new();
        for port in self.ports.iter().filter(|port| port.node_port != 0) {
            let again = !seen.insert((port.node_port, &port.protocol));
            if numbers.insert(port.node_port) || again {
                taken.push(port.node_port);
            }
        }
        let health = self.health_check_node_port;
        if health != 0 && (!numbers.contains(&health) || seen.contains(&(health, "TCP"))) {
            taken.push(health);
        }
        taken
    }
}

impl Port {
    fn read(port: &Value) -> Self {
        let int = |field: &str| port.at(&[field]).and_then(Value::as_int).unwrap_or(0);
        Port {
            name: port.str_at(&["name"]).to_owned(),
            protocol: port.str_at(&["protocol"]).to_owned(),
            port: int("port"),
            node_port: int("nodePort"),
        }
    }
}

fn text(text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| text.into())
}

fn number(number: i64) -> Option<Value> {
    (number != 0).then_some(Value::Int(number))
}

fn set(map: &mut Map, field: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(map.insert(field, value)),
        None => drop(map.remove(field)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_port_that_protocols_share_is_taken_once() {
        let port = |protocol: &str, node_port| Port {
            name: String::new(),
            protocol: protocol.into(),
            port: 1,
            node_port,
        };
        for (ports, health, taken) in [
            (vec![port("TCP", 30000), port("UDP", 30000)], 0, vec![30000]),
            (vec![port("TCP", 30000), port("TCP", 30000)], 0, vec![30000, 30000]),
            (vec![port("TCP", 0), port("TCP", 30001)], 30002, vec![30001, 30002]),
            (vec![port("UDP", 30001)], 30001, vec![30001]),
            (vec![port("TCP", 30001)], 30001, vec![30001, 30001]),
        ] {
            let spec = Spec { ports, health_check_node_port: health, ..Spec::read(&Value::Null) };
            assert_eq!(spec.taken_ports(), taken);
        }
    }
}
