//! The program in a process of its own.

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
    /// Its data (`data`, with `pki`) and what it logs.
    pub folder: TempDir,
    /// Where it serves.
    pub port: u16,
    /// For clients that may do everything.
    pub tls: ClientConfig,
}

impl Server {
    /// Starts on a folder of its own, and waits until it is ready.
    pub async fn start(flags: &[&str]) -> Self {
        Server::start_on(tempfile::tempdir().unwrap(), flags).await
    }

    /// Starts on the folder of an earlier server.
    pub async fn start_on(folder: TempDir, flags: &[&str]) -> Self {
        Server::start_until(ready, folder, flags).await
    }

    /// Starts on the folder of an earlier server, and waits until it answers, ready or not.
    pub async fn start_unready(folder: TempDir, flags: &[&str]) -> Self {
        Server::start_until(answering, folder, flags).await
    }

    async fn start_until(
        started: impl AsyncFn(&Path, u16) -> Option<ClientConfig>,
        folder: TempDir,
        flags: &[&str],
    ) -> Self {
        // Somebody may take the port between our look at it and the server's.
        for port in std::iter::repeat_with(free_port).take(10) {
            let begun = Server::start_at(port, folder.path(), flags, &started).await;
            if let Some((process, tls)) = begun {
                return Server { process, folder, port, tls };
            }
        }
        panic!("no port is free");
    }

    /// Starts on etcd. Its keys are those that a server without flags makes for itself: on etcd they have to be
    /// given.
    pub async fn start_with_etcd(etcd: &EtcdServer) -> Self {
        Server::start_with_etcd_and(etcd, &[]).await
    }

    /// The same with more flags.
    pub async fn start_with_etcd_and(etcd: &EtcdServer, more: &[&str]) -> Self {
        let folder = Server::start(&["--storage=memory"]).await.kill().await;
        let flags = etcd_flags(folder.path(), &etcd.endpoint);
        let flags = flags.iter().map(String::as_str).chain(more.iter().copied());
        Server::start_on(folder, &flags.collect::<Vec<_>>()).await
    }

    /// Starts on a folder where it must not work, and waits for its end. Returns what it has logged.
    pub async fn refused(folder: &Path, flags: &[&str]) -> String {
        let log = tempfile::NamedTempFile::new().unwrap();
        let file = log.reopen().unwrap();
        let mut process = command(free_port(), folder, flags).stderr(file).spawn().unwrap();
        let status = soon(process.wait()).await.unwrap();
        let log = std::fs::read_to_string(log.path()).unwrap();
        assert_eq!(status.code(), Some(1), "{log}");
        log
    }

    /// None if the port is taken.
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

    /// How much memory the process has, in bytes.
    pub fn resident(&self) -> u64 {
        let id = self.process.id().unwrap();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Tells it to stop (SIGTERM).
    pub fn terminate(&self) {
        let id = rustix::process::Pid::from_raw(self.process.id().unwrap() as i32).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    }

    /// Ends the server as a power cut does, without a word. What is left is its folder.
    pub async fn kill(mut self) -> TempDir {
        soon(self.process.kill()).await.unwrap();
        self.folder
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Waits for the end of a server that was told to stop.
    pub async fn ended(mut self) -> (ExitStatus, TempDir) {
        (soon(self.process.wait()).await.unwrap(), self.folder)
    }
}

/// The server on a folder. With the loosest umask: what it keeps to itself must not depend on it.
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

/// The program, which cargo has built beside the folder of the tests' programs.
fn executable() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap();
    let program = folder.join("kube-apiserver");
    assert!(program.is_file(), "no {}: cargo build", program.display());
    program
}

/// The flags of a server on etcd, with the keys that one without flags has made in `folder`.
pub fn etcd_flags(folder: &Path, endpoints: &str) -> Vec<String> {
    flags_on_etcd(&folder.join("data/pki"), endpoints)
}

/// The TLS of an administrator, once the server in `folder` answers one.
pub async fn ready(folder: &Path, port: u16) -> Option<ClientConfig> {
    let tls = admin(&folder.join("data/pki"))?;
    let mut client = wire::Client::connect(port, &tls, wire::Version::Http1).await.ok()?;
    let namespace = client.get("/api/v1/namespaces/default").await.ok()?;
    (client.get("/readyz").await.ok()?.status() == 200 && namespace.status() == 200).then_some(tls)
}

/// The TLS of an administrator, once the server in `folder` answers anything.
async fn answering(folder: &Path, port: u16) -> Option<ClientConfig> {
    let tls = admin(&folder.join("data/pki"))?;
    let mut client = wire::Client::connect(port, &tls, wire::Version::Http1).await.ok()?;
    (client.get("/livez/ping").await.ok()?.status() == 200).then_some(tls)
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
