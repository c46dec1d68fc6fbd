//! Real etcd for tests.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::{free_port, program};

/// An etcd of a test, killed when dropped.
#[derive(Debug)]
pub struct EtcdServer {
    process: Child,
    program: PathBuf,
    arguments: Vec<String>,
    /// URL for clients.
    pub endpoint: String,
    /// Data folder.
    pub data: PathBuf,
}

impl EtcdServer {
    /// Starts an etcd on a folder. Without an etcd program the running test is skipped.
    pub fn start(folder: &Path) -> Option<EtcdServer> {
        EtcdServer::start_with(folder, "http", &[])
    }

    /// Starts an etcd that serves clients over `scheme`, with more flags.
    pub fn start_with(folder: &Path, scheme: &str, flags: &[String]) -> Option<EtcdServer> {
        let program = program("etcd")?;
        let (client, peer) = (free_port(), free_port());
        let (client, peer) =
            (format!("{scheme}://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let data = folder.join("etcd");
        let mut arguments = vec![
            format!("--data-dir={}", data.display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            // Data that a killed process has written persist; only a power cut could lose them.
            "--unsafe-no-fsync".to_owned(),
            "--log-level=error".to_owned(),
        ];
        arguments.extend_from_slice(flags);
        let process = spawn(&program, &arguments);
        Some(EtcdServer { process, program, arguments, endpoint: client, data })
    }

    /// Process ID.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Kills the process (SIGKILL).
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Kills the process and starts it again on its data.
    pub fn restart(&mut self) {
        self.kill();
        self.process = spawn(&self.program, &self.arguments);
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(program: &Path, arguments: &[String]) -> Child {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("etcd does not start")
}

/// Flags of a server on etcd, with the keys that an earlier server without flags has made.
#[cfg(any(feature = "cluster", feature = "program"))]
pub(crate) fn flags_on_etcd(pki: &Path, endpoints: &str) -> Vec<String> {
    let file = |name: &str| pki.join(name).display().to_string();
    vec![
        format!("--etcd-servers={endpoints}"),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--tls-cert-file={}", file("apiserver.crt")),
        format!("--tls-private-key-file={}", file("apiserver.key")),
        format!("--service-account-key-file={}", file("sa.pub")),
        format!("--service-account-signing-key-file={}", file("sa.key")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
    ]
}
