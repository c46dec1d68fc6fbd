//! Lister of a resource's cached objects, for controllers.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_controller_runtime::Informer;
use kevel_registry::storage::{Storage, local_key};
use kevel_store::cache::{At, Object, Snapshot};

/// CacheLister of a resource's objects in the watch cache: as new as the events that an [`Informer`] of it told of.
#[derive(Clone, Debug)]
pub(crate) struct CacheLister(Arc<Storage>);

impl CacheLister {
    pub fn new(storage: Arc<Storage>) -> Self {
        CacheLister(storage)
    }

    /// Informer of the resource.
    pub fn informer(&self) -> Informer {
        Informer::new(self.0.cache.clone())
    }

    /// Current objects.
    pub fn snapshot(&self) -> Snapshot {
        self.0.cache.latest()
    }

    /// Objects as new as `at` asks for.
    pub async fn snapshot_at(&self, at: At) -> Result<Snapshot, StatusError> {
        self.0.cache.snapshot(at).await.map_err(StatusError::internal)
    }

    /// An object, decoded.
    pub fn get(&self, namespace: &str, name: &str) -> Result<Option<Value>, StatusError> {
        let found = self.snapshot().get(&local_key(namespace, name)).map(|found| self.tree(found));
        found.transpose()
    }

    /// An object by its key in the store's current state: not older than any write that has been acknowledged.
    pub async fn fresh(&self, key: &str) -> Result<Option<Value>, StatusError> {
        let snapshot = self.fresh_snapshot().await?;
        snapshot.get(key).map(|found| self.tree(found)).transpose()
    }

    /// Objects in the store's current state.
    pub async fn fresh_snapshot(&self) -> Result<Snapshot, StatusError> {
        self.0.cache.snapshot(At::Consistent).await.map_err(StatusError::internal)
    }

    /// An object as it is in the store now, decoded.
    pub async fn get_now(&self, namespace: &str, name: &str) -> Result<Option<Value>, StatusError> {
        let snapshot = self.snapshot_at(At::Consistent).await?;
        let found = snapshot.get(&local_key(namespace, name)).map(|found| self.tree(found));
        found.transpose()
    }

    /// Decodes an object.
    pub fn tree(&self, object: &Object) -> Result<Value, StatusError> {
        self.0.tree(object).map_err(StatusError::internal)
    }

    /// Facts of an object, read once for each of its states and kept beside it.
    pub fn facts<T: Send + Sync + 'static>(
        &self,
        object: &Object,
        read: fn(&Value) -> T,
    ) -> Result<Arc<T>, StatusError> {
        self.0.decoded(object, read).map_err(StatusError::internal)
    }
}
