//! The objects that plug-ins go by: from the cache, and read once as long as they stay the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_server::storage::{Storage, local_key};
use kevel_store::Revision;
use kevel_store::cache::{At, Object, Snapshot};

/// Of how many objects the trees are kept.
const REMEMBERED: usize = 1024;

/// By key.
type Trees = HashMap<Box<str>, (Revision, Arc<Value>)>;

/// The objects of a resource.
pub(super) struct Lister {
    storage: Arc<Storage>,
    /// With the revision that they are of.
    read: Mutex<Trees>,
}

impl std::fmt::Debug for Lister {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lister({:?})", self.storage)
    }
}

impl Lister {
    pub fn new(storage: Arc<Storage>) -> Self {
        Lister { storage, read: Mutex::default() }
    }

    /// An object. One that the cache does not have may just have been made: then the store is asked.
    pub async fn find(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<Value>>, StatusError> {
        match self.get(namespace, name, At::Any).await? {
            None => self.get(namespace, name, At::Consistent).await,
            found => Ok(found),
        }
    }

    /// An object, as fresh as asked for.
    pub async fn get(
        &self,
        namespace: &str,
        name: &str,
        at: At,
    ) -> Result<Option<Arc<Value>>, StatusError> {
        let key = local_key(namespace, name);
        let snapshot = self.snapshot(at).await?;
        snapshot.get(&key).map(|object| self.read(object)).transpose()
    }

    /// The objects of a namespace; all of them where the namespace is empty.
    pub async fn list(&self, namespace: &str) -> Result<Vec<Arc<Value>>, StatusError> {
        let snapshot = self.snapshot(At::Any).await?;
        if snapshot.is_empty() {
            return Ok(Vec::new());
        }
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        snapshot.range(&prefix, None).map(|object| self.read(object)).collect()
    }

    /// All objects as the cache has them.
    pub async fn snapshot(&self, at: At) -> Result<Snapshot, StatusError> {
        self.storage.cache.snapshot(at).await.map_err(StatusError::internal)
    }

    /// The tree of an object, which is not kept.
    pub fn read_once(&self, object: &Object) -> Result<Value, StatusError> {
        let wire = object.wire().map_err(StatusError::internal)?;
        self.storage.read(wire).map_err(StatusError::internal)
    }

    /// The tree of an object.
    pub fn read(&self, object: &Object) -> Result<Arc<Value>, StatusError> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((revision, value)) = read.get(object.key())
            && *revision == object.revision()
        {
            return Ok(value.clone());
        }
        let value = Arc::new(self.read_once(object)?);
        if read.len() >= REMEMBERED {
            read.clear();
        }
        read.insert(object.key().into(), (object.revision(), value.clone()));
        Ok(value)
    }
}
