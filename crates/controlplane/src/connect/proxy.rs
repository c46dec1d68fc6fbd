//! `pods/proxy`, `services/proxy` and `nodes/proxy`: HTTP proxies to pods, Services and nodes.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use http::Method;
use kevel_api::quote::quote;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_server::connecter::{ConnectRequest, Connecter};
use kevel_server::handler::Response;
use kevel_server::proxy::{
    Location, Transport, UpgradeAwareProxy, join_host_port, join_preserving_trailing_slash,
};
use kevel_streaming::rate::Rate;

use super::address;
use crate::kubelet::NodeConnectionInfoGetter;

/// Proxy to one kind of backend.
#[derive(Debug)]
pub(super) struct Proxy {
    pub backend: Backend,
    pub kubelets: Arc<NodeConnectionInfoGetter>,
    /// Transport to backends other than kubelets.
    pub transport: Arc<Transport>,
    pub rate: Option<Rate>,
}

/// Backend of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backend {
    Node,
    Pod,
    Service,
}

impl Connecter for Proxy {
    fn methods(&self) -> &'static [Method] {
        &[
            Method::GET,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
            Method::HEAD,
            Method::OPTIONS,
        ]
    }

    fn subpath(&self) -> Option<&'static str> {
        Some("path")
    }

    fn connect<'a>(
        &'a self,
        request: ConnectRequest<'a>,
    ) -> Pending<'a, Result<Response, StatusError>> {
        Box::pin(async move {
            let (mut location, transport) = match self.backend {
                Backend::Node => self.node(&request).await?,
                Backend::Pod => (pod(&request).await?, self.transport.clone()),
                Backend::Service => (service(&request).await?, self.transport.clone()),
            };
            location.path = join_preserving_trailing_slash("", request.options.str_at(&["path"]));
            let proxy = UpgradeAwareProxy {
                location,
                transport: &transport,
                upgrade_required: false,
                rate: self.rate,
            };
            proxy.serve(request.request).await
        })
    }
}

impl Proxy {
    /// Location of the kubelet, or of another port of its node.
    async fn node(
        &self,
        request: &ConnectRequest<'_>,
    ) -> Result<(Location, Arc<Transport>), StatusError> {
        let Target { scheme, name, port } = Target::parse(&request.name, "node")?;
        let kubelet = self.kubelets.connection_info(request, name).await?;
        address::check_host(&kubelet.hostname).await?;
        if port.is_empty() || port == kubelet.port.to_string() {
            let location = kubelet.location(String::new(), String::new());
            return Ok((location, kubelet.transport));
        }
        let port = number(port).ok_or_else(|| invalid("node", &request.name))?;
        let host = join_host_port(&kubelet.hostname, port);
        Ok((Location { scheme, host, ..Location::default() }, self.transport.clone()))
    }
}

/// Location of a pod's port: the given one, or the first that a container declares.
async fn pod(request: &ConnectRequest<'_>) -> Result<Location, StatusError> {
    let Target { scheme, name, port } = Target::parse(&request.name, "pod")?;
    let pod = request.resource.find(&request.namespace, name).await?;
    let port = match port {
        "" => first_port(&pod),
        port => Some(number(port).ok_or_else(|| invalid("pod", &request.name))?),
    };
    let ip = pod.list_at(&["status", "podIPs"]).first().map_or("", |ip| ip.str_at(&["ip"]));
    address::check(ip)?;
    let host = match port {
        Some(port) => join_host_port(ip, port),
        None if ip.contains(':') => format!("[{ip}]"),
        None => ip.to_owned(),
    };
    Ok(Location { scheme, host, ..Location::default() })
}

fn first_port(pod: &Value) -> Option<u16> {
    let containers = pod.list_at(&["spec", "containers"]).iter();
    let mut ports = containers.filter_map(|container| container.list_at(&["ports"]).first());
    let port = ports.next()?.at(&["containerPort"]).and_then(Value::as_int)?;
    u16::try_from(port).ok()
}

/// Location of a random ready endpoint of a Service.
async fn service(request: &ConnectRequest<'_>) -> Result<Location, StatusError> {
    let Target { scheme, name, port } = Target::parse(&request.name, "service")?;
    let service;
    let port_name = match port.parse::<i64>() {
        Err(_) => port,
        Ok(number) => {
            service = request.resource.find(&request.namespace, name).await?;
            let mut ports = service.list_at(&["spec", "ports"]).iter();
            let found =
                ports.find(|port| port.at(&["port"]).and_then(Value::as_int) == Some(number));
            let found = found.ok_or_else(|| {
                StatusError::service_unavailable(format!(
                    "no service port {number} found for service {}",
                    quote(name)
                ))
            })?;
            found.str_at(&["name"])
        }
    };
    let none = |what: &str| {
        let what = format!("no endpoints available for service {}", quote(what));
        StatusError::service_unavailable(what)
    };
    let endpoints = request.find("endpoints", &request.namespace, name).await?;
    let subsets = endpoints.list_at(&["subsets"]);
    if subsets.is_empty() {
        return Err(none(name));
    }
    for subset in any_order(subsets) {
        let mut ports = subset.list_at(&["ports"]).iter();
        let Some(port) = ports.find(|port| port.str_at(&["name"]) == port_name) else { continue };
        let Some(number) = port.at(&["port"]).and_then(Value::as_int) else { continue };
        for endpoint in any_order(subset.list_at(&["addresses"])) {
            let ip = endpoint.str_at(&["ip"]);
            if is_pod(endpoint, request).await && address::check(ip).is_ok() {
                let host = join_host_port(ip, number);
                return Ok(Location { scheme, host, ..Location::default() });
            }
        }
    }
    Err(none(&request.name))
}

/// True if an endpoint's address is that of its target pod: the author of Endpoints could put any address there.
async fn is_pod(endpoint: &Value, request: &ConnectRequest<'_>) -> bool {
    let target = |field| endpoint.str_at(&["targetRef", field]);
    if endpoint.at(&["targetRef"]).is_none() || target("namespace") != request.namespace {
        return false;
    }
    let found = request.find("pods", &request.namespace, target("name")).await;
    let Ok(pod) = found else { return false };
    let mut ips = pod.list_at(&["status", "podIPs"]).iter();
    ips.any(|ip| ip.str_at(&["ip"]) == endpoint.str_at(&["ip"]))
}

/// Target in a path: `name`, `name:port` or `scheme:name:port`.
struct Target<'n> {
    scheme: &'static str,
    name: &'n str,
    port: &'n str,
}

impl<'n> Target<'n> {
    fn parse(text: &'n str, kind: &str) -> Result<Self, StatusError> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match parts[..] {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => return Err(invalid(kind, text)),
        };
        let scheme = match scheme {
            "" | "http" => "http",
            "https" => "https",
            _ => return Err(invalid(kind, text)),
        };
        if name.is_empty() { Err(invalid(kind, text)) } else { Ok(Target { scheme, name, port }) }
    }
}

fn invalid(kind: &str, text: &str) -> StatusError {
    StatusError::bad_request(format!("invalid {kind} request {}", quote(text)))
}

/// Parses a port number; digits only.
fn number(port: &str) -> Option<u16> {
    port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse().ok()).flatten()
}

/// All items, from a random one on. The choice is not a secret, so that the hasher's randomness suffices.
fn any_order(items: &[Value]) -> impl Iterator<Item = &Value> {
    let random = usize::try_from(RandomState::new().hash_one(())).unwrap_or_default();
    let (before, after) = items.split_at(random.checked_rem(items.len()).unwrap_or_default());
    after.iter().chain(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_more_than_a_name() {
        for (text, expected) in [
            ("a", Some(("http", "a", ""))),
            ("a:80", Some(("http", "a", "80"))),
            ("https:a:web", Some(("https", "a", "web"))),
            (":a:", Some(("http", "a", ""))),
            ("ftp:a:1", None),
            ("", None),
            ("http::80", None),
            ("a:b:c:d", None),
        ] {
            let found = Target::parse(text, "pod").ok();
            assert_eq!(found.map(|t| (t.scheme, t.name, t.port)), expected, "{text}");
        }
        assert_eq!(number("80"), Some(80));
        for port in ["+80", "80@example.com", "", "65536", "x"] {
            assert_eq!(number(port), None, "{port}");
        }
    }
}
