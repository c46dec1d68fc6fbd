//! Keeps the graph up to date with the caches of its objects.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use kevel_api::value::Value;
use kevel_registry::storage::Storage;
use kevel_registry::storages::Storages;
use kevel_server::lifecycle::Tasks;
use kevel_store::cache::{At, CacheError, Object, Selection};

use super::NodeAuthorizer;
use super::graph::Kind;

/// Delay before a follower lists again.
const RETRY: Duration = Duration::from_millis(200);

/// Resources that are followed: group, plural, kind of vertex.
const FOLLOWED: [(&str, &str, Kind); 5] = [
    ("", "pods", Kind::Pod),
    ("", "persistentvolumes", Kind::Volume),
    ("storage.k8s.io", "volumeattachments", Kind::VolumeAttachment),
    ("resource.k8s.io", "resourceslices", Kind::ResourceSlice),
    ("certificates.k8s.io", "podcertificaterequests", Kind::PodCertificateRequest),
];

impl NodeAuthorizer {
    /// Follows the objects that lead to nodes until their caches are closed, in tasks of its own:
    /// it must be called in a runtime. Nothing leads to a node by objects that are not served.
    pub fn follow(self: &Arc<Self>, storages: &Storages, tasks: &Tasks) {
        for (group, plural, kind) in FOLLOWED {
            if let Some(storage) = storages.get(group, plural) {
                let name = format!("node-authorizer-{plural}-informer");
                tasks.spawn(name, follow(self.clone(), kind, storage.clone()));
            }
        }
    }
}

/// Follows one kind, with a new list after missed events.
async fn follow(node: Arc<NodeAuthorizer>, kind: Kind, storage: Arc<Storage>) {
    let mut known = HashSet::new();
    loop {
        match follow_once(&node, kind, &storage, &mut known).await {
            Err(CacheError::Closed) => return,
            Err(error) => tracing::debug!(storage = ?storage, %error, "lists again"),
            Ok(()) => {}
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn follow_once(
    node: &NodeAuthorizer,
    kind: Kind,
    storage: &Storage,
    known: &mut HashSet<Box<str>>,
) -> Result<(), CacheError> {
    let selection = Selection::default();
    let (snapshot, mut watcher) = storage.cache.list_watch(selection, At::Consistent).await?;
    // An object that cannot be read any more is gone, too: the snapshot shows the others alone.
    let is_gone = |key: &str| snapshot.get(key).is_none_or(|object| object.wire().is_err());
    let gone: Vec<Box<str>> = known.iter().filter(|key| is_gone(key)).cloned().collect();
    gone.iter().for_each(|key| node.set(kind, key, None));
    known.clear();
    for object in snapshot.range("", None) {
        known.insert(object.key().into());
        node.set(kind, object.key(), read(storage, object).as_ref());
    }
    drop(snapshot);
    let mut seen = Vec::new();
    loop {
        watcher.next(&mut seen).await?;
        for event in seen.drain(..).map(|delivery| delivery.event) {
            let Some(shown) = event.current().or(event.previous()) else { continue };
            let object = event.current().and_then(|object| read(storage, object));
            match event.current() {
                Some(_) => known.insert(shown.key().into()),
                None => known.remove(shown.key()),
            };
            node.set(kind, shown.key(), object.as_ref());
        }
    }
}

/// An object's tree. One that cannot be read leads nowhere.
fn read(storage: &Storage, object: &Object) -> Option<Value> {
    let wire = object.wire().map_err(str::to_owned);
    let value = wire.and_then(|wire| storage.read(wire));
    value.inspect_err(|error| tracing::warn!(key = object.key(), error, "unreadable object")).ok()
}
