//! Resolver of Services to addresses: the cluster IP, or one of the endpoints.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use kevel_api::quote::quote;
use kevel_api::value::Value;
use kevel_registry::storage::{Storage, local_key};
use thiserror::Error;

/// Label of an EndpointSlice with the name of its Service.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Reason that a Service has no address, with the reference's messages.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ResolveError {
    /// There is no such Service.
    #[error("service {} not found", quote(.0))]
    NotFound(String),
    /// The Service is headless.
    #[error("cannot route to service with ClusterIP \"None\"")]
    Headless,
    /// The type of the Service has no cluster IP.
    #[error("unsupported service type {}", quote(.0))]
    UnsupportedType(String),
    /// The Service does not have the port.
    #[error("no service port {port} found for service {}", quote(service))]
    NoPort {
        /// Name of the Service.
        service: String,
        /// The port.
        port: i64,
    },
    /// No endpoint is ready.
    #[error("no endpoints available for service {}", quote(.0))]
    NoEndpoints(String),
    /// A stored object cannot be read.
    #[error("{0}")]
    Unreadable(String),
}

impl From<ResolveError> for String {
    fn from(error: ResolveError) -> Self {
        error.to_string()
    }
}

/// Types of Services that have a cluster IP.
const WITH_CLUSTER_IP: [&str; 3] = ["ClusterIP", "LoadBalancer", "NodePort"];

/// Resolver of Services, from the caches (upstream: `aggregatorEndpointRouting`, `aggregatorClusterRouting`). Webhooks
/// and aggregated servers are resolved for each request: an object is read once for each of its states.
#[derive(Clone, Debug)]
pub struct ServiceResolver {
    services: Arc<Storage>,
    /// Set if requests go directly to endpoints: `--enable-aggregator-routing`.
    endpoint_slices: Option<Arc<Storage>>,
    /// Address of this server itself.
    own: Option<SocketAddr>,
}

impl ServiceResolver {
    /// Resolves to cluster IPs, which the network has to route.
    pub fn cluster_ip(services: Arc<Storage>) -> Self {
        ServiceResolver { services, endpoint_slices: None, own: None }
    }

    /// Resolves to any of the ready endpoints.
    pub fn endpoints(services: Arc<Storage>, endpoint_slices: Arc<Storage>) -> Self {
        ServiceResolver { services, endpoint_slices: Some(endpoint_slices), own: None }
    }

    /// Resolves the `kubernetes` Service to this address instead.
    pub fn with_own_address(self, own: SocketAddr) -> Self {
        ServiceResolver { own: Some(own), ..self }
    }

    /// Waits until all stored Services are loaded.
    pub async fn loaded(&self) {
        let storages = [Some(&self.services), self.endpoint_slices.as_ref()];
        for storage in storages.into_iter().flatten() {
            // A closed cache has nothing to wait for.
            let _ = storage.cache.loaded().await;
        }
    }

    /// Host and port to connect to, over TLS.
    pub fn resolve(&self, namespace: &str, name: &str, port: i64) -> Result<String, ResolveError> {
        if let Some(own) = self.own
            && (namespace, name, port) == ("default", "kubernetes", 443)
        {
            return Ok(own.to_string());
        }
        let found = self.service(namespace, name)?;
        let service = found.ok_or_else(|| ResolveError::NotFound(name.to_owned()))?;
        let Some(storage) = &self.endpoint_slices else {
            return service.at_cluster_ip(name, port);
        };
        let port_name = service.required_port_name(name, port)?;
        let mut slices = slices(storage, namespace, name)?;
        prefer(&mut slices, service.family.as_deref());
        let ready = slices.iter().find_map(|slice| slice.ready_address(port_name));
        ready.ok_or_else(|| ResolveError::NoEndpoints(name.to_owned()))
    }

    /// A Service, if there is one.
    pub(crate) fn service(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<RoutedService>>, ResolveError> {
        let snapshot = self.services.cache.latest();
        let Some(object) = snapshot.get(&local_key(namespace, name)) else { return Ok(None) };
        let service = self.services.decoded(object, RoutedService::read);
        service.map(Some).map_err(ResolveError::Unreadable)
    }
}

/// The EndpointSlices of a Service.
pub(crate) fn slices(
    storage: &Storage,
    namespace: &str,
    service: &str,
) -> Result<Vec<Arc<RoutedSlice>>, ResolveError> {
    let snapshot = storage.cache.latest();
    let all = snapshot.range(&format!("{namespace}/"), None);
    let of_service = all.filter(|object| object.label(SERVICE_NAME) == Some(service));
    let slices = of_service.map(|object| storage.decoded(object, RoutedSlice::read));
    slices.collect::<Result<_, _>>().map_err(ResolveError::Unreadable)
}

/// Parts of a Service that are needed for routing.
#[derive(Debug)]
pub(crate) struct RoutedService {
    pub ty: String,
    cluster_ip: String,
    external_name: String,
    /// Ports with their names.
    ports: Vec<(i64, String)>,
    /// The first IP family.
    family: Option<String>,
}

impl RoutedService {
    pub fn read(service: &Value) -> Self {
        let text = |field| service.str_at(&["spec", field]).to_owned();
        let ports = service.list_at(&["spec", "ports"]).iter();
        let ports = ports.filter_map(|port| {
            let number = port.at(&["port"]).and_then(Value::as_int)?;
            Some((number, port.str_at(&["name"]).to_owned()))
        });
        let family = service.list_at(&["spec", "ipFamilies"]).first().and_then(Value::as_str);
        RoutedService {
            ty: text("type"),
            cluster_ip: text("clusterIP"),
            external_name: text("externalName"),
            ports: ports.collect(),
            family: family.map(str::to_owned),
        }
    }

    /// Name of a port.
    pub fn port_name(&self, port: i64) -> Option<&str> {
        let mut ports = self.ports.iter();
        ports.find(|(number, _)| *number == port).map(|(_, name)| name.as_str())
    }

    fn at_cluster_ip(&self, name: &str, port: i64) -> Result<String, ResolveError> {
        match self.ty.as_str() {
            "ClusterIP" if self.cluster_ip == "None" => Err(ResolveError::Headless),
            "ExternalName" => Ok(join(&self.external_name, port)),
            _ => self.required_port_name(name, port).map(|_| join(&self.cluster_ip, port)),
        }
    }

    /// Name of a port that a Service with a cluster IP must have.
    fn required_port_name(&self, name: &str, port: i64) -> Result<&str, ResolveError> {
        if !WITH_CLUSTER_IP.contains(&self.ty.as_str()) {
            return Err(ResolveError::UnsupportedType(self.ty.clone()));
        }
        let missing = || ResolveError::NoPort { service: name.to_owned(), port };
        self.port_name(port).ok_or_else(missing)
    }
}

/// Parts of an EndpointSlice that are needed for routing.
#[derive(Debug)]
pub(crate) struct RoutedSlice {
    address_type: String,
    /// Named ports.
    ports: Vec<(String, i64)>,
    /// First address of each ready endpoint (unset means ready); empty if it has none.
    ready: Vec<String>,
}

impl RoutedSlice {
    pub fn read(slice: &Value) -> Self {
        let ports = slice.list_at(&["ports"]).iter().filter_map(|port| {
            let name = port.at(&["name"]).and_then(Value::as_str)?;
            Some((name.to_owned(), port.at(&["port"]).and_then(Value::as_int)?))
        });
        let ready = slice.list_at(&["endpoints"]).iter().filter(|endpoint| {
            endpoint.at(&["conditions", "ready"]).and_then(Value::as_bool).unwrap_or(true)
        });
        let address = |endpoint: &Value| {
            let first = endpoint.list_at(&["addresses"]).first().and_then(Value::as_str);
            first.unwrap_or_default().to_owned()
        };
        RoutedSlice {
            address_type: slice.str_at(&["addressType"]).to_owned(),
            ports: ports.collect(),
            ready: ready.map(address).collect(),
        }
    }

    /// Whether a ready endpoint serves a port.
    pub fn serves(&self, port_name: &str) -> bool {
        !self.ready.is_empty() && self.port(port_name).is_some()
    }

    fn port(&self, name: &str) -> Option<i64> {
        self.ports.iter().find(|(known, _)| known == name).map(|(_, port)| *port)
    }

    /// Address of a random ready endpoint.
    fn ready_address(&self, port_name: &str) -> Option<String> {
        let port = self.port(port_name)?;
        let address = self.ready.get(random(self.ready.len()))?;
        (!address.is_empty()).then(|| join(address, port))
    }
}

/// Orders the slices randomly, those of the Service's first IP family first.
fn prefer(slices: &mut [Arc<RoutedSlice>], family: Option<&str>) {
    let Some(first) = family else { return };
    let turn = random(slices.len());
    slices.rotate_left(turn);
    slices.sort_by_key(|slice| slice.address_type != first);
}

/// Random number below `count`. Need not be secret: knowing the next endpoint gains nothing.
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
            let found = RoutedService::read(&service).at_cluster_ip("api", port);
            let found = found.map_err(String::from);
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
            let slice = RoutedSlice::read(&slice(&endpoints));
            assert_eq!(slice.ready_address(port).as_deref(), expected, "{endpoints}");
        }
    }

    #[test]
    fn the_first_family_comes_first() {
        let mut slices = ["IPv6", "IPv4", "IPv6", "IPv4"]
            .map(|family| value(&format!(r#"{{"addressType":"{family}"}}"#)))
            .map(|slice| Arc::new(RoutedSlice::read(&slice)));
        prefer(&mut slices, Some("IPv4"));
        let order: Vec<_> = slices.iter().map(|slice| slice.address_type.as_str()).collect();
        assert_eq!(order, ["IPv4", "IPv4", "IPv6", "IPv6"]);
    }
}
