//! Where a Service is reached: at its cluster IP, or at one of its endpoints.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use kevel_api::quote::quote;
use kevel_api::value::Value;

use crate::storage::{Storage, local_key};

/// The label of an EndpointSlice that names its Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Knows where Services are reached, from the caches.
#[derive(Clone, Debug)]
pub struct ServiceResolver {
    services: Arc<Storage>,
    /// Given where requests go to endpoints themselves: `--enable-aggregator-routing`.
    endpoint_slices: Option<Arc<Storage>>,
    /// Where this server itself is reached.
    own: Option<SocketAddr>,
}

impl ServiceResolver {
    /// Sends requests to cluster IPs, which the network has to route.
    pub fn cluster_ip(services: Arc<Storage>) -> Self {
        ServiceResolver { services, endpoint_slices: None, own: None }
    }

    /// Sends each request to one of the endpoints that are ready.
    pub fn endpoints(services: Arc<Storage>, endpoint_slices: Arc<Storage>) -> Self {
        ServiceResolver { services, endpoint_slices: Some(endpoint_slices), own: None }
    }

    /// Sends what is for the `kubernetes` Service to this address instead.
    pub fn with_own_address(self, own: SocketAddr) -> Self {
        ServiceResolver { own: Some(own), ..self }
    }

    /// Waits until all Services that were stored are known.
    pub async fn loaded(&self) {
        let storages = [Some(&self.services), self.endpoint_slices.as_ref()];
        for storage in storages.into_iter().flatten() {
            // One that is closed has nothing to wait for.
            let _ = storage.cache.loaded().await;
        }
    }

    /// Host and port to connect to, over TLS.
    pub fn resolve(&self, namespace: &str, name: &str, port: i64) -> Result<String, String> {
        if let Some(own) = self.own
            && (namespace, name, port) == ("default", "kubernetes", 443)
        {
            return Ok(own.to_string());
        }
        let found = self.service(namespace, name)?;
        let service = found.ok_or_else(|| format!("service {} not found", quote(name)))?;
        match &self.endpoint_slices {
            None => at_cluster_ip(&service, name, port),
            Some(storage) => {
                let port_name =
                    port_name(&service, name, port, &["ClusterIP", "LoadBalancer", "NodePort"])?;
                let mut slices = slices(storage, namespace, name)?;
                prefer(&mut slices, service.list_at(&["spec", "ipFamilies"]));
                let ready = slices.iter().find_map(|slice| ready_address(slice, port_name));
                ready.ok_or_else(|| format!("no endpoints available for service {}", quote(name)))
            }
        }
    }

    /// A Service, if there is one.
    pub fn service(&self, namespace: &str, name: &str) -> Result<Option<Value>, String> {
        let snapshot = self.services.cache.latest();
        let Some(object) = snapshot.get(&local_key(namespace, name)) else { return Ok(None) };
        self.services.read(object.wire()?).map(Some)
    }
}

/// The EndpointSlices of a Service.
pub fn slices(storage: &Storage, namespace: &str, service: &str) -> Result<Vec<Value>, String> {
    let snapshot = storage.cache.latest();
    let all = snapshot.range(&format!("{namespace}/"), None);
    let of_service = all.filter(|object| object.label(SERVICE_NAME) == Some(service));
    of_service.map(|object| storage.read(object.wire()?)).collect()
}

/// Whether an endpoint takes requests; one that does not say does.
pub fn is_ready(endpoint: &Value) -> bool {
    endpoint.at(&["conditions", "ready"]).and_then(Value::as_bool).unwrap_or(true)
}

/// The number of a slice's port of a name.
pub fn port_of(slice: &Value, name: &str) -> Option<i64> {
    let mut ports = slice.list_at(&["ports"]).iter();
    ports.find_map(|port| {
        let named = port.at(&["name"]).and_then(Value::as_str) == Some(name);
        port.at(&["port"]).and_then(Value::as_int).filter(|_| named)
    })
}

fn at_cluster_ip(service: &Value, name: &str, port: i64) -> Result<String, String> {
    let cluster_ip = service.str_at(&["spec", "clusterIP"]);
    match service.str_at(&["spec", "type"]) {
        "ClusterIP" if cluster_ip == "None" => {
            Err(r#"cannot route to service with ClusterIP "None""#.to_owned())
        }
        "ExternalName" => Ok(join(service.str_at(&["spec", "externalName"]), port)),
        _ => {
            port_name(service, name, port, &["ClusterIP", "LoadBalancer", "NodePort"])?;
            Ok(join(cluster_ip, port))
        }
    }
}

/// What a Service of one of these types calls a port.
fn port_name<'s>(
    service: &'s Value,
    name: &str,
    port: i64,
    types: &[&str],
) -> Result<&'s str, String> {
    let ty = service.str_at(&["spec", "type"]);
    if !types.contains(&ty) {
        return Err(format!("unsupported service type {}", quote(ty)));
    }
    let mut ports = service.list_at(&["spec", "ports"]).iter();
    let found = ports.find(|known| known.at(&["port"]).and_then(Value::as_int) == Some(port));
    let missing = || format!("no service port {port} found for service {}", quote(name));
    found.map(|port| port.str_at(&["name"])).ok_or_else(missing)
}

/// Puts the slices in any order, those of the Service's first family of addresses first.
fn prefer(slices: &mut [Value], families: &[Value]) {
    let Some(first) = families.first().and_then(Value::as_str) else { return };
    let turn = random(slices.len());
    slices.rotate_left(turn);
    slices.sort_by_key(|slice| slice.str_at(&["addressType"]) != first);
}

/// An endpoint that is ready, any of them.
fn ready_address(slice: &Value, port_name: &str) -> Option<String> {
    let port = port_of(slice, port_name)?;
    let endpoints = slice.list_at(&["endpoints"]);
    let (before, after) = endpoints.split_at_checked(random(endpoints.len()))?;
    let endpoint = after.iter().chain(before).find(|endpoint| is_ready(endpoint))?;
    Some(join(endpoint.list_at(&["addresses"]).first()?.as_str()?, port))
}

/// Below `count`. No secret: nobody gains from knowing where the next request goes.
fn random(count: usize) -> usize {
    let random = usize::try_from(RandomState::new().hash_one(())).unwrap_or_default();
    random.checked_rem(count).unwrap_or_default()
}

fn join(host: &str, port: i64) -> String {
    match host.parse() {
        Ok(IpAddr::V6(address)) => format!("[{address}]:{port}"),
        _ => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use kevel_codec::json::{Unknown, decode_any};

    use super::*;

    fn value(text: &str) -> Value {
        decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value
    }

    #[test]
    fn a_cluster_ip_is_where_its_service_is() {
        let ports = r#""ports":[{"name":"https","port":443}]"#;
        for (spec, port, expected) in [
            (r#""type":"ClusterIP","clusterIP":"10.0.0.7""#, 443, Ok("10.0.0.7:443")),
            (r#""type":"NodePort","clusterIP":"fd00::7""#, 443, Ok("[fd00::7]:443")),
            (
                r#""type":"ClusterIP","clusterIP":"10.0.0.7""#,
                80,
                Err(r#"no service port 80 found for service "api""#),
            ),
            (
                r#""type":"ClusterIP","clusterIP":"None""#,
                443,
                Err(r#"cannot route to service with ClusterIP "None""#),
            ),
            (r#""type":"ExternalName","externalName":"a.b""#, 7, Ok("a.b:7")),
            (r#""type":"Other""#, 443, Err(r#"unsupported service type "Other""#)),
        ] {
            let service = value(&format!(r#"{{"spec":{{{spec},{ports}}}}}"#));
            let found = at_cluster_ip(&service, "api", port);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{spec}");
        }
    }

    #[test]
    fn an_endpoint_that_is_not_ready_gets_no_request() {
        let slice = |endpoints: &str| {
            value(&format!(
                r#"{{"ports":[{{"name":"a","port":1}},{{"name":"b"}}],"endpoints":[{endpoints}]}}"#
            ))
        };
        let ready = r#"{"addresses":["10.1.0.1","10.1.0.9"]}"#;
        let not = r#"{"addresses":["10.1.0.2"],"conditions":{"ready":false}}"#;
        for (endpoints, port, expected) in [
            (format!("{ready},{not}"), "a", Some("10.1.0.1:1")),
            (format!("{not},{not},{ready}"), "a", Some("10.1.0.1:1")),
            (not.to_owned(), "a", None),
            (ready.to_owned(), "b", None),
            (ready.to_owned(), "c", None),
            (String::new(), "a", None),
        ] {
            assert_eq!(ready_address(&slice(&endpoints), port).as_deref(), expected, "{endpoints}");
        }
    }

    #[test]
    fn the_first_family_comes_first() {
        let mut slices = ["IPv6", "IPv4", "IPv6", "IPv4"]
            .map(|family| value(&format!(r#"{{"addressType":"{family}"}}"#)));
        prefer(&mut slices, value(r#"["IPv4"]"#).as_list().unwrap());
        let order: Vec<_> = slices.iter().map(|slice| slice.str_at(&["addressType"])).collect();
        assert_eq!(order, ["IPv4", "IPv4", "IPv6", "IPv6"]);
    }
}
