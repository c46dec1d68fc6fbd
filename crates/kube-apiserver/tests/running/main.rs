//! The program, running, as its clients see it.
#![allow(clippy::unwrap_used)]

mod client;
mod hostile;
mod protocol;
mod shutdown;

use std::future::Future;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// A server on a folder of its own.
struct Server {
    process: Child,
    folder: TempDir,
    port: u16,
    /// For clients that may do everything.
    tls: ClientConfig,
}

impl Server {
    async fn start(flags: &[&str]) -> Self {
        Server::start_on(tempfile::tempdir().unwrap(), flags).await
    }

    /// Starts on the folder of an earlier server.
    async fn start_on(folder: TempDir, flags: &[&str]) -> Self {
        let port = free_port();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_kube-apiserver"))
            .arg(format!("--data-dir={}", folder.path().join("data").display()))
            .arg(format!("--secure-port={port}"))
            .arg("--bind-address=127.0.0.1")
            .args(flags)
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut starting = Starting { process, folder, port };
        let tls = soon(async {
            loop {
                if let Some(tls) = starting.ready().await {
                    return tls;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let tls = tls.await;
        let Starting { process, folder, port } = starting;
        Server { process, folder, port, tls }
    }

    /// How much memory the process has, in bytes.
    fn resident(&self) -> u64 {
        let id = self.process.id().unwrap();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    fn terminate(&self) {
        let id = rustix::process::Pid::from_raw(self.process.id().unwrap() as i32).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    }

    /// Waits for the end of a server that was told to stop.
    async fn ended(mut self) -> (ExitStatus, TempDir) {
        (soon(self.process.wait()).await.unwrap(), self.folder)
    }
}

struct Starting {
    process: Child,
    folder: TempDir,
    port: u16,
}

impl Starting {
    async fn ready(&mut self) -> Option<ClientConfig> {
        if let Some(status) = self.process.try_wait().unwrap() {
            let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
            panic!("it ended, {status}:\n{log}");
        }
        let tls = admin(&self.folder.path().join("data/pki"))?;
        let mut client =
            client::Client::connect(self.port, &tls, client::Version::Http1).await.ok()?;
        let namespace = client.get("/api/v1/namespaces/default").await.ok()?;
        (client.get("/readyz").await.ok()?.status() == 200 && namespace.status() == 200)
            .then_some(tls)
    }
}

/// The TLS of an administrator, once the server has made the keys.
fn admin(folder: &Path) -> Option<ClientConfig> {
    let file = |name: &str| -> PathBuf { folder.join(name) };
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("ca.crt")).ok()?).ok()?;
    let chain = vec![CertificateDer::from_pem_file(file("admin.crt")).ok()?];
    let key = PrivateKeyDer::from_pem_file(file("admin.key")).ok()?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    builder.ok()?.with_root_certificates(roots).with_client_auth_cert(chain, key).ok()
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// Fails a test that waits for something that does not come.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what).await.expect("this takes too long")
}
