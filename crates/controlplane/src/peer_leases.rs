//! Peer endpoint leases: each API server writes the address at which its peers reach it, and the entry expires if it
//! stops (upstream: PeerEndpointLeaseReconciler).

use std::sync::Arc;
use std::time::Duration;

use kevel_api::value::{Map, Value};
use kevel_component::signals::Signal;
use kevel_registry::storage::Storage;
use kevel_server::proxy::join_host_port;
use kevel_store::cache::Caches;
use kevel_store::{Change, Engine, Entry, UpdateError, guaranteed_update};

use crate::rows::StorageOptions;
use crate::service::internal;

/// Time to live of a lease, and interval of renewals.
const TIME_TO_LIVE: Duration = Duration::from_secs(15);
const INTERVAL: Duration = Duration::from_secs(10);
/// Label with the ID of the server.
const LABEL: &str = "apiserverIdentity";

/// Addresses of the API servers by their IDs, at `/registry/peerserverleases/`.
#[derive(Clone, Debug)]
pub struct PeerLeases {
    storage: Arc<Storage>,
}

impl PeerLeases {
    /// `None` if the kind Endpoints, as which leases are stored, has no definition.
    pub fn new(
        options: &StorageOptions,
        engine: &Arc<dyn Engine>,
        caches: &Caches,
    ) -> Option<Self> {
        let storage = internal("Endpoints", "peerserverleases", options, engine, caches)?;
        Some(PeerLeases { storage: Arc::new(storage) })
    }

    /// `host:port` of a server; `None` if it has no live lease.
    pub async fn get(&self, server_id: &str) -> Result<Option<String>, String> {
        let found = self.storage.engine.get(&self.storage.key("", server_id), None).await;
        let Some(entry) = found.map_err(|error| error.to_string())?.entry else { return Ok(None) };
        let lease = self.decode(&entry)?;
        let subset = lease.list_at(&["subsets"]).first().cloned().unwrap_or_default();
        let ip = subset.list_at(&["addresses"]).first().map(|address| address.str_at(&["ip"]));
        let port = subset.list_at(&["ports"]).first().and_then(|port| port.at(&["port"]));
        let port = port.and_then(Value::as_int).and_then(|port| u16::try_from(port).ok());
        Ok(ip.zip(port).map(|(ip, port)| join_host_port(ip, port)))
    }

    /// Renews the lease of a server until stopped.
    pub async fn keep(self, server: PeerAddress, stopped: Signal) {
        let keep = async {
            let mut turns = tokio::time::interval(INTERVAL);
            loop {
                turns.tick().await;
                if let Err(error) = self.renew(&server).await {
                    tracing::error!(error, "unable to update peer endpoint leases");
                }
            }
        };
        tokio::select! {
            () = keep => {}
            () = stopped.wait() => {}
        }
    }

    async fn renew(&self, server: &PeerAddress) -> Result<(), String> {
        let key = self.storage.key("", &server.id);
        let renewed = guaranteed_update(&*self.storage.engine, &key, None, |entry| {
            // Only a change is written and renews the time to live: raise the generation.
            let generation = entry.map(|entry| self.decode(&entry)).transpose().map(|lease| {
                let lease = lease.unwrap_or_default();
                lease.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0)
            });
            std::future::ready(generation.map(|generation| {
                let lease = server.lease(generation.wrapping_add(1));
                Change::Put(self.storage.encode(&lease), Some(TIME_TO_LIVE))
            }))
        });
        renewed.await.map(drop).map_err(|error: UpdateError<String>| error.to_string())
    }

    /// Removes the lease of a server, so that peers no longer proxy to it.
    pub async fn remove(&self, server_id: &str) -> Result<(), String> {
        let removed = self.storage.discard("", server_id);
        match tokio::time::timeout(2 * INTERVAL, removed).await {
            Ok(removed) => removed.map_err(|error| error.to_string()),
            Err(_) => Err("removing the peer endpoint lease timed out".to_owned()),
        }
    }

    fn decode(&self, entry: &Entry) -> Result<Value, String> {
        let wire = self.storage.wire(&entry.value, entry.mod_revision)?;
        self.storage.read(&wire.bytes)
    }
}

/// Address of a server.
#[derive(Clone, Debug)]
pub struct PeerAddress {
    /// ID of the server (see `kevel_component::identity`).
    pub id: String,
    /// IP address.
    pub ip: String,
    /// Port.
    pub port: u16,
}

impl PeerAddress {
    fn lease(&self, generation: i64) -> Value {
        let list = |entry: Map| Value::List([Value::Map(entry)].into_iter().collect());
        let port = Map::from_iter([
            ("name", Value::from("https")),
            ("port", Value::Int(self.port.into())),
            ("protocol", Value::from("TCP")),
        ]);
        let address = Map::from_iter([("ip", Value::from(self.ip.as_str()))]);
        let subset = Map::from_iter([("addresses", list(address)), ("ports", list(port))]);
        let labels = Map::from_iter([(LABEL, Value::from(self.id.as_str()))]);
        let metadata = Map::from_iter([
            ("generation", Value::Int(generation)),
            ("labels", Value::Map(labels)),
        ]);
        Value::Map(Map::from_iter([
            ("apiVersion", Value::from("v1")),
            ("kind", Value::from("Endpoints")),
            ("metadata", Value::Map(metadata)),
            ("subsets", list(subset)),
        ]))
    }
}

impl std::fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&join_host_port(&self.ip, self.port))
    }
}
