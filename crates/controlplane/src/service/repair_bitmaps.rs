//! Repair controller of cluster IPs in bitmaps: the allocated addresses are those of the Services (upstream:
//! ipallocator controller.Repair).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use kevel_registry::storage::Storage;
use kevel_store::cache::At;

use super::Services;
use super::bitmap_allocator::{BitmapAllocator, IpBitmap};
use super::ip_allocator::IpAllocator;
use super::range_object::RangeError;
use super::repair_ips::cluster_ips;

/// Interval between runs.
const INTERVAL: Duration = Duration::from_secs(180);
/// Number of runs that must find an address without a Service before it is released: its Service may still be created.
const LOOKS_BEFORE_FREE: u32 = 3;
/// Attempts to write when other servers write at the same time.
const ATTEMPTS: u32 = 5;
/// Delay after a failed first run.
const RETRY: Duration = Duration::from_secs(1);

/// Repair controller of cluster IPs in bitmaps.
pub struct RepairBitmaps {
    services: Arc<Storage>,
    ips: Arc<IpAllocator>,
    /// Remaining runs of addresses without a Service.
    leaks: HashMap<IpAddr, u32>,
}

/// Error of a run.
#[derive(Debug, thiserror::Error)]
pub(super) enum RepairError {
    /// A bitmap could not be read or written.
    #[error(transparent)]
    Range(#[from] RangeError),
    /// The Services could not be read.
    #[error("unable to refresh the service IP block: {0}")]
    Services(String),
    /// Other servers wrote at the same time again and again.
    #[error("unable to persist the updated service IP allocations")]
    Contended,
}

impl std::fmt::Debug for RepairBitmaps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RepairBitmaps").field("leaks", &self.leaks).finish_non_exhaustive()
    }
}

impl RepairBitmaps {
    /// Makes a controller for these Services.
    pub fn new(services: &Services) -> Self {
        RepairBitmaps {
            services: services.services.clone(),
            ips: services.ips.clone(),
            leaks: HashMap::new(),
        }
    }

    /// Runs until one run succeeds. No address can be allocated before.
    pub async fn first(&mut self) {
        while let Err(error) = self.look().await {
            tracing::error!(%error, "cluster IPs cannot be repaired");
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Runs at every `INTERVAL`; never returns.
    pub async fn keep(mut self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            if let Err(error) = self.look().await {
                tracing::error!(%error, "cluster IPs cannot be repaired");
            }
        }
    }

    /// Runs once.
    pub(super) async fn look(&mut self) -> Result<(), RepairError> {
        let ips = self.ips.clone();
        for bitmap in ips.bitmaps() {
            self.repair(bitmap).await?;
        }
        Ok(())
    }

    async fn repair(&mut self, allocator: &BitmapAllocator) -> Result<(), RepairError> {
        for _ in 0..ATTEMPTS {
            let stored = allocator.read().await?;
            let revision = stored.as_ref().map(|stored| stored.revision);
            let stored = stored.map(|stored| stored.bitmap);
            let mut leaks = self.leaks.clone();
            let rebuilt = self.rebuild(allocator, stored.clone(), &mut leaks).await?;
            if stored.as_ref() == Some(&rebuilt) || allocator.replace(&rebuilt, revision).await? {
                self.leaks = leaks;
                return Ok(());
            }
        }
        Err(RepairError::Contended)
    }

    async fn rebuild(
        &self,
        allocator: &BitmapAllocator,
        stored: Option<IpBitmap>,
        leaks: &mut HashMap<IpAddr, u32>,
    ) -> Result<IpBitmap, RepairError> {
        let mut unseen = stored.unwrap_or_else(|| allocator.empty());
        let mut rebuilt = allocator.empty();
        let snapshot = self.services.cache.snapshot(At::Consistent).await;
        let snapshot = snapshot.map_err(|error| RepairError::Services(error.to_string()))?;
        for object in snapshot.range("", None) {
            let tree = self.services.tree(object).map_err(RepairError::Services)?;
            let service = object.key();
            let family = allocator.range().is_ipv6();
            let given = cluster_ips(service, &tree).into_iter();
            for ip in given.filter(|ip| ip.is_ipv6() == family) {
                match allocator.offset(ip) {
                    None => tracing::error!(
                        service,
                        %ip,
                        "the cluster IP is not within the service CIDR; please recreate service"
                    ),
                    Some(offset) if !rebuilt.take(offset) => tracing::error!(
                        service,
                        %ip,
                        "the cluster IP was assigned to multiple services; please recreate service"
                    ),
                    Some(offset) if unseen.has(offset) => unseen.release(offset),
                    Some(_) => {
                        tracing::warn!(service, %ip, "the cluster IP is not allocated; repairing");
                    }
                }
                leaks.remove(&ip);
            }
        }
        for offset in unseen.iter() {
            let ip = allocator.address(offset);
            let left = leaks.entry(ip).or_insert(LOOKS_BEFORE_FREE);
            *left -= 1;
            if *left == 0 {
                leaks.remove(&ip);
                tracing::warn!(%ip, "the cluster IP appears to have leaked: cleaning up");
            } else {
                rebuilt.take(offset);
            }
        }
        Ok(rebuilt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::repair_ports::tests::services;
    use crate::service::{IpAllocation, PortRange};

    #[tokio::test]
    async fn addresses_without_a_service_are_free_after_some_looks() {
        let range = PortRange { base: 30000, size: 100 };
        let (services, _caches) = services(IpAllocation::Bitmap, range);
        let mut repair = RepairBitmaps::new(&services);
        let ip: IpAddr = "10.0.0.7".parse().unwrap();
        // No address can be allocated before the first run.
        assert!(services.ips.take(ip, "b", "a", false).await.is_err());
        repair.look().await.unwrap();
        services.ips.take(ip, "b", "a", false).await.unwrap();
        let again = services.ips.take(ip, "b", "c", false).await;
        assert_eq!(again.unwrap_err().to_string(), "provided IP is already allocated");
        for expected in [1, 1, 0] {
            repair.look().await.unwrap();
            let bitmap = &services.ips.bitmaps()[0];
            assert_eq!(bitmap.read().await.unwrap().unwrap().bitmap.iter().count(), expected);
        }
    }
}
