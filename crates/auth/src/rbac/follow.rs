//! Keeps the index up to date with the caches of roles and bindings.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kevel_api::value::Value;
use kevel_compute::Metered;
use kevel_registry::storage::Storage;
use kevel_registry::storages::Storages;
use kevel_server::lifecycle::Tasks;
use kevel_store::Revision;
use kevel_store::cache::{At, CacheError, Delivery, Object, Selection, Snapshot};

use super::Rbac;
use super::policy::{Kind, Policy};
use crate::GROUP;

/// Delay before a follower lists again.
const RETRY: Duration = Duration::from_millis(200);

/// Storages of roles and bindings.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Roles, which have a namespace.
    pub roles: Arc<Storage>,
    /// RoleBindings.
    pub role_bindings: Arc<Storage>,
    /// ClusterRoles.
    pub cluster_roles: Arc<Storage>,
    /// ClusterRoleBindings.
    pub cluster_role_bindings: Arc<Storage>,
}

impl Sources {
    /// Storages of a server.
    pub fn of(storages: &Storages) -> Result<Self, String> {
        let storage = |kind: Kind| storages.required(GROUP, kind.plural());
        Ok(Sources {
            roles: storage(Kind::Role)?,
            role_bindings: storage(Kind::RoleBinding)?,
            cluster_roles: storage(Kind::ClusterRole)?,
            cluster_role_bindings: storage(Kind::ClusterRoleBinding)?,
        })
    }

    pub(super) fn get(&self, kind: Kind) -> &Arc<Storage> {
        match kind {
            Kind::Role => &self.roles,
            Kind::RoleBinding => &self.role_bindings,
            Kind::ClusterRole => &self.cluster_roles,
            Kind::ClusterRoleBinding => &self.cluster_role_bindings,
        }
    }
}

/// State that the writers of the index share.
#[derive(Debug, Default)]
pub(super) struct Following {
    pub policy: Policy,
    progress: BTreeMap<Kind, Progress>,
}

/// Progress in one resource, so that no change is taken in twice or out of order.
#[derive(Debug, Default)]
struct Progress {
    /// The revision of each object.
    applied: BTreeMap<Box<str>, Revision>,
    /// Everything up to here was taken in at once.
    whole: Revision,
    /// Everything before this was taken in.
    latest: Revision,
    /// Snapshot that was taken in last: while the cache has no other, there is nothing to compare.
    last: Option<Snapshot>,
    loaded: bool,
}

impl Rbac {
    /// Follows roles and bindings until their caches are closed, in tasks of its own: it must be
    /// called in a runtime, once.
    pub fn follow(self: &Arc<Self>, tasks: &Tasks) {
        let Some(sources) = &self.sources else { return };
        for kind in Kind::ALL {
            let name = format!("rbac-{}-informer", kind.plural());
            tasks.spawn(name, follow(self.clone(), kind, sources.get(kind).clone()));
        }
    }

    /// Takes in everything that was acknowledged before the call, in a task of the server's own: a request that waits
    /// for a permit to compute would keep all others from the policy.
    pub(crate) async fn refresh(self: &Arc<Self>) -> Result<(), CacheError> {
        let sources = self.sources.as_ref().ok_or(CacheError::Closed)?;
        let mut at = At::Consistent;
        for kind in Kind::ALL {
            let storage = sources.get(kind);
            let snapshot = storage.cache.snapshot(at).await?;
            // One look at how far the engine is serves all four.
            at = At::NotOlderThan(snapshot.revision());
            let (rbac, storage) = (self.clone(), storage.clone());
            let take = async move { rbac.take_all(kind, &storage, &snapshot).await };
            let taken = tokio::spawn(Metered::task(Box::pin(take), "rbac-refresh"));
            taken.await.map_err(|_| CacheError::Closed)?;
        }
        Ok(())
    }

    /// Takes in all objects of a kind: those that changed, and the lack of those that are gone.
    pub(super) async fn take_all(&self, kind: Kind, storage: &Storage, snapshot: &Snapshot) {
        let mut following = self.following.lock().await;
        let Following { policy, progress } = &mut *following;
        let progress = progress.entry(kind).or_default();
        if snapshot.revision() < progress.latest {
            return;
        }
        // Every write of a role asks for all roles and bindings there are: most of the time nothing has changed. After an
        // event the policy is not that of the last snapshot any more: two empty snapshots look the same, and the event may
        // have told of an object that was deleted since.
        let is_last = progress.latest == progress.whole;
        if is_last && progress.last.as_ref().is_some_and(|last| last.has_same_objects(snapshot)) {
            progress.whole = snapshot.revision();
            progress.latest = snapshot.revision();
            return;
        }
        // An object that cannot be read any more is gone, too: the rest of the snapshot does not show it.
        let gone = |key: &str| snapshot.get(key).is_none_or(|object| object.wire().is_err());
        let applied = progress.applied.keys().inspect(|_| kevel_compute::charge(1));
        let removed: Vec<_> = applied.filter(|key| gone(key)).cloned().collect();
        for key in removed {
            progress.applied.remove(&key);
            policy.set(kind, &key, None);
        }
        for object in snapshot.range("", None) {
            if progress.applied.get(object.key()) != Some(&object.revision()) {
                progress.applied.insert(object.key().into(), object.revision());
                policy.set(kind, object.key(), read(storage, object).as_ref());
            }
        }
        progress.whole = snapshot.revision();
        progress.latest = snapshot.revision();
        progress.loaded = true;
        progress.last = Some(snapshot.clone());
        self.publish(&following);
    }

    /// Takes in changes, in their order.
    pub(super) async fn take(
        &self,
        kind: Kind,
        storage: &Storage,
        changes: impl Iterator<Item = Delivery>,
    ) {
        let mut following = self.following.lock().await;
        let Following { policy, progress } = &mut *following;
        let progress = progress.entry(kind).or_default();
        for event in changes.map(|delivery| delivery.event) {
            if event.revision() <= progress.whole {
                continue;
            }
            progress.latest = event.revision();
            let Some(shown) = event.current().or(event.previous()) else { continue };
            let object = event.current().and_then(|object| read(storage, object));
            match event.current() {
                Some(now) => progress.applied.insert(now.key().into(), now.revision()),
                None => progress.applied.remove(shown.key()),
            };
            policy.set(kind, shown.key(), object.as_ref());
        }
        self.publish(&following);
    }

    /// Publishes the index to readers, once all kinds have been loaded.
    fn publish(&self, following: &Following) {
        let loaded = |kind| following.progress.get(&kind).is_some_and(|p: &Progress| p.loaded);
        if Kind::ALL.into_iter().all(loaded) {
            self.index.store(Arc::new(following.policy.index()));
            self.synced.send_replace(true);
        }
    }
}

/// An object's tree. One that cannot be read grants nothing.
fn read(storage: &Storage, object: &Object) -> Option<Value> {
    let wire = object.wire().map_err(str::to_owned);
    let value = wire.and_then(|wire| storage.read(wire));
    value.inspect_err(|error| tracing::warn!(key = object.key(), error, "unreadable policy")).ok()
}

/// Follows one kind, with a new list after missed events.
async fn follow(rbac: Arc<Rbac>, kind: Kind, storage: Arc<Storage>) {
    loop {
        match follow_once(&rbac, kind, &storage).await {
            Err(CacheError::Closed) => return,
            Err(error) => tracing::debug!(resource = kind.plural(), %error, "lists again"),
            Ok(()) => {}
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn follow_once(rbac: &Rbac, kind: Kind, storage: &Storage) -> Result<(), CacheError> {
    let selection = Selection::default();
    let (snapshot, mut watcher) = storage.cache.list_watch(selection, At::Consistent).await?;
    rbac.take_all(kind, storage, &snapshot).await;
    let mut seen = Vec::new();
    loop {
        watcher.next(&mut seen).await?;
        rbac.take(kind, storage, seen.drain(..)).await;
    }
}
