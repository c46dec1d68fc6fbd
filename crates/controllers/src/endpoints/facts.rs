//! Facts of pods and Services that decide on endpoints.

use std::net::IpAddr;

use kevel_api::ip::parse_ip_sloppy;
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_store::cache::Object;

/// Facts of a pod.
#[derive(Debug)]
pub(super) struct EndpointPod {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub labels: Map,
    pub node: String,
    pub hostname: String,
    pub subdomain: String,
    pub ips: Vec<IpAddr>,
    pub deleted: bool,
    /// Whether all containers have ended.
    pub ended: bool,
    pub ready: bool,
    /// Last change of readiness.
    pub ready_since: Option<Time>,
    /// Named ports: name, protocol and number.
    ports: Vec<(String, String, i64)>,
}

impl EndpointPod {
    /// Reads the facts of a pod.
    pub fn read(pod: &Value) -> Self {
        let text = |path: &[&str]| pod.str_at(path).to_owned();
        let conditions = pod.list_at(&["status", "conditions"]);
        let ready = conditions.iter().find(|condition| condition.str_at(&["type"]) == "Ready");
        let ips = pod.list_at(&["status", "podIPs"]);
        EndpointPod {
            namespace: text(&["metadata", "namespace"]),
            name: text(&["metadata", "name"]),
            uid: text(&["metadata", "uid"]),
            labels: map_at(pod, &["metadata", "labels"]),
            node: text(&["spec", "nodeName"]),
            hostname: text(&["spec", "hostname"]),
            subdomain: text(&["spec", "subdomain"]),
            ips: ips.iter().filter_map(|ip| parse_ip_sloppy(ip.str_at(&["ip"]))).collect(),
            deleted: pod.at(&["metadata", "deletionTimestamp"]).is_some(),
            ended: ["Succeeded", "Failed"].contains(&pod.str_at(&["status", "phase"])),
            ready: ready.is_some_and(|ready| ready.str_at(&["status"]) == "True"),
            ready_since: ready.and_then(|ready| ready.str_at(&["lastTransitionTime"]).parse().ok()),
            ports: ports(pod),
        }
    }

    /// Whether the pod's endpoints have changed, and whether the labels that select it have.
    pub fn changes(&self, before: &EndpointPod) -> (bool, bool) {
        let moved = (&self.labels, &self.hostname, &self.subdomain)
            != (&before.labels, &before.hostname, &before.subdomain);
        let changed = (self.deleted, self.ended, self.ready, &self.ips)
            != (before.deleted, before.ended, before.ready, &before.ips);
        (changed, moved)
    }

    /// Whether the pod is among the endpoints of Services.
    pub fn is_endpoint(&self, include_deleted: bool) -> bool {
        !self.ended && !self.ips.is_empty() && (include_deleted || !self.deleted)
    }

    /// Name of the pod within a Service, if it has one.
    pub fn hostname_in(&self, service: &Value) -> Option<&str> {
        let of_service = self.subdomain == service.str_at(&["metadata", "name"]);
        (of_service && !self.hostname.is_empty()).then_some(self.hostname.as_str())
    }

    /// Number of the pod's port that a port of a Service leads to.
    pub fn port(&self, port: &Value) -> Option<i64> {
        match port.at(&["targetPort"]) {
            Some(Value::Int(number)) => Some(*number),
            Some(Value::String(wanted)) => {
                let protocol = port.str_at(&["protocol"]);
                let found =
                    self.ports.iter().find(|(name, of, _)| name == wanted && of == protocol);
                found.map(|(_, _, number)| *number)
            }
            _ => Some(0),
        }
    }

    /// Reference to the pod.
    pub fn target(&self) -> Value {
        Map::from_iter([
            ("kind", Value::from("Pod")),
            ("namespace", self.namespace.as_str().into()),
            ("name", self.name.as_str().into()),
            ("uid", self.uid.as_str().into()),
        ])
        .into()
    }
}

/// Ports of a pod's containers, then of its sidecars.
fn ports(pod: &Value) -> Vec<(String, String, i64)> {
    let containers = pod.list_at(&["spec", "containers"]).iter();
    let sidecars = pod.list_at(&["spec", "initContainers"]).iter();
    let sidecars = sidecars.filter(|container| container.str_at(&["restartPolicy"]) == "Always");
    let ports = containers.chain(sidecars).flat_map(|container| container.list_at(&["ports"]));
    let named = ports.filter(|port| !port.str_at(&["name"]).is_empty());
    let read = named.map(|port| {
        let number = port.at(&["containerPort"]).and_then(Value::as_int).unwrap_or(0);
        (port.str_at(&["name"]).to_owned(), port.str_at(&["protocol"]).to_owned(), number)
    });
    read.collect()
}

/// Selector of a Service.
#[derive(Debug)]
pub(super) struct ServiceSelector(Option<Map>);

impl ServiceSelector {
    /// Reads the selector of a Service.
    pub fn read(service: &Value) -> Self {
        ServiceSelector(service.at(&["spec", "selector"]).and_then(Value::as_map).cloned())
    }

    /// Whether labels are selected.
    pub fn selects(&self, labels: &Map) -> bool {
        self.all(|key, value| labels.get(key) == Some(value))
    }

    /// Whether an object is selected.
    pub fn selects_object(&self, object: &Object) -> bool {
        self.all(|key, value| object.label(key) == value.as_str())
    }

    fn all(&self, holds: impl Fn(&str, &Value) -> bool) -> bool {
        let Some(selector) = &self.0 else { return false };
        selector.iter().all(|(key, value)| holds(key, value))
    }
}

/// Map at a path, empty if there is none.
pub(super) fn map_at(object: &Value, path: &[&str]) -> Map {
    object.at(path).and_then(Value::as_map).cloned().unwrap_or_default()
}
