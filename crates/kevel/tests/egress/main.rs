//! Ways out of the server: everything that it asks, through proxies of the tests' own.

#![allow(clippy::unwrap_used)]

#[path = "../streams/backend.rs"]
#[allow(dead_code)] // Other tests ask it for more.
mod backend;
mod cluster;
mod control_plane;
#[path = "../aggregator/extension_server.rs"]
#[allow(dead_code)]
mod extension_server;
mod failures;
mod grpc_proxy;
#[path = "../admission_webhooks/hook_server.rs"]
#[allow(dead_code)]
mod hook_server;
mod konnectivity;
mod proxy;

use std::path::Path;

use kevel_streaming::channel::{STDOUT, V5};
use kevel_streaming::testing::Kubelet;
use kevel_streaming::testing::client::{WebSocketCommand, websocket};
use kevel_streaming::upgrade::Rewound;
use kevel_test_support::{Ca, Cluster, soon, write_pair};
use proxy::{Proxy, Way, server_tls};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Host name of the kubelet. Only a proxy can resolve it.
const KUBELET: &str = "kubelet.invalid";

/// A server whose nodes are behind a proxy.
struct Behind {
    cluster: Cluster,
    proxy: Proxy,
    kubelet: Kubelet,
}

/// A server that reaches the cluster through a proxy, and a node with a pod there.
async fn start(way: Way) -> Behind {
    let folder = tempfile::tempdir().unwrap();
    let (proxy, connection) = Proxy::start(way, folder.path()).await;
    start_behind(folder, proxy, &connection, KUBELET).await
}

/// The same, where the proxy is reached by a connection as it is said, and the kubelet has a name of its own.
async fn start_behind(folder: TempDir, proxy: Proxy, connection: &str, name: &str) -> Behind {
    let egress = configure(folder.path(), &[("cluster", connection)]);
    let (kubelets, clients) = (Ca::new("kubelets"), Ca::new("clients of kubelets"));
    std::fs::write(folder.path().join("kubelets.crt"), &kubelets.pem).unwrap();
    write_pair(folder.path(), "client", &clients.client("apiserver"));
    let front_proxy = Ca::new("front-proxy");
    std::fs::write(folder.path().join("front-proxy.crt"), &front_proxy.pem).unwrap();
    write_pair(folder.path(), "proxy", &front_proxy.client("aggregator"));
    let file = |name: &str| folder.path().join(name).display().to_string();
    let flags = vec![
        egress,
        format!("--kubelet-certificate-authority={}", file("kubelets.crt")),
        format!("--kubelet-client-certificate={}", file("client.crt")),
        format!("--kubelet-client-key={}", file("client.key")),
        "--kubelet-preferred-address-types=Hostname".to_owned(),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--enable-aggregator-routing".to_owned(),
        format!("--proxy-client-cert-file={}", file("proxy.crt")),
        format!("--proxy-client-key-file={}", file("proxy.key")),
    ];
    let acceptor = server_tls(&kubelets.server(name), &clients.pem);
    let begin = move |io: TcpStream| {
        let acceptor = acceptor.clone();
        async move { acceptor.accept(io).await }
    };
    let kubelet = Kubelet::start_on("127.0.0.1:0", begin).await.unwrap();
    let behind = Behind { cluster: Cluster::on(folder, flags).await, proxy, kubelet };
    behind.create_node(name).await;
    behind
}

/// Writes a configuration: which network is reached by which connection. Returns the flag.
fn configure(folder: &Path, selections: &[(&str, &str)]) -> String {
    let each = selections.iter();
    let each = each.map(|(name, way)| format!("- {{name: {name}, connection: {way}}}\n"));
    let text = format!(
        "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n{}",
        each.collect::<String>()
    );
    let file = folder.join("egress.yaml");
    std::fs::write(&file, text).unwrap();
    format!("--egress-selector-config-file={}", file.display())
}

impl Behind {
    /// A node, and a pod on it.
    async fn create_node(&self, hostname: &str) {
        let port = self.kubelet.address.port();
        self.proxy.route(&format!("{KUBELET}:{port}"), self.kubelet.address);
        let node = json!({
            "metadata": {"name": "n"},
            "status": {
                "addresses": [{"type": "Hostname", "address": hostname}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            },
        });
        self.cluster.admin.create("/api/v1/nodes", &node).await;
        let pod = json!({
            "metadata": {"name": "p"},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        });
        self.cluster.admin.create(PODS, &pod).await;
    }

    /// The kubelet's name and port.
    fn kubelet_address(&self) -> String {
        format!("{KUBELET}:{}", self.kubelet.address.port())
    }

    /// A Service with an endpoint that only a proxy can reach.
    async fn create_service(&self, name: &str, ip: &str, port: u16) {
        let service = json!({
            "metadata": {"name": name}, "spec": {"ports": [{"name": "https", "port": 443}]},
        });
        self.cluster.admin.create("/api/v1/namespaces/default/services", &service).await;
        let slice = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": port}],
            "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
        });
        let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        self.cluster.admin.create(slices, &slice).await;
    }

    /// Log of a pod.
    async fn log(&self) -> (u16, String) {
        let path = format!("{PODS}/p/log");
        let answer = soon(self.cluster.admin.raw("GET", &path, &[], "")).await;
        (answer.status().as_u16(), answer.body().clone())
    }

    /// Output of a command in the pod.
    async fn exec(&self, command: &str, stdin: &[u8]) -> Vec<u8> {
        let mut running = self.begin_exec(command).await;
        soon(running.converse(stdin, |_| false)).await.unwrap();
        running.heard(STDOUT).to_vec()
    }

    /// A command in the pod.
    async fn begin_exec(&self, command: &str) -> WebSocketCommand<Rewound<TlsStream<TcpStream>>> {
        let target = format!("https://127.0.0.1{PODS}/p/exec?stdin=1&stdout=1&{command}");
        let io = self.cluster.connect().await;
        let (_, socket) = soon(websocket(io, target.parse().unwrap(), V5.name)).await.unwrap();
        WebSocketCommand::new(socket, V5)
    }

    /// The number that a metric shows.
    async fn metric(&self, series: &str) -> f64 {
        let metrics = self.cluster.metrics().await;
        let line = metrics.lines().find(|line| line.starts_with(series));
        line.map_or(0.0, |line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
    }
}

/// The message of a Status.
fn message(text: &str) -> String {
    let status: Value = serde_json::from_str(text).unwrap_or_default();
    status["message"].as_str().unwrap_or(text).to_owned()
}
