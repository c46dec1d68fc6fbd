//! Keeps the graph up to date with the caches of its objects.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use kevel_api::value::Value;
use kevel_registry::storage::Storage;
use kevel_registry::storages::Storages;
use kevel_server::lifecycle::Tasks;
use kevel_store::cache::{At, CacheError, Event, Object, Selection};

use super::NodeAuthorizer;
use super::graph::Kind;
use super::projection::Projection;

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
    known.retain(|key| !is_gone(key));
    for object in snapshot.range("", None) {
        let was_known = !known.insert(object.key().into());
        let projection = Projection::new(kind, object);
        if was_known || !projection.is_without_node() {
            node.set(kind, object.key(), read(&projection, object).as_ref());
        }
    }
    drop(snapshot);
    let mut seen = Vec::new();
    loop {
        watcher.next(&mut seen).await?;
        for delivery in seen.drain(..) {
            take(node, kind, &delivery.event, known);
        }
    }
}

/// Takes in an event. Most change nothing that the graph is made of.
fn take(node: &NodeAuthorizer, kind: Kind, event: &Event, known: &mut HashSet<Box<str>>) {
    let readable = |object: &&Arc<Object>| object.wire().is_ok();
    let Some(object) = event.current().filter(readable) else {
        let Some(shown) = event.current().or(event.previous()) else { return };
        known.remove(shown.key());
        return node.set(kind, shown.key(), None);
    };
    let was_known = !known.insert(object.key().into());
    let projection = Projection::new(kind, object);
    let is_same = match event.previous().filter(readable).filter(|_| was_known) {
        Some(previous) => projection == Projection::new(kind, previous),
        None => !was_known && projection.is_without_node(),
    };
    if !is_same {
        node.set(kind, object.key(), read(&projection, object).as_ref());
    }
}

/// A tree of the parts. An object that cannot be read leads nowhere.
fn read(projection: &Projection<'_>, object: &Object) -> Option<Value> {
    let value = projection.decode(object);
    value.inspect_err(|error| tracing::warn!(key = object.key(), %error, "unreadable object")).ok()
}
