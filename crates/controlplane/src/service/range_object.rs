//! Stored `RangeAllocation`: a bitmap of what is allocated, changed by compare and swap.

use std::sync::Arc;

use kevel_api::value::{Map, Value};
use kevel_codec::base64;
use kevel_registry::storage::Storage;
use kevel_store::{Change, Entry, Revision, UpdateError, guaranteed_update};
use tokio::sync::Mutex;

/// Object of a range below `/registry/ranges/`.
pub(super) struct RangeObject {
    storage: Arc<Storage>,
    name: &'static str,
    /// Name of the resource in messages.
    resource: &'static str,
    /// Last known stored entry. Locked during an allocation, so that concurrent requests of this server wait instead
    /// of failing their writes.
    last: Mutex<Option<Entry>>,
}

/// Bitmap of a range with its revision.
pub(super) struct StoredRange {
    /// Text of the range.
    pub(super) range: String,
    /// Big-endian number whose lowest bit is the first of the range.
    pub(super) bits: Vec<u8>,
    pub(super) revision: Revision,
}

/// Error of reading or writing a range.
#[derive(Debug, thiserror::Error)]
pub(super) enum RangeError {
    #[error("cannot allocate resources of type {0} at this time")]
    Missing(&'static str),
    #[error("the provided range does not match the current range")]
    Mismatch,
    #[error("illegal base64 data at input byte {0}")]
    Base64(usize),
    #[error("nothing was changed")]
    Unchanged,
    #[error("{0}")]
    Undecodable(String),
    #[error(transparent)]
    Store(#[from] kevel_store::Error),
}

impl RangeObject {
    pub(super) fn new(storage: Arc<Storage>, name: &'static str, resource: &'static str) -> Self {
        RangeObject { storage, name, resource, last: Mutex::default() }
    }

    /// Changes the bitmap. `change` may be called several times; nothing is written if it fails.
    pub(super) async fn change<T: Send, E: From<RangeError> + Send>(
        &self,
        mut change: impl FnMut(&StoredRange) -> Result<(Vec<u8>, T), E> + Send,
    ) -> Result<T, E> {
        let mut last = self.last.lock().await;
        let mut result = None;
        let key = self.key();
        let attempt = |entry: Option<Entry>| {
            let stored = entry.ok_or(RangeError::Missing(self.resource));
            let stored = stored.and_then(|entry| self.decode(&entry)).map_err(E::from);
            let changed = stored.and_then(|stored| {
                let (bits, value) = change(&stored)?;
                result = Some(value);
                Ok(Change::Put(self.encode(&stored.range, &bits), None))
            });
            std::future::ready(changed)
        };
        let updated = guaranteed_update(&*self.storage.engine, &key, last.take(), attempt).await;
        let updated = updated.map_err(|error| match error {
            UpdateError::Refused(error) => error,
            UpdateError::Store(error) => RangeError::Store(error).into(),
        })?;
        *last = updated.entry;
        result.ok_or_else(|| RangeError::Unchanged.into())
    }

    /// Reads the stored bitmap; `None` if there is none.
    pub(super) async fn read(&self) -> Result<Option<StoredRange>, RangeError> {
        let found = self.storage.engine.get(&self.key(), None).await?;
        found.entry.map(|entry| self.decode(&entry)).transpose()
    }

    /// Replaces the bitmap of a revision, or creates it; `false` if another write came first.
    pub(super) async fn replace(
        &self,
        range: &str,
        bits: &[u8],
        expected: Option<Revision>,
    ) -> Result<bool, RangeError> {
        let _turn = self.last.lock().await;
        let (key, bytes) = (self.key(), self.encode(range, bits));
        let engine = &self.storage.engine;
        let written = match expected {
            Some(revision) => engine.update(&key, bytes, revision, None).await,
            None => engine.create(&key, bytes, None).await,
        };
        match written {
            Ok(_) => Ok(true),
            Err(
                kevel_store::Error::Conflict(_)
                | kevel_store::Error::Exists(_)
                | kevel_store::Error::NotFound,
            ) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn key(&self) -> Vec<u8> {
        self.storage.key("", self.name)
    }

    fn decode(&self, entry: &Entry) -> Result<StoredRange, RangeError> {
        let wire = self.storage.wire(&entry.value, entry.mod_revision);
        let value = wire.and_then(|wire| self.storage.read(&wire.bytes));
        let value = value.map_err(RangeError::Undecodable)?;
        let mut bits = Vec::new();
        base64::decode_into(value.str_at(&["data"]), &mut bits).map_err(RangeError::Base64)?;
        let range = value.str_at(&["range"]).to_owned();
        Ok(StoredRange { range, bits, revision: entry.mod_revision })
    }

    fn encode(&self, range: &str, bits: &[u8]) -> bytes::Bytes {
        let data = Value::String(base64::encode(bits));
        let mut object = Map::from_iter([
            ("apiVersion", Value::from("v1")),
            ("kind", Value::from("RangeAllocation")),
            ("range", Value::from(range)),
        ]);
        if !data.is_empty() {
            object.insert("data", data);
        }
        self.storage.encode(&object.into())
    }
}
