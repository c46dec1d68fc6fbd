//! Repair controller of cluster IPs: every cluster IP has its IPAddress, and every IPAddress its Service (upstream:
//! RepairIPAddress).

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use kevel_api::ip::parse_ip_sloppy;
use kevel_api::status::reason;
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_controller_runtime::{Backoff, Client, Informer, WorkQueue, run};
use kevel_registry::storage::Storage;
use kevel_store::cache::At;

use super::Services;
use super::families::family;
use super::ip_allocator::{
    FAMILY_LABEL, IpAllocator, MANAGED_BY, MANAGED_BY_LABEL, ip_address, parent_key,
};
use super::spec::Spec;

const PATH: &str = "/apis/networking.k8s.io/v1/ipaddresses";
/// Interval of full resyncs.
const RESYNC: Duration = Duration::from_secs(180);
/// Seconds for which an IPAddress may lack its Service: as long as a request may take.
const GRACE_PERIOD: i64 = 60;
/// Seconds for which an existing Service may take to release an address that it did not use.
const REVERT_PERIOD: i64 = 5;
/// Delay after a failed first run.
const RETRY: Duration = Duration::from_millis(100);

/// Repair controller of cluster IPs.
#[derive(Clone)]
pub struct RepairIps {
    client: Client,
    services: Arc<Storage>,
    addresses: Arc<Storage>,
    cidrs: Arc<Storage>,
    ips: Arc<IpAllocator>,
    queues: [Arc<WorkQueue>; 2],
}

impl std::fmt::Debug for RepairIps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RepairIps").finish_non_exhaustive()
    }
}

impl RepairIps {
    /// Makes a controller for these Services.
    pub fn new(services: &Services, client: Client) -> Self {
        RepairIps {
            client,
            services: services.services.clone(),
            addresses: services.addresses.clone(),
            cidrs: services.cidrs.clone(),
            ips: services.ips.clone(),
            queues: [WorkQueue::new(Backoff::default()), WorkQueue::new(Backoff::default())],
        }
    }

    /// Checks everything once, with retries. Must not be called before the default ServiceCIDR exists.
    pub async fn first(&self) {
        while let Err(error) = self.look().await {
            tracing::error!(error, "cluster IPs cannot be repaired");
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn look(&self) -> Result<(), String> {
        let text = |error: kevel_store::cache::CacheError| error.to_string();
        for bitmap in self.ips.bitmaps() {
            bitmap.ensure().await.map_err(|error| error.to_string())?;
        }
        // The default ServiceCIDR was created just now: read it consistently.
        self.cidrs.cache.snapshot(At::Consistent).await.map_err(text)?;
        let services = self.services.cache.snapshot(At::Consistent).await.map_err(text)?;
        for service in services.range("", None) {
            self.sync_service(service.key()).await?;
        }
        let addresses = self.addresses.cache.snapshot(At::Consistent).await.map_err(text)?;
        for address in addresses.range("", None) {
            self.sync_address(address.key()).await?;
        }
        Ok(())
    }

    /// Checks objects on their events, and everything at every `RESYNC`; never returns.
    pub fn keep(self) -> impl Future<Output = ()> + Send + 'static {
        let [services, addresses] = self.queues.clone();
        let informers = {
            let (services, addresses) = (services.clone(), addresses.clone());
            let (service_cache, address_cache) =
                (self.services.cache.clone(), self.addresses.cache.clone());
            let hear_services =
                Informer::new(service_cache).for_each(move |object| services.add(object.key()));
            let hear_addresses =
                Informer::new(address_cache).for_each(move |object| addresses.add(object.key()));
            async move {
                tokio::join!(hear_services, hear_addresses);
            }
        };
        let resync = {
            let this = self.clone();
            async move {
                loop {
                    tokio::time::sleep(RESYNC).await;
                    let [services, addresses] = &this.queues;
                    for object in this.services.cache.latest().range("", None) {
                        services.add(object.key());
                    }
                    for object in this.addresses.cache.latest().range("", None) {
                        addresses.add(object.key());
                    }
                }
            }
        };
        let (of_services, of_addresses) = (self.clone(), self);
        let work = async move {
            let sync_service = move |key: String| {
                let this = of_services.clone();
                async move { this.sync_service(&key).await }
            };
            let sync_address = move |key: String| {
                let this = of_addresses.clone();
                async move { this.sync_address(&key).await }
            };
            tokio::join!(
                run(services, "ipallocator-repair-services", 1, sync_service),
                run(addresses, "ipallocator-repair-addresses", 1, sync_address),
            );
        };
        async move {
            tokio::join!(informers, resync, work);
        }
    }

    /// Checks that every cluster IP of a Service has an IPAddress that refers to the Service.
    async fn sync_service(&self, key: &str) -> Result<(), String> {
        let Some(service) = find(&self.services, key)? else { return Ok(()) };
        for ip in cluster_ips(key, &service) {
            if !self.ips.in_range(ip).await.map_err(|error| error.to_string())? {
                tracing::error!(
                    service = key,
                    %ip,
                    "the cluster IP is not within any service CIDR; please recreate service"
                );
                continue;
            }
            let address = find(&self.addresses, &ip.to_string())?;
            if !address.is_some_and(|address| is_right(&address, ip, key)) {
                self.repair(ip, key).await?;
            }
        }
        Ok(())
    }

    /// Repairs the IPAddress of a Service. The caches of Services and IPAddresses may be of different times, and the
    /// address may have moved to another Service in between. So the stored objects count, the IPAddress read first:
    /// then a Service read later that has the address is its present owner.
    async fn repair(&self, ip: IpAddr, key: &str) -> Result<(), String> {
        let address = fetch(&self.addresses, &ip.to_string()).await?;
        let Some(service) = fetch(&self.services, key).await? else { return Ok(()) };
        if !cluster_ips(key, &service).contains(&ip) {
            return Ok(());
        }
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let Some(address) = address else {
            tracing::warn!(service = key, %ip, "the cluster IP is not allocated; repairing");
            return self.create(ip, namespace, name).await;
        };
        if is_right(&address, ip, key) || self.has_other_owner(&address, ip, key).await? {
            return Ok(());
        }
        tracing::warn!(namespace, name, %ip, "the IPAddress has a wrong reference; repairing");
        self.delete(ip, &address).await?;
        self.create(ip, namespace, name).await
    }

    /// True if the IPAddress refers to another existing Service.
    async fn has_other_owner(
        &self,
        address: &Value,
        ip: IpAddr,
        key: &str,
    ) -> Result<bool, String> {
        let Some(named) = parent_key(address).filter(|named| named != key) else {
            return Ok(false);
        };
        let Some(other) = fetch(&self.services, &named).await? else { return Ok(false) };
        if cluster_ips(&named, &other).contains(&ip) {
            tracing::error!(
                service = key,
                other = named,
                %ip,
                "the cluster IP was assigned to multiple services; please recreate service"
            );
        }
        Ok(true)
    }

    /// Checks that an IPAddress made by the allocator belongs to a Service that has the address.
    async fn sync_address(&self, key: &str) -> Result<(), String> {
        let Some(address) = find(&self.addresses, key)? else { return Ok(()) };
        let Ok(ip) = key.parse::<IpAddr>() else { return Ok(()) };
        if address.str_at(&["metadata", "labels", MANAGED_BY_LABEL]) != MANAGED_BY {
            return Ok(());
        }
        let Some(parent) = parent_key(&address) else {
            tracing::error!(%ip, "IPAddress appears to have been modified: cleaning up");
            return self.delete(ip, &address).await;
        };
        let now = Time::now(self.client.clock());
        let mut found = use_of(&address, key, find(&self.services, &parent)?.as_ref(), now);
        if found == Use::None {
            // The Service may have been created since the cache was read.
            found = use_of(&address, key, fetch(&self.services, &parent).await?.as_ref(), now);
        }
        match found {
            Use::Service => Ok(()),
            Use::Perhaps(wait) => {
                self.queues[1].add_after(key, wait);
                Ok(())
            }
            Use::None => {
                tracing::warn!(%ip, "IPAddress appears to have leaked: cleaning up");
                self.delete(ip, &address).await
            }
        }
    }

    async fn create(&self, ip: IpAddr, namespace: &str, name: &str) -> Result<(), String> {
        let created = self.client.create(PATH, &ip_address(ip, namespace, name)).await;
        created.map(drop).map_err(|error| error.to_string())
    }

    /// Deletes an IPAddress at the resourceVersion that was judged: a later one of the same name belongs to another
    /// Service.
    async fn delete(&self, ip: IpAddr, address: &Value) -> Result<(), String> {
        match self.client.delete_seen(&format!("{PATH}/{ip}"), address).await {
            Err(error) if error.reason() != reason::NOT_FOUND => Err(error.to_string()),
            _ => Ok(()),
        }
    }
}

/// Use of an IPAddress.
#[derive(Debug, PartialEq, Eq)]
enum Use {
    /// The Service has the address.
    Service,
    /// The Service may still be created: check again after this time.
    Perhaps(Duration),
    /// No Service uses the address.
    None,
}

fn use_of(address: &Value, ip: &str, service: Option<&Value>, now: Time) -> Use {
    let made = seconds(address);
    let age = now.seconds.saturating_sub(made);
    let wait = match service {
        None => GRACE_PERIOD.saturating_sub(age),
        Some(service) => {
            let spec = Spec::read(service);
            if spec.cluster_ips.iter().any(|given| given == ip) {
                return Use::Service;
            }
            let getting = if spec.is_external_name() { GRACE_PERIOD - age } else { 0 };
            let reverting = if made >= seconds(service) { REVERT_PERIOD - age } else { 0 };
            getting.max(reverting)
        }
    };
    match u64::try_from(wait) {
        Ok(wait @ 1..) => Use::Perhaps(Duration::from_secs(wait)),
        _ => Use::None,
    }
}

/// Allocated cluster IPs of a Service.
pub(super) fn cluster_ips(key: &str, service: &Value) -> Vec<IpAddr> {
    let spec = Spec::read(service);
    if !spec.needs_cluster_ip() || spec.is_headless() {
        return Vec::new();
    }
    let ip = |text: &String| {
        let ip = parse_ip_sloppy(text).map(|ip| ip.to_canonical());
        if ip.is_none() {
            tracing::error!(service = key, ip = text, "the cluster IP is no IP");
        }
        ip
    };
    spec.cluster_ips.iter().filter_map(ip).collect()
}

/// True if an IPAddress has the parent and labels that the allocator sets.
fn is_right(address: &Value, ip: IpAddr, service: &str) -> bool {
    let label = |label: &str| address.str_at(&["metadata", "labels", label]);
    parent_key(address).is_some_and(|parent| parent == service)
        && label(FAMILY_LABEL) == family(&ip.to_string())
        && label(MANAGED_BY_LABEL) == MANAGED_BY
}

/// Object from the cache.
fn find(storage: &Storage, key: &str) -> Result<Option<Value>, String> {
    storage.cache.latest().get(key).map(|object| storage.tree(object)).transpose()
}

/// Object from the store.
async fn fetch(storage: &Storage, key: &str) -> Result<Option<Value>, String> {
    storage.fetch(key).await.map_err(|error| error.to_string())
}

/// Creation time in seconds.
fn seconds(object: &Value) -> i64 {
    let time: Option<Time> = object.str_at(&["metadata", "creationTimestamp"]).parse().ok();
    time.map_or(0, |time| time.seconds)
}
