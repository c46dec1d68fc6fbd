//! Master leases: each API server writes its address periodically, and the entry expires if it stops (upstream:
//! `reconcilers.Leases`).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use kevel_api::value::{Map, Value};
use kevel_registry::storage::Storage;
use kevel_store::cache::Caches;
use kevel_store::{Change, Engine, Entry, RangeOptions, UpdateError, guaranteed_update};

use crate::rows::StorageOptions;

/// Time to live of a lease.
const TIME_TO_LIVE: Duration = Duration::from_secs(15);

/// Addresses of the API servers, at `/registry/masterleases/`.
#[derive(Clone, Debug)]
pub struct Leases {
    storage: Arc<Storage>,
}

impl Leases {
    /// `None` if the kind Endpoints, as which leases are stored, has no definition.
    pub fn new(
        options: &StorageOptions,
        engine: &Arc<dyn Engine>,
        caches: &Caches,
    ) -> Option<Self> {
        let storage = super::internal("Endpoints", "masterleases", options, engine, caches)?;
        Some(Leases { storage: Arc::new(storage) })
    }

    /// Addresses of the live servers, sorted as strings.
    pub async fn list(&self) -> Result<Vec<String>, String> {
        let prefix = self.storage.prefix.as_bytes();
        let range = self.storage.engine.range(prefix, RangeOptions::default()).await;
        let mut ips = Vec::new();
        for entry in range.map_err(|error| error.to_string())?.entries {
            let lease = self.decode(&entry)?;
            let subsets = lease.at(&["subsets"]).and_then(Value::as_list).unwrap_or_default();
            let addresses = subsets.first().and_then(|subset| subset.at(&["addresses"]));
            let first = addresses.and_then(Value::as_list).and_then(<[Value]>::first);
            let ip = first.map(|address| address.str_at(&["ip"])).unwrap_or_default();
            ips.extend((!ip.is_empty()).then(|| ip.to_owned()));
        }
        Ok(ips)
    }

    /// Writes or renews the lease of a server.
    pub async fn renew(&self, ip: IpAddr) -> Result<(), String> {
        let key = self.storage.key("", &ip.to_string());
        let renewed = guaranteed_update(&*self.storage.engine, &key, None, |entry| {
            // Only a change is written and renews the time to live: raise the generation.
            let generation = entry.map(|entry| self.decode(&entry)).transpose().map(|lease| {
                let lease = lease.unwrap_or_default();
                lease.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0)
            });
            std::future::ready(generation.map(|generation| {
                let lease = lease(ip, generation.wrapping_add(1));
                Change::Put(self.storage.encode(&lease), Some(TIME_TO_LIVE))
            }))
        });
        renewed.await.map(drop).map_err(|error: UpdateError<String>| error.to_string())
    }

    /// Removes the lease of a server; `false` if there was none.
    pub async fn remove(&self, ip: IpAddr) -> Result<bool, String> {
        let key = self.storage.key("", &ip.to_string());
        let removed = guaranteed_update(&*self.storage.engine, &key, None, |entry| {
            let change = if entry.is_some() { Change::Delete } else { Change::Keep };
            std::future::ready(Ok(change))
        });
        let removed = removed.await.map_err(|error: UpdateError<String>| error.to_string())?;
        Ok(removed.written.is_some())
    }

    fn decode(&self, entry: &Entry) -> Result<Value, String> {
        let wire = self.storage.wire(&entry.value, entry.mod_revision)?;
        self.storage.read(&wire.bytes)
    }
}

fn lease(ip: IpAddr, generation: i64) -> Value {
    let address = Map::from_iter([("ip", Value::from(ip.to_string().as_str()))]);
    let addresses = Value::List([Value::Map(address)].into_iter().collect());
    let subset = Map::from_iter([("addresses", addresses)]);
    let metadata = Map::from_iter([("generation", Value::Int(generation))]);
    Value::Map(Map::from_iter([
        ("apiVersion", Value::from("v1")),
        ("kind", Value::from("Endpoints")),
        ("metadata", Value::Map(metadata)),
        ("subsets", Value::List([Value::Map(subset)].into_iter().collect())),
    ]))
}
