//! A resource's objects, for those who write them from inside: in the version that they are stored
//! in, and past admission, which has seen the request that is the reason for it.

use std::sync::Arc;

use kevel_api::gvk::GroupResource;
use kevel_api::status::StatusError;
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_store::Revision;
use kevel_store::cache::At;

use crate::deletion::{DeleteOptions, Doomed, course};
use crate::failure::{cache_error, store_error};
use crate::guaranteed_update::{Failed, changed};
use crate::metadata;
use crate::resource::Resource;
use crate::storage::{MAX_CONFLICTS, Storage, local_key};

impl Resource {
    /// An object as it is now.
    pub async fn find(&self, namespace: &str, name: &str) -> Result<Value, StatusError> {
        let found = self.stored()?.cache.get(&local_key(namespace, name), At::Consistent).await;
        let object = found.map_err(cache_error)?;
        let object = object.ok_or_else(|| self.not_found(name))?;
        let wire = object.wire().map_err(StatusError::internal)?;
        self.stored()?.read(wire).map_err(StatusError::internal)
    }

    /// Changes an object, again when somebody else came first. Nothing is written in a dry run.
    pub async fn modify(
        &self,
        namespace: &str,
        name: &str,
        dry_run: bool,
        change: impl Fn(&mut Value) -> Result<(), StatusError>,
    ) -> Result<Value, StatusError> {
        let storage = self.stored()?;
        let key = storage.key(namespace, name);
        for _ in 0..MAX_CONFLICTS {
            let before = self.find(namespace, name).await?;
            let mut object = before.clone();
            change(&mut object)?;
            if dry_run || object == before {
                return Ok(object);
            }
            let revision = revision(&before)?;
            let bytes = storage.encode(&settled(object.clone()));
            match storage.engine.update(&key, bytes, revision, storage.time_to_live).await {
                Ok(revision) => {
                    let version = revision.to_string();
                    metadata::set(&mut object, "resourceVersion", Some(version.as_str().into()));
                    return Ok(object);
                }
                Err(error) => match changed(error) {
                    Failed::Changed => {}
                    Failed::Refused(error) => return Err(error),
                },
            }
        }
        Err(StatusError::modified(&self.group_resource(), name))
    }

    /// Deletes an object, at once or when it is let go.
    pub async fn remove(
        &self,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), StatusError> {
        let storage = self.stored()?;
        for _ in 0..MAX_CONFLICTS {
            let object = self.find(namespace, name).await?;
            options.check(self, &object)?;
            let revision = revision(&object)?;
            let course = course(&*self.strategy, &object, options);
            let course = course.try_map(|object| Ok::<_, StatusError>(settled(object)))?;
            let doomed = Doomed {
                storage: storage.clone(),
                key: storage.key(namespace, name),
                revision,
                fresh: true,
                allocation: self.allocation.clone(),
            };
            match doomed.carry_out(course, settled(object), options.dry_run).await {
                Ok(_) => return Ok(()),
                Err(Failed::Changed) => {}
                Err(Failed::Refused(error)) => return Err(error),
            }
        }
        Err(StatusError::modified(&self.group_resource(), name))
    }

    fn stored(&self) -> Result<&Arc<Storage>, StatusError> {
        self.storage.as_ref().ok_or_else(|| StatusError::internal("objects are not stored"))
    }

    fn not_found(&self, name: &str) -> StatusError {
        StatusError::not_found(&self.group_resource(), name)
    }
}

impl Storage {
    /// Stores a new object as it is, with what the server says about every new object.
    pub async fn insert(&self, mut object: Value) -> kevel_store::Result<Revision> {
        metadata::set(&mut object, "uid", Some(metadata::new_uid().as_str().into()));
        metadata::set(
            &mut object,
            "creationTimestamp",
            Some(Time::now().to_string().as_str().into()),
        );
        let key = self.key(metadata::text(&object, "namespace"), metadata::text(&object, "name"));
        self.engine.create(&key, self.encode(&object), self.time_to_live).await
    }

    /// Deletes an object, unless finalizers hold it. One that is not there is deleted.
    pub async fn discard(&self, namespace: &str, name: &str) -> Result<(), StatusError> {
        let key = self.key(namespace, name);
        for _ in 0..MAX_CONFLICTS {
            let found = self.engine.get(&key, None).await.map_err(store_error)?;
            let Some(entry) = found.entry else { return Ok(()) };
            let wire = self.wire(&entry.value, entry.mod_revision);
            let object = wire.and_then(|wire| self.read(&wire.bytes));
            let object = object.map_err(StatusError::internal)?;
            if object.at(&["metadata", "finalizers"]).is_some_and(|list| !list.is_empty()) {
                return Ok(());
            }
            match self.engine.delete(&key, entry.mod_revision).await {
                Ok(_) => return Ok(()),
                Err(error) => match changed(error) {
                    Failed::Changed => {}
                    Failed::Refused(error) => return Err(error),
                },
            }
        }
        let resource = GroupResource::new(self.kind.group.clone(), self.kind.kind.clone());
        Err(StatusError::modified(&resource, name))
    }
}

fn revision(object: &Value) -> Result<kevel_store::Revision, StatusError> {
    let parsed = metadata::text(object, "resourceVersion").parse().map(kevel_store::Revision);
    parsed.map_err(StatusError::internal)
}

/// An object without what is not stored.
fn settled(mut object: Value) -> Value {
    metadata::set(&mut object, "resourceVersion", None);
    object
}
