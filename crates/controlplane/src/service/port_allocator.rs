//! Allocator of node ports: one stored `RangeAllocation`, changed by compare and swap.

use std::sync::Arc;

use kevel_api::value::{Map, Value};
use kevel_codec::base64;
use kevel_server::storage::Storage;
use kevel_store::{Change, Entry, Revision, UpdateError, guaranteed_update};
use tokio::sync::Mutex;

use super::port_set::{PortError, PortRange, PortSet};

/// Name of the object below `/registry/ranges/`.
const NAME: &str = "servicenodeports";

/// Allocator of node ports.
pub struct PortAllocator {
    pub range: PortRange,
    storage: Arc<Storage>,
    /// Last known stored entry. Locked during an allocation, so that concurrent requests of this server wait instead
    /// of failing their writes.
    last: Mutex<Option<Entry>>,
}

/// Stored allocation with its revision.
pub struct Stored {
    pub ports: PortSet,
    pub revision: Revision,
}

impl PortAllocator {
    pub fn new(range: PortRange, storage: Arc<Storage>) -> Self {
        PortAllocator { range, storage, last: Mutex::default() }
    }

    /// Changes the allocated ports. `change` may be called several times; nothing is written if it fails.
    pub async fn change<T: Send>(
        &self,
        mut change: impl FnMut(&mut PortSet) -> Result<T, PortError> + Send,
    ) -> Result<T, PortError> {
        let mut last = self.last.lock().await;
        let mut result = None;
        let key = self.storage.key("", NAME);
        let attempt = |entry: Option<Entry>| {
            let changed = self.changed(entry, &mut change).map(|(bytes, value)| {
                result = Some(value);
                Change::Put(bytes, None)
            });
            std::future::ready(changed)
        };
        let updated = guaranteed_update(&*self.storage.engine, &key, last.take(), attempt).await;
        let updated = updated.map_err(|error| match error {
            UpdateError::Refused(error) => error,
            UpdateError::Store(error) => PortError::Other(error.to_string()),
        })?;
        *last = updated.entry;
        result.ok_or_else(|| PortError::Other("nothing was changed".into()))
    }

    fn changed<T>(
        &self,
        entry: Option<Entry>,
        change: &mut impl FnMut(&mut PortSet) -> Result<T, PortError>,
    ) -> Result<(bytes::Bytes, T), PortError> {
        let Some(entry) = entry else {
            let why = "cannot allocate resources of type servicenodeportallocations at this time";
            return Err(PortError::Other(why.into()));
        };
        let mut ports = self.decode(&entry).map_err(PortError::Other)?;
        if ports.range != self.range {
            let why = "the provided range does not match the current range";
            return Err(PortError::Other(why.into()));
        }
        let value = change(&mut ports)?;
        Ok((self.encode(&ports), value))
    }

    /// Releases ports. The repair controller releases ports for which this fails.
    pub async fn release(&self, ports: &[i64]) {
        if ports.is_empty() {
            return;
        }
        let released = self.change(|set| {
            ports.iter().for_each(|port| set.release(*port));
            Ok(())
        });
        if let Err(error) = released.await {
            tracing::warn!(?ports, %error, "node ports were not released");
        }
    }

    /// Reads the stored allocation; `None` if there is none.
    pub async fn read(&self) -> Result<Option<Stored>, String> {
        let key = self.storage.key("", NAME);
        let found = self.storage.engine.get(&key, None).await.map_err(|error| error.to_string())?;
        let Some(entry) = found.entry else { return Ok(None) };
        let ports = self.decode(&entry)?;
        Ok(Some(Stored { ports, revision: entry.mod_revision }))
    }

    /// Replaces the allocation of a revision, or creates it; `false` if another write came first.
    pub async fn replace(
        &self,
        ports: &PortSet,
        expected: Option<Revision>,
    ) -> Result<bool, String> {
        let _turn = self.last.lock().await;
        let (key, bytes) = (self.storage.key("", NAME), self.encode(ports));
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
            Err(error) => Err(error.to_string()),
        }
    }

    fn decode(&self, entry: &Entry) -> Result<PortSet, String> {
        let wire = self.storage.wire(&entry.value, entry.mod_revision)?;
        let value = self.storage.read(&wire.bytes)?;
        let range = value.str_at(&["range"]);
        let range = PortRange::parse(range).ok_or_else(|| format!("{range:?} is no port range"))?;
        let mut bytes = Vec::new();
        base64::decode_into(value.str_at(&["data"]), &mut bytes)
            .map_err(|at| format!("illegal base64 data at input byte {at}"))?;
        Ok(PortSet::from_bytes(range, &bytes))
    }

    fn encode(&self, ports: &PortSet) -> bytes::Bytes {
        let data = Value::String(base64::encode(&ports.to_bytes()));
        let mut object = Map::from_iter([
            ("apiVersion", Value::from("v1")),
            ("kind", Value::from("RangeAllocation")),
            ("range", Value::from(ports.range.to_string().as_str())),
        ]);
        if !data.is_empty() {
            object.insert("data", data);
        }
        self.storage.encode(&object.into())
    }
}
