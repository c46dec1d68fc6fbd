//! Clusters of kubeconfig files.

use std::path::Path;

use kevel_api::value::{Map, Value};
use kevel_codec::base64;

use crate::{ConfigFault, Error, ProxyUrl, data, flag, path, text, unreadable};

/// Schemes of proxies that client-go knows.
const PROXY_SCHEMES: [&str; 3] = ["http", "https", "socks5"];

/// Name of the extension of a cluster that its credential plug-ins are given.
const EXEC_EXTENSION: &str = "client.authentication.k8s.io/exec";

/// A server, and how it is verified.
#[derive(Clone, Debug, Default)]
pub struct ClusterEntry {
    /// URL of the server.
    pub server: String,
    /// CA bundle (PEM).
    pub ca: Option<Vec<u8>>,
    /// Name that its certificate must have, if not that of the URL.
    pub server_name: Option<String>,
    /// Skip verification.
    pub insecure_skip_tls_verify: bool,
    /// Proxy that connections go through.
    pub proxy: Option<ProxyUrl>,
    /// Description of the cluster for credential plug-ins (`provideClusterInfo`).
    pub(crate) described: Value,
}

impl ClusterEntry {
    pub(crate) fn read(cluster: &Value, folder: &Path) -> Result<Self, Error> {
        let ca = match data(cluster, "certificate-authority-data")? {
            Some(ca) => Some(ca),
            None => match path(cluster, "certificate-authority", folder) {
                Some(path) => match std::fs::read(&path) {
                    Ok(ca) => Some(ca),
                    Err(error) => return Err(Error::File { path, error }),
                },
                None => None,
            },
        };
        let insecure_skip_tls_verify = flag(cluster, "insecure-skip-tls-verify");
        if ca.is_some() && insecure_skip_tls_verify {
            return Err(Error::InsecureWithCa);
        }
        Ok(ClusterEntry {
            server: cluster.str_at(&["server"]).to_owned(),
            described: described(cluster, ca.as_deref()),
            ca,
            server_name: text(cluster, "tls-server-name").map(str::to_owned),
            insecure_skip_tls_verify,
            proxy: text(cluster, "proxy-url").map(ProxyUrl::parse).transpose()?,
        })
    }

    /// Whether the server is spoken to with TLS.
    pub(crate) fn is_secure(&self) -> bool {
        let scheme = self.server.trim().split_once("://").map_or("", |(scheme, _)| scheme);
        scheme.eq_ignore_ascii_case("https")
    }
}

/// The cluster as `spec.cluster` of an ExecCredential.
fn described(cluster: &Value, ca: Option<&[u8]>) -> Value {
    let mut out = Map::new();
    let copied = ["server", "tls-server-name", "proxy-url"];
    let fields = copied.into_iter().chain(["insecure-skip-tls-verify", "disable-compression"]);
    for field in fields {
        if let Some(value) = cluster.at(&[field]).filter(|value| !value.is_empty()) {
            out.insert(field, value.clone());
        }
    }
    if let Some(ca) = ca {
        out.insert("certificate-authority-data", base64::encode(ca).as_str().into());
    }
    let named = |entry: &&Value| entry.str_at(&["name"]) == EXEC_EXTENSION;
    let config = cluster.list_at(&["extensions"]).iter().find(named);
    if let Some(config) = config.and_then(|config| config.at(&["extension"])) {
        out.insert("config", config.clone());
    }
    Value::Map(out)
}

/// Faults of a cluster.
pub(crate) fn faults(cluster: &Value, name: &str, folder: &Path) -> Vec<ConfigFault> {
    if cluster.is_empty() {
        return vec![ConfigFault::EmptyCluster];
    }
    let owner = name.to_owned();
    let mut faults = Vec::new();
    if text(cluster, "server").is_none() {
        faults.push(if name.is_empty() {
            ConfigFault::NoDefaultServer
        } else {
            ConfigFault::NoServer(owner)
        });
    }
    if let Some(url) = text(cluster, "proxy-url")
        && let Some(reason) = proxy_fault(url)
    {
        faults.push(ConfigFault::ProxyUrl { url: url.into(), cluster: name.into(), reason });
    }
    let file = path(cluster, "certificate-authority", folder);
    if file.is_some() && text(cluster, "certificate-authority-data").is_some() {
        let (data, file) = ("certificate-authority-data", "certificate-authority");
        faults.push(ConfigFault::Both { data, file, owner: name.to_owned() });
    }
    faults.extend(unreadable("certificate-authority", file.as_deref(), name));
    faults
}

/// Fault of a proxy's URL.
fn proxy_fault(url: &str) -> Option<String> {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme).to_ascii_lowercase();
    let known = PROXY_SCHEMES.contains(&scheme.as_str());
    let all = PROXY_SCHEMES.join(", ");
    (!known).then(|| format!("unsupported scheme {scheme:?}, must be one of: {all}"))
}
