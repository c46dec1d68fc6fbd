//! Objects that cannot be read: errors of requests for them, and their deletion with
//! `ignoreStoreReadErrorWithClusterBreakingPotential` (upstream: `corruptObjectDeleter`).

use kevel_api::field_error::{FieldError, Path};
use kevel_api::gvk::GroupKind;
use kevel_api::quote::quote;
use kevel_api::status::{
    StatusCause, StatusDetails, StatusError, StorageError, StorageErrorCode, cause,
};
use kevel_store::cache::{At, Object, Snapshot};
use kevel_store::{Error, MAX_CONFLICTS};

use super::Store;
use crate::deletion::IGNORE_READ_ERROR;
use crate::failure::{cache_error, store_error};
use crate::storage::shown_key;

/// Most unreadable objects that a failed list names.
const MAX_NAMED: usize = 100;

impl Store<'_> {
    /// Status for a request for an object that cannot be read.
    pub fn unreadable(&self, object: &Object) -> StatusError {
        if !self.storage.registry.unsafe_deletion {
            return StatusError::internal(object.wire().err().unwrap_or_default());
        }
        let key = self.storage.key_of(object.key());
        StatusError::internal(corrupt(shown_key(&key), object))
    }

    /// Fails a list or the initial state of a watch for objects below the prefix and behind the key `after` that are
    /// there and cannot be shown: those that cannot be decrypted; with unsafe deletion all that cannot be read.
    pub(crate) fn check_readable(
        &self,
        shown: &Snapshot,
        prefix: &str,
        after: &str,
    ) -> Result<(), StatusError> {
        if self.storage.registry.unsafe_deletion {
            return self.check_corrupt(shown, prefix, after);
        }
        let Some(sealed) = shown.sealed(prefix) else { return Ok(()) };
        let key = quote(&format!("{}{}", self.storage.prefix, sealed.key()));
        let why = sealed.wire().err().unwrap_or_default();
        Err(StatusError::internal(format!("unable to transform key {key}: {why}")))
    }

    fn check_corrupt(
        &self,
        shown: &Snapshot,
        prefix: &str,
        after: &str,
    ) -> Result<(), StatusError> {
        let concerned = |object: &&_| {
            let key = Object::key(object);
            key.starts_with(prefix) && key > after
        };
        let mut found = shown.damaged().map(|object| &**object).filter(concerned).peekable();
        if found.peek().is_none() {
            return Ok(());
        }
        let named = |object: &Object| {
            let key = format!("{}{}", self.storage.prefix, object.key());
            StatusCause {
                reason: cause::UNEXPECTED_SERVER_RESPONSE.into(),
                message: corrupt(key.clone(), object).to_string().into(),
                field: key.into(),
            }
        };
        let mut causes: Vec<StatusCause> = found.by_ref().take(MAX_NAMED).map(named).collect();
        if found.next().is_some() {
            causes.push(StatusCause {
                reason: cause::TOO_MANY.into(),
                message: "too many errors, the list is truncated".into(),
                ..StatusCause::default()
            });
        }
        let resource = self.group_resource();
        Err(StatusError::storage_read(
            format!("failed to read one or more {resource} from the storage"),
            StatusDetails {
                group: resource.group.to_string().into(),
                kind: resource.resource.to_string().into(),
                name: "list".into(),
                causes,
                ..StatusDetails::default()
            },
        ))
    }

    /// Deletes the object though it cannot be read, after the caller has authorized that: without admission, preconditions and finalizers, which are part of
    /// what cannot be read. A readable object is refused.
    pub async fn delete_unreadable(&self) -> Result<(), StatusError> {
        let key = self.local_key(self.name())?;
        for _ in 0..MAX_CONFLICTS {
            let found = self.storage.cache.get(&key, At::Consistent).await.map_err(cache_error)?;
            let object = found.filter(|object| self.storage.tree(object).is_err());
            let Some(object) = object else { return Err(self.refuse_readable()) };
            let stored = self.storage.key_of(&key);
            tracing::warn!(key, error = object.damage(), "an unreadable object is deleted");
            match self.storage.engine.delete(&stored, object.revision()).await {
                Ok(_) | Err(Error::NotFound) => return Ok(()),
                // Written or removed meanwhile: it may be readable now.
                Err(Error::Conflict(_)) => {}
                Err(error) => return Err(store_error(error)),
            }
        }
        Err(self.modified(self.name()))
    }

    fn refuse_readable(&self) -> StatusError {
        let why =
            "is exclusively used to delete corrupt object(s), try again by removing this option";
        let error = FieldError::invalid(&Path::new(IGNORE_READ_ERROR), true, why);
        let resource = self.group_resource();
        // The reference names the resource where the kind is expected.
        let kind = GroupKind::new(resource.group, resource.resource);
        StatusError::invalid(&kind, self.name(), vec![error])
    }
}

/// Status of the watch event for the deletion of an object that cannot be read.
pub fn lost(object: &Object) -> Option<StatusError> {
    let damage = damage_of(object)?;
    let message = format!("saw a DELETED event, but object data is corrupt - {damage}");
    Some(StatusError::storage_read(message, None))
}

/// Error of the storage about an object that cannot be read.
fn corrupt(key: String, object: &Object) -> StorageError {
    let message = damage_of(object);
    StorageError { code: StorageErrorCode::CorruptObj, key, resource_version: 0, message }
}

/// Description of the damage: which step of reading the object failed, and why. The transformation knows no revision.
fn damage_of(object: &Object) -> Option<String> {
    let why = object.damage()?;
    Some(if object.is_sealed() {
        format!("data from the storage is not transformable revision=0: {why}")
    } else {
        format!("object not decodable revision={}: {why}", object.revision())
    })
}
