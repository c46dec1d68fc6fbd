//! Internal access to a resource's objects, in the storage version and without admission, which has run for the request
//! that causes it.

use std::sync::Arc;

use bytes::Bytes;
use kevel_api::gvk::GroupResource;
use kevel_api::status::StatusError;
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_store::Revision;
use kevel_store::cache::At;

use crate::deletion::{DeleteOptions, Deletion, before_delete};
use crate::failure::{cache_error, store_error};
use crate::guaranteed_update::guaranteed_update;
use crate::metadata;
use crate::resource::Resource;
use crate::storage::{RegistryOptions, Storage, local_key};

impl Resource {
    /// The current state of an object.
    pub async fn find(&self, namespace: &str, name: &str) -> Result<Value, StatusError> {
        let found = self.current(namespace, name).await?;
        found.map(|(object, _)| object).ok_or_else(|| self.not_found(name))
    }

    /// Updates an object, again after a conflict. A dry run writes nothing.
    pub async fn modify(
        &self,
        namespace: &str,
        name: &str,
        dry_run: bool,
        change: impl Fn(&mut Value) -> Result<(), StatusError>,
    ) -> Result<Value, StatusError> {
        let storage = self.stored()?;
        let (key, change) = (&storage.key(namespace, name), &change);
        let write = |found: Option<(Value, Revision)>| async move {
            let (before, revision) = found.ok_or_else(|| self.not_found(name))?;
            let mut object = before.clone();
            change(&mut object)?;
            if dry_run || (object == before && !storage.is_stale(key).await?) {
                return Ok(object);
            }
            let bytes = storage.encode(&without_revision(object.clone()));
            let written = storage.engine.update(key, bytes, revision, storage.time_to_live).await?;
            let version = written.to_string();
            metadata::set(&mut object, "resourceVersion", Some(version.as_str().into()));
            Ok(object)
        };
        let read = |_| self.current(namespace, name);
        guaranteed_update(At::Consistent, read, write, || self.modified(name)).await
    }

    /// Deletes an object, at once or after finalizers and the grace period.
    pub async fn remove(
        &self,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), StatusError> {
        let storage = self.stored()?;
        let delete = |found: Option<(Value, Revision)>| async move {
            let (object, revision) = found.ok_or_else(|| self.not_found(name))?;
            options.check(self, &object)?;
            let RegistryOptions { garbage_collection, clock, .. } = &storage.registry;
            let now = Time::now(clock);
            let plan = before_delete(&*self.strategy, *garbage_collection, &object, options, now);
            let plan = plan.try_map(|object| Ok::<_, StatusError>(without_revision(object)))?;
            let deletion = Deletion {
                storage: storage.clone(),
                key: storage.key(namespace, name),
                revision,
                fresh: true,
                allocation: self.allocation.clone(),
                exact: options.resource_version.is_some(),
            };
            deletion.carry_out(plan, without_revision(object), options.is_dry_run()).await
        };
        let read = |_| self.current(namespace, name);
        let removed = guaranteed_update(At::Consistent, read, delete, || self.modified(name));
        removed.await.map(drop)
    }

    /// The current state of an object, and its revision.
    async fn current(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<(Value, Revision)>, StatusError> {
        let storage = self.stored()?;
        let found = storage.cache.get(&local_key(namespace, name), At::Consistent).await;
        let Some(object) = found.map_err(cache_error)? else { return Ok(None) };
        let wire = object.wire().map_err(StatusError::internal)?;
        let value = storage.read(wire).map_err(StatusError::internal)?;
        Ok(Some((value, object.revision())))
    }

    fn modified(&self, name: &str) -> StatusError {
        StatusError::modified(&self.group_resource(), name)
    }

    fn stored(&self) -> Result<&Arc<Storage>, StatusError> {
        self.storage.as_ref().ok_or_else(|| StatusError::internal("objects are not stored"))
    }

    fn not_found(&self, name: &str) -> StatusError {
        StatusError::not_found(&self.group_resource(), name)
    }
}

impl Storage {
    /// Reads an object from the store, bypassing the cache.
    pub async fn fetch(&self, local_key: &str) -> Result<Option<Value>, StatusError> {
        let found = self.engine.get(&self.key_of(local_key), None).await.map_err(store_error)?;
        let Some(entry) = found.entry else { return Ok(None) };
        let wire = self.wire(&entry.value, entry.mod_revision).map_err(StatusError::internal)?;
        self.read(&wire.bytes).map(Some).map_err(StatusError::internal)
    }

    /// Creates an object without a strategy; only uid and creationTimestamp are set.
    pub async fn insert(&self, mut object: Value) -> kevel_store::Result<Revision> {
        metadata::set(&mut object, "uid", Some(metadata::new_uid().as_str().into()));
        metadata::set(
            &mut object,
            "creationTimestamp",
            Some(Time::now(&self.registry.clock).to_string().as_str().into()),
        );
        let key = self.key(metadata::text(&object, "namespace"), metadata::text(&object, "name"));
        self.engine.create(&key, self.encode(&object), self.time_to_live).await
    }

    /// Deletes an object, unless it has finalizers. A missing object is no error.
    pub async fn discard(&self, namespace: &str, name: &str) -> Result<(), StatusError> {
        self.discard_if(namespace, name, |_| true).await
    }

    /// Like [`Storage::discard`], if `wanted` accepts the state that is deleted.
    pub async fn discard_if(
        &self,
        namespace: &str,
        name: &str,
        wanted: impl Fn(&Value) -> bool + Sync,
    ) -> Result<(), StatusError> {
        let wanted = &wanted;
        let key = &self.key(namespace, name);
        let read = |_| async move {
            let found = self.engine.get(key, None).await.map_err(store_error)?;
            Ok(found.entry.map(|entry| (entry.value, entry.mod_revision)))
        };
        let delete = |found: Option<(Bytes, Revision)>| async move {
            let Some((stored, revision)) = found else { return Ok(()) };
            let wire = self.wire(&stored, revision);
            let object = wire.and_then(|wire| self.read(&wire.bytes));
            let object = object.map_err(StatusError::internal)?;
            if object.list_at(&["metadata", "finalizers"]).is_empty() && wanted(&object) {
                self.engine.delete(key, revision).await?;
            }
            Ok(())
        };
        let resource = || GroupResource::new(self.kind.group.clone(), self.kind.kind.clone());
        let modified = || StatusError::modified(&resource(), name);
        guaranteed_update(At::Consistent, read, delete, modified).await
    }
}

/// An object without its resourceVersion, which is not stored.
fn without_revision(mut object: Value) -> Value {
    metadata::set(&mut object, "resourceVersion", None);
    object
}
