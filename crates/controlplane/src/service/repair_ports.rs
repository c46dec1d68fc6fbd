//! Repair controller of node ports: the allocated ports are those of the Services (upstream: portallocator
//! controller.Repair).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kevel_registry::storage::Storage;
use kevel_store::Revision;
use kevel_store::cache::At;

use super::Services;
use super::port_allocator::PortAllocator;
use super::port_set::{PortError, PortSet};
use super::spec::Spec;

/// Interval between runs.
const INTERVAL: Duration = Duration::from_secs(180);
/// Number of runs that must find a port without a Service before it is released: its Service may still be created.
const LOOKS_BEFORE_FREE: u32 = 3;
/// Attempts to write when other servers write at the same time.
const ATTEMPTS: u32 = 5;
/// Delay after a failed first run.
const RETRY: Duration = Duration::from_secs(1);

/// Repair controller of node ports.
pub struct RepairPorts {
    services: Arc<Storage>,
    ports: Arc<PortAllocator>,
    /// Remaining runs of ports without a Service.
    leaks: HashMap<i64, u32>,
}

impl std::fmt::Debug for RepairPorts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RepairPorts").field("leaks", &self.leaks).finish_non_exhaustive()
    }
}

impl RepairPorts {
    /// Makes a controller for these Services.
    pub fn new(services: &Services) -> Self {
        RepairPorts {
            services: services.services.clone(),
            ports: services.ports.clone(),
            leaks: HashMap::new(),
        }
    }

    /// Runs until one run succeeds. No port can be allocated before.
    pub async fn first(&mut self) {
        while let Err(error) = self.look().await {
            self.ports.metrics.port_repair_failed();
            tracing::error!(error, "node ports cannot be repaired");
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Runs at every `INTERVAL`; never returns.
    pub async fn keep(mut self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            if let Err(error) = self.look().await {
                self.ports.metrics.port_repair_failed();
                tracing::error!(error, "node ports cannot be repaired");
            }
        }
    }

    /// Runs once.
    pub async fn look(&mut self) -> Result<(), String> {
        for _ in 0..ATTEMPTS {
            let stored = self.ports.read().await.map_err(|error| error.to_string())?;
            let revision = stored.as_ref().map(|stored| stored.revision);
            let stored = stored.map(|stored| stored.ports);
            let mut leaks = self.leaks.clone();
            let rebuilt = self.rebuild(stored.clone(), &mut leaks).await?;
            if stored.as_ref() == Some(&rebuilt) || self.replace(&rebuilt, revision).await? {
                self.ports.metrics.ports(&rebuilt);
                self.leaks = leaks;
                return Ok(());
            }
        }
        Err("unable to persist the updated port allocations".into())
    }

    async fn replace(&self, ports: &PortSet, at: Option<Revision>) -> Result<bool, String> {
        self.ports.replace(ports, at).await.map_err(|error| error.to_string())
    }

    async fn rebuild(
        &self,
        stored: Option<PortSet>,
        leaks: &mut HashMap<i64, u32>,
    ) -> Result<PortSet, String> {
        let mut unseen = stored.unwrap_or_else(|| PortSet::new(self.ports.range));
        let mut rebuilt = PortSet::new(self.ports.range);
        let snapshot = self.services.cache.snapshot(At::Consistent).await;
        for object in snapshot.map_err(|error| error.to_string())?.range("", None) {
            let spec = Spec::read(&self.services.tree(object)?);
            for port in spec.taken_ports() {
                let service = object.key();
                match rebuilt.take(port) {
                    Ok(()) if unseen.has(port) => unseen.release(port),
                    Ok(()) => {
                        tracing::warn!(service, port, "node port is not allocated; repairing")
                    }
                    Err(PortError::Allocated) => {
                        tracing::error!(
                            service,
                            port,
                            "node port was assigned to multiple services; please recreate service"
                        );
                    }
                    Err(error) => {
                        tracing::error!(service, port, %error, "please recreate service");
                    }
                }
                leaks.remove(&port);
            }
        }
        for port in unseen.iter() {
            let left = leaks.entry(port).or_insert(LOOKS_BEFORE_FREE);
            *left -= 1;
            match *left {
                0 => {
                    leaks.remove(&port);
                    tracing::warn!(port, "node port appears to have leaked: cleaning up");
                }
                // A port outside a changed range is dropped.
                _ => drop(rebuilt.take(port)),
            }
        }
        Ok(rebuilt)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use kevel_api::value::Value;
    use kevel_registry::storage::Format;
    use kevel_store::embedded::{Embedded, Options};

    use super::*;
    use crate::rows::{StorageOptions, storages};
    use crate::service::{IpAllocation, PortRange};
    use kevel_registry::backends::{Backend, Backends};

    const RANGE: PortRange = PortRange { base: 30000, size: 100 };

    /// Services of an empty cluster. The backends must outlive them.
    pub fn services(mode: IpAllocation, range: PortRange) -> (Services, Backends) {
        let engine: Arc<dyn kevel_store::Engine> =
            Arc::new(Embedded::memory(Options::default()).unwrap());
        let backends = Backends::new(Backend::new(engine.clone(), "/registry/"));
        let options = StorageOptions::new(Format::Json);
        let storages = storages(|row| row.on, &options, &backends).unwrap();
        let network = ["10.0.0.0/24".to_owned()];
        let caches = &backends.default.caches;
        let services = Services::new(&storages, &network, mode, range, &options, &engine, caches);
        (services.unwrap(), backends)
    }

    async fn taken(services: &Services) -> Vec<i64> {
        services.ports.read().await.unwrap().unwrap().ports.iter().collect()
    }

    #[tokio::test]
    async fn a_port_without_a_service_is_free_after_some_looks() {
        let (services, _caches) = services(IpAllocation::Addresses, RANGE);
        let mut repair = RepairPorts::new(&services);
        // No port can be allocated before the first run.
        assert!(services.ports.change(|ports| ports.take(30000)).await.is_err());
        repair.look().await.unwrap();
        services.ports.change(|ports| ports.take(30000)).await.unwrap();
        for expected in [vec![30000], vec![30000], vec![]] {
            repair.look().await.unwrap();
            assert_eq!(taken(&services).await, expected);
        }
    }

    #[tokio::test]
    async fn a_port_that_a_service_has_is_taken() {
        let (services, _caches) = services(IpAllocation::Addresses, RANGE);
        let text = br#"{"metadata":{"name":"a","namespace":"b"},
            "spec":{"type":"NodePort","ports":[{"port":80,"protocol":"TCP","nodePort":30007}]}}"#;
        let service: Value =
            kevel_codec::json::decode_any(text, kevel_codec::json::Unknown::Ignore).unwrap().value;
        services.services.insert(service).await.unwrap();
        let mut repair = RepairPorts::new(&services);
        for _ in 0..5 {
            repair.look().await.unwrap();
            assert_eq!(taken(&services).await, [30007]);
        }
    }
}
