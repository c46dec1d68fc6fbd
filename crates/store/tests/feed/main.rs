//! The watch cache on an engine that fails at every point: snapshots stay true, events are delivered once, and where
//! neither is possible clients get an error.

// Test helpers may unwrap, too.
#![allow(clippy::unwrap_used)]

mod engine;
mod random;
mod reads;
mod transitions;

use std::collections::BTreeMap;
use std::sync::Arc;

use kevel_store::cache::{
    Cache, Caches, JsonDecode, KeyOrder, Resource, Selection, Snapshot, Watcher,
};

use engine::Model;
use kevel_test_support::soon;

const PODS: &str = "/registry/pods/";
const THINGS: &str = "/registry/things/";
const OBJECT: &str = r#"{"metadata":{"name":"x"}}"#;

struct Fixture {
    model: Model,
    caches: Caches,
    pods: Arc<Cache>,
    things: Arc<Cache>,
}

impl Fixture {
    fn new() -> Fixture {
        let model = Model::empty();
        let caches = Caches::start(Arc::new(model.clone()), "/registry/");
        let (pods, things) = (caches.add(resource(PODS)), caches.add(resource(THINGS)));
        Fixture { model, caches, pods, things }
    }

    async fn loaded() -> Fixture {
        let fixture = Fixture::new();
        fixture.pods.loaded().await.unwrap();
        fixture.things.loaded().await.unwrap();
        fixture
    }

    fn put(&self, name: &str) -> u64 {
        self.model.put(&format!("{PODS}{name}"), OBJECT)
    }

    /// Checks a list of pods against the history.
    fn assert_true(&self, snapshot: &Snapshot) {
        self.assert_true_of(PODS, snapshot);
    }

    /// Checks a list of a resource against the history.
    fn assert_true_of(&self, prefix: &str, snapshot: &Snapshot) {
        let revision = snapshot.revision().0;
        assert_eq!(shown(snapshot), self.model.state_at(prefix, revision), "at {revision}");
    }
}

fn resource(prefix: &str) -> Resource {
    Resource {
        prefix: prefix.to_owned(),
        decode: Arc::new(JsonDecode { order: KeyOrder::Struct }),
        fields: Arc::default(),
        indexed: Vec::new(),
    }
}

fn shown(snapshot: &Snapshot) -> BTreeMap<String, u64> {
    snapshot.range("", None).map(|o| (o.key().to_owned(), o.revision().0)).collect()
}

fn everything() -> Selection {
    Selection::default()
}

/// Revisions of a watcher's next events.
async fn told(watcher: &mut Watcher, count: usize) -> Vec<u64> {
    let mut seen = Vec::new();
    while seen.len() < count {
        soon(watcher.next(&mut seen)).await.unwrap();
    }
    seen.iter().map(|delivery| delivery.event.revision().0).collect()
}

/// Health of the caches.
fn health(caches: &Caches) -> Result<(), String> {
    caches.alive().map_err(|error| error.to_string())?;
    caches.watching()?;
    caches.loading()
}
