//! Ways to nodes and into pods, against a stand-in for a kubelet and servers of the tests' own.

#![allow(clippy::unwrap_used)]

mod backend;
mod commands;
mod component_statuses;
mod early;
mod early_aggregated;
#[path = "../admission_webhooks/hook_server.rs"]
#[allow(dead_code)] // Other tests ask it for more.
mod hook_server;
mod hostile;
mod kubectl;
mod leaks;
mod logs;
mod policy;
mod ports;
mod proxies;

use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::Arc;

use kevel_streaming::testing::Kubelet;
use kevel_test_support::{Ca, Cluster, write_pair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Tokens of users without permissions, unless a test grants some.
const USERS: &str = "jane,jane,1\n";

/// A server, and a node `n` whose kubelet accepts only the server.
struct Node {
    cluster: Cluster,
    kubelet: Kubelet,
    /// Authority of kubelet certificates.
    ca: Ca,
}

/// A server with flags, and a node.
async fn start(flags: &[&str]) -> Node {
    start_with("127.0.0.1", flags).await
}

/// The same, where the kubelet's certificate is for this name or address.
async fn start_with(name: &str, flags: &[&str]) -> Node {
    let folder = tempfile::tempdir().unwrap();
    let (ca, clients) = (Ca::new("kubelets"), Ca::new("clients of kubelets"));
    std::fs::write(folder.path().join("kubelets.crt"), &ca.pem).unwrap();
    std::fs::write(folder.path().join("users.csv"), USERS).unwrap();
    write_pair(folder.path(), "client", &clients.client("apiserver"));
    let file = |name: &str| folder.path().join(name).display().to_string();
    let own = [
        format!("--kubelet-certificate-authority={}", file("kubelets.crt")),
        format!("--kubelet-client-certificate={}", file("client.crt")),
        format!("--kubelet-client-key={}", file("client.key")),
        format!("--token-auth-file={}", file("users.csv")),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
    ];
    let flags = own.into_iter().chain(flags.iter().map(|flag| (*flag).to_owned())).collect();
    let cluster = Cluster::on(folder, flags).await;
    let kubelet = kubelet(&ca.server(name), &clients.pem, IpAddr::V4(Ipv4Addr::UNSPECIFIED)).await;
    let node = Node { cluster, kubelet, ca };
    node.create_node("n", "127.0.0.1").await;
    for pod in ["p", "missing", "moved", "silent"] {
        node.create_pod(pod, &["c"]).await;
    }
    node
}

/// A stand-in that shows a certificate, and takes those that an authority vouches for.
async fn kubelet((certificate, key): &(String, String), clients: &str, address: IpAddr) -> Kubelet {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(clients.as_bytes()).unwrap()).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let begin = move |io: TcpStream| {
        let acceptor = acceptor.clone();
        async move { acceptor.accept(io).await }
    };
    Kubelet::start_on((address, 0), begin).await.unwrap()
}

impl Node {
    /// A node at an address, with the port of the kubelet.
    async fn create_node(&self, name: &str, address: &str) {
        let node = json!({
            "metadata": {"name": name},
            "status": {
                "addresses": [{"type": "InternalIP", "address": address}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": self.kubelet.address.port()}},
            },
        });
        self.cluster.admin.create("/api/v1/nodes", &node).await;
    }

    /// A pod on the node.
    async fn create_pod(&self, name: &str, containers: &[&str]) -> Value {
        let containers: Vec<Value> =
            containers.iter().map(|name| json!({"name": name, "image": "i"})).collect();
        let pod = json!({
            "metadata": {"name": name},
            "spec": {"nodeName": "n", "containers": containers},
        });
        self.cluster.admin.create(PODS, &pod).await
    }

    /// Lets jane use verbs on a resource.
    async fn allow(&self, resource: &str, verbs: &[&str]) {
        let rules = json!([{"apiGroups": [""], "resources": [resource], "verbs": verbs}]);
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let name = resource.replace('/', "-");
        let role = json!({"metadata": {"name": name}, "rules": rules});
        self.cluster.admin.create(&format!("{rbac}/clusterroles"), &role).await;
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "User", "name": "jane"}],
        });
        self.cluster.admin.create(&format!("{rbac}/clusterrolebindings"), &binding).await;
    }

    async fn connect(&self) -> tokio_rustls::client::TlsStream<TcpStream> {
        self.cluster.connect().await
    }
}

/// An address of this machine that others could reach.
fn own_address() -> io::Result<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // Nothing is sent.
    socket.connect((Ipv4Addr::new(198, 51, 100, 1), 9))?;
    Ok(socket.local_addr()?.ip())
}

/// The same, or a line that says why a test was skipped.
fn reachable() -> Option<IpAddr> {
    let address = own_address().ok().filter(|address| !address.is_loopback());
    if address.is_none() {
        kevel_test_support::skip("an address of this machine that is not its own alone");
    }
    address
}
