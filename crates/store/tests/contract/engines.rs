//! The engines under test.

use std::{ops::Deref, sync::Arc, time::Duration};

use kevel_store::{
    Engine, Entry, Event, Revision, Watch, WatchResponse,
    embedded::{Embedded, Options},
    etcd::{self, Etcd},
};
use kevel_test_support::{EtcdServer, PATIENCE, until};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::outside::Outside;

/// A fresh, empty store.
pub struct Store {
    engine: Arc<dyn Engine>,
    /// The etcd server, for tests that stop it.
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
            endpoints: vec![server.endpoint.clone()],
            compaction_interval: None,
            ..etcd::Options::default()
        };
        let engine = Etcd::connect(options).await.unwrap();
        // Health succeeds once the server serves.
        until(async || engine.health().await.is_ok()).await;
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

/// The next response, within a time limit.
pub async fn next(watch: &mut Watch) -> kevel_store::Result<WatchResponse> {
    timeout(PATIENCE, watch.next()).await.expect("the watch is silent")
}

/// All events up to an existing revision, of a watch that has reached `reached`.
pub async fn events_until(
    watch: &mut Watch,
    mut reached: Revision,
    revision: Revision,
) -> Vec<Event> {
    let follow = async {
        let mut events = Vec::new();
        while reached < revision {
            watch.request_progress();
            // Progress is a hint: request it again when it does not come.
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
