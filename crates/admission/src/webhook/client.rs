//! Clients of webhooks: endpoints, credentials and shared connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use kevel_api::value::Value;
use kevel_codec::base64;
use kevel_server::egress::{EgressSelector, EgressType};
use kevel_server::webhook::{Client, Endpoint, Users};

/// Resolves a service to host and port (`10.0.0.7:443`), by namespace, name and port (upstream: ServiceResolver).
pub type Resolve = Arc<dyn Fn(&str, &str, i64) -> Result<String, String> + Send + Sync>;

/// Default port of services and URLs.
const HTTPS: i64 = 443;

/// User-Agent of webhook calls.
const USER_AGENT: &str = "kube-apiserver-admission";

/// Makes clients; webhooks with equal `clientConfig` share one, and its connections (upstream: ClientManager).
pub struct ClientManager {
    users: Users,
    resolve: Resolve,
    egress: EgressSelector,
    clients: Mutex<HashMap<ClientConfig, Weak<Client>>>,
}

impl std::fmt::Debug for ClientManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientManager").field("users", &self.users).finish_non_exhaustive()
    }
}

impl ClientManager {
    /// Makes a manager of clients with services resolved by `resolve`, dialled through `egress`, and credentials from a
    /// kubeconfig file, if there is one.
    pub fn new(
        kubeconfig: Option<&Path>,
        resolve: Resolve,
        egress: EgressSelector,
    ) -> Result<Self, String> {
        let users = kubeconfig.map(Users::from_kubeconfig).transpose()?.unwrap_or_default();
        Ok(ClientManager { users, resolve, egress, clients: Mutex::default() })
    }

    /// Client for a `clientConfig`.
    pub(super) fn client(&self, config: &ClientConfig) -> Result<Arc<Client>, String> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(config).and_then(Weak::upgrade) {
            return Ok(client);
        }
        let client = Arc::new(Client::new(self.endpoint(config)?)?);
        clients.retain(|_, client| client.strong_count() > 0);
        clients.insert(config.clone(), Arc::downgrade(&client));
        Ok(client)
    }

    fn endpoint(&self, config: &ClientConfig) -> Result<Endpoint, String> {
        let mut endpoint = match &config.place {
            WebhookEndpointKey::Service { namespace, name, path, port } => {
                let server_name = format!("{name}.{namespace}.svc");
                let dialer = self.egress.service_dialer(namespace, name, *port);
                let (resolve, namespace, name, port) =
                    (self.resolve.clone(), namespace.clone(), name.clone(), *port);
                Endpoint {
                    url: format!("https://{server_name}:{port}/{}", path.trim_start_matches('/')),
                    server_name: Some(server_name),
                    dialer,
                    resolve: Some(Arc::new(move || resolve(&namespace, &name, port))),
                    // One HTTP/2 connection would send all calls to one of the pods behind the service.
                    http1_only: true,
                    ..Endpoint::default()
                }
            }
            WebhookEndpointKey::Url(url) => Endpoint {
                url: url.clone(),
                dialer: self.egress.dialer(EgressType::ControlPlane),
                http1_only: !is_local(url),
                ..Endpoint::default()
            },
            WebhookEndpointKey::Nowhere => {
                return Err("webhook configuration must have either service or URL".to_owned());
            }
        };
        endpoint.ca = config.ca()?;
        endpoint.user_agent = Some(USER_AGENT);
        endpoint.traced = true;
        Ok(endpoint.as_user(self.users.of(&config.host_port())))
    }
}

/// `clientConfig` of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClientConfig {
    place: WebhookEndpointKey,
    /// CA bundle (PEM), in base64.
    ca_bundle: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum WebhookEndpointKey {
    Service { namespace: String, name: String, path: String, port: i64 },
    Url(String),
    Nowhere,
}

impl ClientConfig {
    pub fn new(config: Option<&Value>) -> Self {
        let config = config.unwrap_or(&Value::Null);
        let text = |value: &Value, field: &str| value.str_at(&[field]).to_owned();
        let place = match (config.at(&["service"]), config.str_at(&["url"])) {
            (Some(service), _) => WebhookEndpointKey::Service {
                namespace: text(service, "namespace"),
                name: text(service, "name"),
                path: text(service, "path"),
                port: service.at(&["port"]).and_then(Value::as_int).unwrap_or(HTTPS),
            },
            (None, "") => WebhookEndpointKey::Nowhere,
            (None, url) => WebhookEndpointKey::Url(url.to_owned()),
        };
        ClientConfig { place, ca_bundle: text(config, "caBundle") }
    }

    /// CA bundle (PEM), in base64.
    pub fn ca_bundle(&self) -> &str {
        &self.ca_bundle
    }

    /// CA bundle (PEM); `None` for the system's authorities.
    pub fn ca(&self) -> Result<Option<Vec<u8>>, String> {
        let mut pem = Vec::new();
        let decoded = base64::decode_into(&self.ca_bundle, &mut pem);
        decoded.map_err(|at| format!("caBundle: illegal base64 data at input byte {at}"))?;
        Ok(Some(pem).filter(|pem| !pem.is_empty()))
    }

    /// Host and port by which kubeconfig users for the webhook are named.
    fn host_port(&self) -> String {
        match &self.place {
            WebhookEndpointKey::Service { namespace, name, port, .. } => {
                format!("{name}.{namespace}.svc:{port}")
            }
            WebhookEndpointKey::Url(url) => {
                let authority = authority(url);
                match has_port(authority) {
                    true => authority.to_owned(),
                    false => format!("{authority}:{HTTPS}"),
                }
            }
            WebhookEndpointKey::Nowhere => String::new(),
        }
    }
}

/// Host and port of a URL.
fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

fn has_port(authority: &str) -> bool {
    authority.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether a URL names the local host, where a single server answers.
fn is_local(url: &str) -> bool {
    let authority = authority(url);
    let host = match has_port(authority) {
        true => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
        false => authority,
    };
    let host = host.trim_matches(['[', ']']);
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    is_loopback || host.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use kevel_codec::json::Unknown;
    use kevel_codec::yaml;

    use super::*;

    #[test]
    fn a_webhook_is_where_its_configuration_says() {
        for (config, host_port, local) in [
            ("{service: {namespace: ns, name: hook}}", "hook.ns.svc:443", false),
            ("{service: {namespace: ns, name: hook, port: 8443}}", "hook.ns.svc:8443", false),
            ("{url: 'https://a.example/validate'}", "a.example:443", false),
            ("{url: 'https://a.example:8443/validate'}", "a.example:8443", false),
            ("{url: 'https://LocalHost:8443'}", "LocalHost:8443", true),
            ("{url: 'https://127.0.0.9'}", "127.0.0.9:443", true),
            ("{url: 'https://[::1]:9443/x'}", "[::1]:9443", true),
            ("{url: 'https://10.0.0.1:9443/x'}", "10.0.0.1:9443", false),
        ] {
            let value = yaml::decode_any(config.as_bytes(), Unknown::Report).unwrap().value;
            let config = ClientConfig::new(Some(&value));
            assert_eq!(config.host_port(), host_port);
            assert_eq!(is_local(value.str_at(&["url"])), local, "{host_port}");
        }
    }

    #[test]
    fn who_is_reached_the_same_way_shares_connections() {
        let nowhere: Resolve = Arc::new(|_, _, _| Err("nowhere".into()));
        let manager = ClientManager::new(None, nowhere, EgressSelector::default()).unwrap();
        let config = |text: &str| {
            ClientConfig::new(Some(
                &yaml::decode_any(text.as_bytes(), Unknown::Report).unwrap().value,
            ))
        };
        let one = manager.client(&config("{url: 'https://a:1'}")).unwrap();
        assert!(Arc::ptr_eq(&one, &manager.client(&config("{url: 'https://a:1'}")).unwrap()));
        assert!(!Arc::ptr_eq(&one, &manager.client(&config("{url: 'https://a:2'}")).unwrap()));
        let broken = manager.client(&config("{url: 'https://a:1', caBundle: aGVsbG8=}"));
        assert_eq!(
            broken.unwrap_err(),
            "unable to load root certificates: unable to parse bytes as PEM block"
        );
        assert_eq!(
            manager.client(&config("{}")).unwrap_err(),
            "webhook configuration must have either service or URL"
        );
    }
}
