//! Reads of one object (upstream: `Store.Get`).

use bytes::Bytes;
use kevel_api::status::StatusError;
use kevel_store::Revision;
use kevel_store::cache::{At, Wire};

use super::Store;
use crate::failure::cache_error;
use crate::list_options::parse_revision;

impl Store<'_> {
    /// Reads the object as wire bytes, not older than the resourceVersion `version`; the latest state if that is empty.
    pub async fn get(&self, version: &str) -> Result<Bytes, StatusError> {
        let key = self.local_key(self.name())?;
        self.context.span.event("About to Get from storage");
        let revision = parse_revision(version).map_err(|error| StatusError::unknown(500, error))?;
        let at = match revision {
            None => At::Consistent,
            Some(Revision(0)) => self.any(),
            Some(revision) => At::NotOlderThan(revision),
        };
        let span = self.get_span(version);
        if span.is_recording()
            && at == At::Consistent
            && let Some(stored) = span.scope(self.get_stored(&key)).await
        {
            return Ok(stored.bytes);
        }
        span.event("About to fetch object from cache");
        let found = span.scope(self.storage.cache.get(&key, at)).await.map_err(cache_error)?;
        let not_found = || StatusError::not_found(&self.group_resource(), self.name());
        let object = found.ok_or_else(not_found)?;
        object.wire().cloned().map_err(|_| self.unreadable(&object))
    }

    /// Reads an object from the store, as the reference does where no version is asked for: the trace shows how it is read
    /// and decrypted. Nothing if that fails; the cache has the reasons.
    async fn get_stored(&self, key: &str) -> Option<Wire> {
        kevel_trace::event("About to Get from underlying storage");
        let found = self.storage.engine.get(&self.storage.key_of(key), None).await.ok()?;
        let entry = found.entry?;
        self.storage.wire(&entry.value, entry.mod_revision).ok()
    }
}
