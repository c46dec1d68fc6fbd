//! Lister of a resource's cached objects, with the facts that plug-ins need (upstream: Lister).

use std::marker::PhantomData;
use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_registry::storage::{Storage, local_key};
use kevel_store::cache::{At, Object, Snapshot};

/// Facts that a plug-in needs of an object: a few fields, in the form in which they are used. They are read once per
/// state of an object and cached beside it.
pub trait Facts: Send + Sync + Sized + 'static {
    /// Reads the facts of an object.
    fn read(object: &Value) -> Self;
}

/// Cached objects of a resource, with their facts; without a type of facts, the objects alone.
pub struct Lister<F = ()> {
    storage: Arc<Storage>,
    facts: PhantomData<fn() -> F>,
}

impl<F> std::fmt::Debug for Lister<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lister({:?})", self.storage)
    }
}

impl<F> Lister<F> {
    /// Lister of a storage's objects.
    pub fn new(storage: Arc<Storage>) -> Self {
        Lister { storage, facts: PhantomData }
    }

    /// Snapshot of the cache.
    pub async fn snapshot(&self, at: At) -> Result<Snapshot, StatusError> {
        self.storage.cache.snapshot(at).await.map_err(StatusError::internal)
    }

    /// An object. If the cache lacks it, which may lag behind, it is read consistently.
    pub async fn object(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<Object>>, StatusError> {
        let key = local_key(namespace, name);
        match self.snapshot(At::Any).await?.get(&key) {
            None => Ok(self.snapshot(At::Consistent).await?.get(&key).cloned()),
            found => Ok(found.cloned()),
        }
    }

    /// Decoded object, which is not cached.
    pub fn tree(&self, object: &Object) -> Result<Value, StatusError> {
        self.storage.tree(object).map_err(StatusError::internal)
    }
}

impl<F: Facts> Lister<F> {
    /// Facts of an object. If the cache lacks it, which may lag behind, it is read consistently.
    pub async fn find(&self, namespace: &str, name: &str) -> Result<Option<Arc<F>>, StatusError> {
        let object = self.object(namespace, name).await?;
        object.map(|object| self.facts(&object)).transpose()
    }

    /// Facts of an object, with the given freshness.
    pub async fn get(
        &self,
        namespace: &str,
        name: &str,
        at: At,
    ) -> Result<Option<Arc<F>>, StatusError> {
        let key = local_key(namespace, name);
        let snapshot = self.snapshot(at).await?;
        snapshot.get(&key).map(|object| self.facts(object)).transpose()
    }

    /// Facts of the objects in a namespace; of all objects if the namespace is empty.
    pub async fn list(&self, namespace: &str, at: At) -> Result<Vec<Arc<F>>, StatusError> {
        let snapshot = self.snapshot(at).await?;
        if snapshot.is_empty() {
            return Ok(Vec::new());
        }
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        snapshot.range(&prefix, None).map(|object| self.facts(object)).collect()
    }

    /// Facts of all objects that the cache has now; those that cannot be read are left out.
    pub fn latest(&self) -> Vec<Arc<F>> {
        let snapshot = self.storage.cache.latest();
        snapshot.range("", None).filter_map(|object| self.facts(object).ok()).collect()
    }

    fn facts(&self, object: &Object) -> Result<Arc<F>, StatusError> {
        self.storage.decoded(object, F::read).map_err(StatusError::internal)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use kevel_codec::json::{Unknown, decode_any};
    use kevel_registry::backends::{Backend, Backends};
    use kevel_registry::storage::Format;
    use kevel_store::embedded::{Embedded, Options};

    use super::*;
    use crate::{StorageOptions, storages};

    static READ: AtomicUsize = AtomicUsize::new(0);

    #[derive(Debug)]
    struct Name(String);

    impl Facts for Name {
        fn read(object: &Value) -> Self {
            READ.fetch_add(1, Ordering::Relaxed);
            Name(object.str_at(&["metadata", "name"]).to_owned())
        }
    }

    fn limit_range(namespace: &str, name: &str) -> Value {
        let text = format!(r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}"}}}}"#);
        decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value
    }

    #[tokio::test]
    async fn facts_are_read_once_for_each_state_of_an_object() {
        let engine = Arc::new(Embedded::memory(Options::default()).unwrap());
        let backends = Backends::new(Backend::new(engine, "/registry/"));
        let options = StorageOptions::new(Format::Json);
        let storages = storages(|resource| resource.on, &options, &backends).unwrap();
        let storage = storages.required("", "limitranges").unwrap();
        let lister: Lister<Name> = Lister::new(storage.clone());
        for name in ["a", "b"] {
            storage.insert(limit_range("ns", name)).await.unwrap();
        }
        storage.insert(limit_range("other", "c")).await.unwrap();
        let list = async |namespace| {
            let all = lister.list(namespace, At::Consistent).await.unwrap();
            all.iter().map(|facts| facts.0.clone()).collect::<Vec<_>>()
        };
        for _ in 0..10 {
            assert_eq!(list("ns").await, ["a", "b"]);
        }
        assert_eq!(READ.load(Ordering::Relaxed), 2);
        // Listers made per request share the facts too.
        let again: Lister<Name> = Lister::new(storage.clone());
        assert_eq!(again.find("ns", "b").await.unwrap().unwrap().0, "b");
        assert_eq!(READ.load(Ordering::Relaxed), 2);
        storage.discard("ns", "a").await.unwrap();
        storage.insert(limit_range("ns", "a")).await.unwrap();
        assert_eq!(list("").await, ["a", "b", "c"]);
        assert_eq!(list("").await, ["a", "b", "c"]);
        assert_eq!(READ.load(Ordering::Relaxed), 4);
        assert!(lister.find("ns", "c").await.unwrap().is_none());
    }
}
