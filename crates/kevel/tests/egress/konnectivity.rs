//! konnectivity's own proxy server and agent, where they are at hand (`conformance/egress/run` builds them).

use std::path::Path;
use std::process::Stdio;

use kevel_streaming::channel::STDIN;
use kevel_test_support::{Ca, free_port, program, soon, until, write_pair};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::proxy::{Proxy, Way};
use super::start_behind;

/// A proxy server and an agent, which end with this.
struct Konnectivity {
    _server: Child,
    agent: Child,
    admin: u16,
}

impl Konnectivity {
    /// Nothing where one of the programs is missing.
    async fn start(mode: &str, folder: &Path, flags: &[String]) -> Option<Self> {
        let programs = (program("konnectivity-server")?, program("konnectivity-agent")?);
        certificates(folder);
        let file = |name: &str| folder.join(name).display().to_string();
        let [agents, admin, health] = [free_port(), free_port(), free_port()];
        let server = [
            format!("--mode={mode}"),
            format!("--agent-port={agents}"),
            format!("--admin-port={admin}"),
            format!("--health-port={health}"),
            format!("--cluster-cert={}", file("tunnel.crt")),
            format!("--cluster-key={}", file("tunnel.key")),
            format!("--cluster-ca-cert={}", file("tunnels.crt")),
        ];
        let server = spawn(&programs.0, server.iter().chain(flags));
        let agent = [
            "--proxy-server-host=127.0.0.1".to_owned(),
            format!("--proxy-server-port={agents}"),
            format!("--admin-server-port={}", free_port()),
            format!("--health-server-port={}", free_port()),
            format!("--ca-cert={}", file("tunnels.crt")),
            format!("--agent-cert={}", file("tunnel.crt")),
            format!("--agent-key={}", file("tunnel.key")),
            "--sync-interval=100ms".to_owned(),
        ];
        let agent = spawn(&programs.1, agent.iter());
        let konnectivity = Konnectivity { _server: server, agent, admin };
        let ready = "konnectivity_network_proxy_server_ready_backend_connections 1";
        until(async || konnectivity.metrics().await.contains(ready)).await;
        Some(konnectivity)
    }

    /// Metrics of the proxy server.
    async fn metrics(&self) -> String {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut text = String::new();
        if let Ok(mut io) = tokio::net::TcpStream::connect(("127.0.0.1", self.admin)).await {
            let request = b"GET /metrics HTTP/1.0\r\n\r\n";
            if io.write_all(request).await.is_ok() {
                let _ = io.read_to_string(&mut text).await;
            }
        }
        text
    }

    /// Number of connections through it.
    async fn connections(&self) -> u32 {
        let metrics = self.metrics().await;
        let series = "konnectivity_network_proxy_server_established_connections";
        let mut lines = metrics.lines().filter(|line| line.starts_with(series));
        lines.find_map(|line| line.rsplit_once(' ')?.1.parse().ok()).unwrap()
    }
}

fn spawn<'a>(program: &Path, flags: impl Iterator<Item = &'a String>) -> Child {
    let mut command = Command::new(program);
    command.args(flags).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.kill_on_drop(true).spawn().unwrap()
}

/// Each of them is a client of the other.
fn certificates(folder: &Path) {
    let ca = Ca::new("tunnels");
    std::fs::write(folder.join("tunnels.crt"), &ca.pem).unwrap();
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    write_pair(folder, "tunnel", &ca.issue(params));
}

#[tokio::test(flavor = "multi_thread")]
async fn konnectivity_is_spoken_with_by_grpc() {
    let folder = tempfile::tempdir().unwrap();
    let (flags, connection) = on_a_socket("GRPC", folder.path());
    kubelets_behind("grpc", folder, &flags, &connection).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn konnectivity_is_spoken_with_by_connect() {
    let folder = tempfile::tempdir().unwrap();
    let (flags, connection) = on_a_socket("HTTPConnect", folder.path());
    kubelets_behind("http-connect", folder, &flags, &connection).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn konnectivity_is_spoken_with_by_connect_over_tls() {
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (ca, certificate, key) = (file("tunnels.crt"), file("tunnel.crt"), file("tunnel.key"));
    let flags = [
        format!("--server-port={port}"),
        format!("--server-ca-cert={ca}"),
        format!("--server-cert={certificate}"),
        format!("--server-key={key}"),
    ];
    let tls = format!("{{caBundle: {ca}, clientCert: {certificate}, clientKey: {key}}}");
    let tcp = format!("{{url: 'https://127.0.0.1:{port}', tlsConfig: {tls}}}");
    let connection = format!("{{proxyProtocol: HTTPConnect, transport: {{tcp: {tcp}}}}}");
    kubelets_behind("http-connect", folder, &flags, &connection).await;
}

/// The flags of a proxy server on a Unix socket, and the connection that leads there.
fn on_a_socket(protocol: &str, folder: &Path) -> ([String; 2], String) {
    let socket = folder.join("konnectivity.sock").display().to_string();
    let flags = ["--server-port=0".to_owned(), format!("--uds-name={socket}")];
    let transport = format!("{{uds: {{udsName: {socket}}}}}");
    (flags, format!("{{proxyProtocol: {protocol}, transport: {transport}}}"))
}

async fn kubelets_behind(mode: &str, folder: TempDir, flags: &[String], connection: &str) {
    let started = Konnectivity::start(mode, folder.path(), flags).await;
    let Some(mut konnectivity) = started else { return };
    // The agent resolves names as this machine does.
    let (unused, _) = Proxy::start(Way::Tcp, folder.path()).await;
    let behind = start_behind(folder, unused, connection, "localhost").await;
    assert_eq!(behind.log().await, (200, "/containerLogs/default/p/c\n".to_owned()));
    assert_eq!(behind.exec("command=echo&command=hello", b"").await, b"hello\n");
    let sent: Vec<u8> = (0..2_000_000_u32).map(|number| number as u8).collect();
    let heard = behind.exec("command=cat", &sent).await;
    assert!(heard == sent, "{} bytes of {}", heard.len(), sent.len());

    // A client that disconnects is disconnected at the kubelet, too.
    let mut running = Vec::new();
    for _ in 0..10 {
        let mut command = behind.begin_exec("command=cat").await;
        command.say(STDIN, b"x").await.unwrap();
        soon(command.converse(b"", |heard| !heard[1].is_empty())).await.unwrap();
        running.push(command);
    }
    assert!(behind.kubelet.connections() >= 10);
    assert!(konnectivity.connections().await >= 10);
    drop(running);
    // One is kept for logs.
    until(async || behind.kubelet.connections() <= 1).await;

    // Without its agent it cannot connect, and says so.
    let mut command = behind.begin_exec("command=cat").await;
    command.say(STDIN, b"x").await.unwrap();
    soon(command.converse(b"", |heard| !heard[1].is_empty())).await.unwrap();
    konnectivity.agent.kill().await.unwrap();
    soon(command.converse(b"", |_| false)).await.unwrap();
    until(async || behind.kubelet.connections() == 0).await;
    until(async || behind.log().await.0 == 500).await;
    behind.cluster.stop().await;
}
