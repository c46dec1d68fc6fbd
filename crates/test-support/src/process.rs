//! Server program in a process of its own.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::etcd::flags_on_etcd;
use crate::{EtcdServer, free_port, soon, wire};

/// `kube-apiserver` on a folder of its own, killed when dropped.
#[derive(Debug)]
pub struct Server {
    /// The process.
    pub process: Child,
    /// Folder with its data (`data`, with `pki`) and its log.
    pub folder: TempDir,
    /// Port that it serves on.
    pub port: u16,
    /// TLS configuration of the administrator.
    pub tls: ClientConfig,
}

impl Server {
    /// Starts a server on a new folder, and waits until it is ready.
    pub async fn start(flags: &[&str]) -> Self {
        Server::start_on(tempfile::tempdir().unwrap(), flags).await
    }

    /// Starts a server on the folder of an earlier one.
    pub async fn start_on(folder: TempDir, flags: &[&str]) -> Self {
        Server::start_until(ready, folder, flags).await
    }

    /// Starts a server on the folder of an earlier one, and waits until it answers, ready or not.
    pub async fn start_unready(folder: TempDir, flags: &[&str]) -> Self {
        Server::start_until(answering, folder, flags).await
    }

    async fn start_until(
        started: impl AsyncFn(&Path, u16) -> Option<ClientConfig>,
        folder: TempDir,
        flags: &[&str],
    ) -> Self {
        // Another process may take the port between the check and the server's start.
        for port in std::iter::repeat_with(free_port).take(10) {
            let begun = Server::start_at(port, folder.path(), flags, &started).await;
            if let Some((process, tls)) = begun {
                return Server { process, folder, port, tls };
            }
        }
        panic!("no port is free");
    }

    /// Starts a server on etcd, with keys from an earlier server without flags: on etcd they must be given.
    pub async fn start_with_etcd(etcd: &EtcdServer) -> Self {
        Server::start_with_etcd_and(etcd, &[]).await
    }

    /// Starts a server on etcd, with more flags.
    pub async fn start_with_etcd_and(etcd: &EtcdServer, more: &[&str]) -> Self {
        let folder = Server::start(&["--storage=memory"]).await.kill().await;
        let flags = etcd_flags(folder.path(), &etcd.endpoint);
        let flags = flags.iter().map(String::as_str).chain(more.iter().copied());
        Server::start_on(folder, &flags.collect::<Vec<_>>()).await
    }

    /// Starts a server that must fail to start, and waits for its end. Returns its log.
    pub async fn refused(folder: &Path, flags: &[&str]) -> String {
        let log = tempfile::NamedTempFile::new().unwrap();
        let file = log.reopen().unwrap();
        let mut process = command(free_port(), folder, flags).stderr(file).spawn().unwrap();
        let status = soon(process.wait()).await.unwrap();
        let log = std::fs::read_to_string(log.path()).unwrap();
        assert_eq!(status.code(), Some(1), "{log}");
        log
    }

    /// Starts on a port; `None` if the port is taken.
    async fn start_at(
        port: u16,
        folder: &Path,
        flags: &[&str],
        started: impl AsyncFn(&Path, u16) -> Option<ClientConfig>,
    ) -> Option<(Child, ClientConfig)> {
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let mut process = command(port, folder, flags).stderr(log).spawn().unwrap();
        let tls = soon(async {
            loop {
                if let Some(status) = process.try_wait().unwrap() {
                    let log = std::fs::read_to_string(folder.join("log")).unwrap();
                    assert!(log.contains("Address already in use"), "it ended, {status}:\n{log}");
                    return None;
                }
                if let Some(tls) = started(folder, port).await {
                    return Some(tls);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let tls = tls.await?;
        Some((process, tls))
    }

    /// Resident memory of the process, in bytes.
    pub fn resident(&self) -> u64 {
        let id = self.process.id().unwrap();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        let id = rustix::process::Pid::from_raw(self.process.id().unwrap() as i32).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    }

    /// Kills the server, as a power cut would. Returns its folder.
    pub async fn kill(mut self) -> TempDir {
        soon(self.process.kill()).await.unwrap();
        self.folder
    }

    /// Log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Waits for the end of a server that was told to stop.
    pub async fn ended(mut self) -> (ExitStatus, TempDir) {
        (soon(self.process.wait()).await.unwrap(), self.folder)
    }
}

/// Command of a server on a folder, with the loosest umask: file permissions must not depend on it.
fn command(port: u16, folder: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", r#"umask 000; exec "$0" "$@""#])
        .arg(executable())
        .arg(format!("--data-dir={}", folder.join("data").display()))
        .arg(format!("--secure-port={port}"))
        .arg("--bind-address=127.0.0.1")
        .args(flags)
        .stdout(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Path of the program, which cargo builds next to the folder of the test programs.
fn executable() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap();
    let program = folder.join("kube-apiserver");
    assert!(program.is_file(), "no {}: cargo build", program.display());
    program
}

/// Flags of a server on etcd, with the keys that a server without flags has made in `folder`.
pub fn etcd_flags(folder: &Path, endpoints: &str) -> Vec<String> {
    flags_on_etcd(&folder.join("data/pki"), endpoints)
}

/// TLS configuration of the administrator, once the server in `folder` is ready.
pub async fn ready(folder: &Path, port: u16) -> Option<ClientConfig> {
    let tls = admin(&folder.join("data/pki"))?;
    let mut client = wire::Client::connect(port, &tls, wire::Version::Http1).await.ok()?;
    let namespace = client.get("/api/v1/namespaces/default").await.ok()?;
    (client.get("/readyz").await.ok()?.status() == 200 && namespace.status() == 200).then_some(tls)
}

/// TLS configuration of the administrator, once the server in `folder` answers at all.
async fn answering(folder: &Path, port: u16) -> Option<ClientConfig> {
    let tls = admin(&folder.join("data/pki"))?;
    let mut client = wire::Client::connect(port, &tls, wire::Version::Http1).await.ok()?;
    (client.get("/livez/ping").await.ok()?.status() == 200).then_some(tls)
}

/// TLS configuration of the administrator, once the server has made the keys.
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
