//! The engines under test, and the etcd that one of them needs.

use std::{
    net::TcpListener,
    ops::Deref,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Once,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

use kevel_store::{
    Engine, Entry, Event, Revision, Watch, WatchResponse,
    embedded::{Embedded, Options},
    etcd::{self, Etcd},
};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::outside::Outside;

/// Nothing in these tests takes this long unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A fresh, empty store.
pub struct Store {
    engine: Arc<dyn Engine>,
    /// The server behind it, for those tests that stop it.
    pub etcd: Option<tokio::sync::Mutex<EtcdServer>>,
    _directory: Option<TempDir>,
}

impl Store {
    pub async fn embedded() -> Option<Store> {
        let directory = tempfile::tempdir().unwrap();
        let engine = Embedded::open(directory.path(), Options::default()).unwrap();
        Some(Store { engine: Arc::new(engine), etcd: None, _directory: Some(directory) })
    }

    pub async fn memory() -> Option<Store> {
        let engine = Embedded::memory(Options::default()).unwrap();
        Some(Store { engine: Arc::new(engine), etcd: None, _directory: None })
    }

    pub async fn etcd() -> Option<Store> {
        let directory = tempfile::tempdir().unwrap();
        let server = EtcdServer::start(directory.path())?;
        let options = etcd::Options {
            endpoints: vec![server.endpoint()],
            compaction_interval: None,
            ..etcd::Options::default()
        };
        let engine = Etcd::connect(options).await.unwrap();
        // Health succeeds once the server serves.
        timeout(PATIENCE, async { while engine.health().await.is_err() {} }).await.unwrap();
        Some(Store {
            engine: Arc::new(engine),
            etcd: Some(tokio::sync::Mutex::new(server)),
            _directory: Some(directory),
        })
    }

    pub async fn outside() -> Option<Store> {
        Some(Store { engine: Arc::new(Outside::new()), etcd: None, _directory: None })
    }

    pub fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone()
    }

    pub async fn put(&self, key: &str, value: &str) -> Revision {
        match self.get(key.as_bytes(), None).await.unwrap().entry {
            None => self.create(key.as_bytes(), owned(value), None).await.unwrap(),
            Some(entry) => {
                self.update(key.as_bytes(), owned(value), entry.mod_revision, None).await.unwrap()
            }
        }
    }

    pub async fn remove(&self, key: &str) -> Revision {
        let entry = self.get(key.as_bytes(), None).await.unwrap().entry.unwrap();
        self.delete(key.as_bytes(), entry.mod_revision).await.unwrap()
    }
}

impl Deref for Store {
    type Target = dyn Engine;

    fn deref(&self) -> &Self::Target {
        &*self.engine
    }
}

pub fn owned(value: &str) -> bytes::Bytes {
    value.to_owned().into()
}

/// An entry as text: `key=value@created/modified`.
pub fn show(entry: &Entry) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (key, value) = (text(&entry.key), text(&entry.value));
    format!("{key}={value}@{}/{}", entry.create_revision, entry.mod_revision)
}

/// An event as text: `revision: previous -> current`.
pub fn show_event(event: &Event) -> String {
    let side = |entry: &Option<Entry>| entry.as_ref().map_or("none".into(), show);
    format!("{}: {} -> {}", event.revision, side(&event.previous), side(&event.current))
}

/// The next response, which has to come.
pub async fn next(watch: &mut Watch) -> kevel_store::Result<WatchResponse> {
    timeout(PATIENCE, watch.next()).await.expect("the watch is silent")
}

/// All events up to a revision that exists, of a watch that has come as far as `reached`.
pub async fn events_until(
    watch: &mut Watch,
    mut reached: Revision,
    revision: Revision,
) -> Vec<Event> {
    let follow = async {
        let mut events = Vec::new();
        while reached < revision {
            watch.request_progress();
            // Progress is a hint: ask again when it does not come.
            let Ok(response) = timeout(Duration::from_millis(200), watch.next()).await else {
                continue;
            };
            let response = response.unwrap();
            assert!(response.revision >= reached, "progress went back");
            reached = response.revision;
            events.extend(response.events);
        }
        events
    };
    timeout(PATIENCE, follow).await.expect("the watch is silent")
}

/// An etcd of our own, killed when dropped.
pub struct EtcdServer {
    child: Child,
    command: Vec<String>,
    endpoint: String,
    /// Where its data are.
    pub data: PathBuf,
}

impl EtcdServer {
    pub fn start(directory: &Path) -> Option<EtcdServer> {
        EtcdServer::start_with(directory, "http", &[])
    }

    /// Starts one that speaks `scheme` to its clients, with more flags.
    pub fn start_with(
        directory: &Path,
        scheme: &'static str,
        flags: &[String],
    ) -> Option<EtcdServer> {
        let binary = etcd_binary()?;
        let (port, peer) = (free_port(), free_port());
        let (client_url, peer_url) =
            (format!("{scheme}://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
        let mut command: Vec<String> = [
            binary.to_str()?,
            "--data-dir",
            directory.join("etcd").to_str()?,
            "--listen-client-urls",
            &client_url,
            "--advertise-client-urls",
            &client_url,
            "--listen-peer-urls",
            &peer_url,
            "--initial-advertise-peer-urls",
            &peer_url,
            "--initial-cluster",
            &format!("default={peer_url}"),
            "--unsafe-no-fsync",
            "--log-level",
            "error",
        ]
        .map(String::from)
        .into();
        command.extend_from_slice(flags);
        let (child, data) = (spawn(&command), directory.join("etcd"));
        Some(EtcdServer { child, command, endpoint: client_url, data })
    }

    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn(&self.command);
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(command: &[String]) -> Child {
    Command::new(&command[0])
        .args(&command[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("etcd does not start")
}

/// A port that nobody listens on, from below the range that outgoing connections are given, and
/// never the same one twice.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 100) as u16 * 100;
    let candidates = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed));
    candidates.take(1000).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

/// The etcd to test with: `KEVEL_ETCD`, or one that is installed.
fn etcd_binary() -> Option<PathBuf> {
    static SKIPPED: Once = Once::new();
    let named = std::env::var_os("KEVEL_ETCD").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).map(|folder| folder.join("etcd"));
    let found = named.into_iter().chain(installed).find(|file| file.is_file());
    if found.is_none() {
        SKIPPED.call_once(|| eprintln!("SKIPPED the etcd engine: no etcd in KEVEL_ETCD or PATH"));
    }
    found
}
