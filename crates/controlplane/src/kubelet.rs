//! Connections to kubelets (upstream: `pkg/kubelet/client`).

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_server::connecter::ConnectRequest;
use kevel_server::proxy::{Location, Transport, TransportConfig, join_host_port, unknown};

/// Configuration of kubelet connections (upstream: KubeletClientConfig).
#[derive(Clone, Debug)]
pub struct KubeletClientConfig {
    /// Port of kubelets whose Node reports none (`--kubelet-port`).
    pub port: u16,
    /// Types of node addresses by preference (`--kubelet-preferred-address-types`).
    pub preferred_address_types: Vec<String>,
    /// TLS of the connections: CA bundle and client certificate.
    pub transport: TransportConfig,
}

/// Resolver of a node's kubelet by the Node's status.
#[derive(Debug)]
pub struct NodeConnectionInfoGetter {
    port: u16,
    preferred_address_types: Vec<String>,
    transport: Arc<Transport>,
    insecure: Arc<Transport>,
}

/// Connection info of a kubelet.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// Host name or address.
    pub hostname: String,
    /// Port.
    pub port: u16,
    /// Transport that verifies the kubelet's certificate.
    pub transport: Arc<Transport>,
    /// Transport without verification of the certificate, for clients that request it.
    pub insecure_skip_tls_verify_transport: Arc<Transport>,
    /// `declaredFeatures` of the Node.
    pub features: Vec<String>,
}

impl NodeConnectionInfoGetter {
    /// Loads the certificates. Without a CA, server certificates are not verified, as in the reference.
    pub fn new(config: KubeletClientConfig) -> Result<Self, String> {
        let insecure = TransportConfig { ca_file: None, ..config.transport.clone() };
        Ok(NodeConnectionInfoGetter {
            port: config.port,
            preferred_address_types: config.preferred_address_types,
            transport: Arc::new(Transport::new(&config.transport)?),
            insecure: Arc::new(Transport::new(&insecure)?),
        })
    }

    /// Connection info of a node's kubelet, for a connect request.
    pub async fn connection_info(
        &self,
        request: &ConnectRequest<'_>,
        name: &str,
    ) -> Result<ConnectionInfo, StatusError> {
        let node = request.find("nodes", "", name).await?;
        let hostname = self.preferred_address(&node).map_err(unknown)?;
        let reported = node.at(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"]);
        let reported = reported.and_then(Value::as_int).and_then(|port| u16::try_from(port).ok());
        let features = node.list_at(&["status", "declaredFeatures"]).iter();
        Ok(ConnectionInfo {
            hostname: hostname.to_owned(),
            port: reported.filter(|port| *port > 0).unwrap_or(self.port),
            transport: self.transport.clone(),
            insecure_skip_tls_verify_transport: self.insecure.clone(),
            features: features.filter_map(|name| name.as_str().map(str::to_owned)).collect(),
        })
    }

    fn preferred_address<'n>(&self, node: &'n Value) -> Result<&'n str, String> {
        let addresses = node.list_at(&["status", "addresses"]);
        let of_type = |ty: &String| addresses.iter().find(|a| a.str_at(&["type"]) == ty);
        let found = self.preferred_address_types.iter().find_map(of_type);
        found.map(|address| address.str_at(&["address"])).ok_or_else(|| {
            let known = addresses.iter().map(|address| {
                format!("{{{} {}}}", address.str_at(&["type"]), address.str_at(&["address"]))
            });
            let known = known.collect::<Vec<_>>().join(" ");
            format!("no preferred addresses found; known addresses: [{known}]")
        })
    }
}

impl ConnectionInfo {
    /// URL at the kubelet.
    pub fn location(&self, path: String, query: String) -> Location {
        let host = join_host_port(&self.hostname, self.port);
        Location { scheme: "https", host, path, query }
    }
}

#[cfg(test)]
mod tests {
    use kevel_codec::json::{Unknown, decode_any};

    use super::*;

    #[test]
    fn a_node_is_reached_where_that_is_liked_best() {
        let config = |types: &[&str]| KubeletClientConfig {
            port: 10250,
            preferred_address_types: types.iter().map(|ty| (*ty).to_owned()).collect(),
            transport: TransportConfig::default(),
        };
        let node = r#"{"status":{"addresses":[{"type":"InternalIP","address":"10.0.0.1"},
            {"type":"Hostname","address":"a"},{"type":"InternalIP","address":"fd00::1"}]}}"#;
        let node = decode_any(node.as_bytes(), Unknown::Ignore).unwrap().value;
        let unknown = "no preferred addresses found; known addresses: [{InternalIP 10.0.0.1} \
                       {Hostname a} {InternalIP fd00::1}]";
        for (types, expected) in [
            (&["Hostname", "InternalIP"][..], Ok("a")),
            (&["InternalDNS", "InternalIP"], Ok("10.0.0.1")),
            (&["ExternalIP"], Err(unknown)),
            (&[], Err(unknown)),
        ] {
            let getter = NodeConnectionInfoGetter::new(config(types)).unwrap();
            let found = getter.preferred_address(&node);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{types:?}");
        }
    }
}
