//! Looks whether every cluster IP has its IPAddress, and every IPAddress its Service.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use kevel_api::ip::parse_ip_sloppy;
use kevel_api::status::{StatusError, reason};
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_server::controller::{Backoff, Client, WorkQueue, inform, run};
use kevel_server::storage::{Storage, local_key};
use kevel_store::cache::At;

use super::Services;
use super::families::family;
use super::ip_allocator::{FAMILY_LABEL, IpAllocator, MANAGED_BY, MANAGED_BY_LABEL, ip_address};
use super::spec::Spec;

const PATH: &str = "/apis/networking.k8s.io/v1/ipaddresses";
/// How often everything is looked at when nothing is heard.
const RESYNC: Duration = Duration::from_secs(180);
/// How long the Service of an address may be on its way: as long as a request may take.
const GRACE_PERIOD: i64 = 60;
/// How long a Service that is there may take to give back what it did not need.
const REVERT_PERIOD: i64 = 5;
/// How soon a first look that failed is repeated.
const RETRY: Duration = Duration::from_millis(100);

/// The repair of cluster IPs.
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
    /// A controller of these services' addresses.
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

    /// Looks at everything once. Must not be called before the default ServiceCIDR is there.
    pub async fn first(&self) {
        while let Err(error) = self.look().await {
            tracing::error!(error, "cluster IPs cannot be repaired");
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn look(&self) -> Result<(), String> {
        let text = |error: kevel_store::cache::CacheError| error.to_string();
        // What was made a moment ago is seen.
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

    /// Looks at what is heard of, and at everything now and then, for ever.
    pub fn keep(self) -> impl Future<Output = ()> + Send + 'static {
        let [services, addresses] = self.queues.clone();
        let informers = {
            let (services, addresses) = (services.clone(), addresses.clone());
            let (service_cache, address_cache) =
                (self.services.cache.clone(), self.addresses.cache.clone());
            let hear_services = inform(service_cache, move |object| services.add(object.key()));
            let hear_addresses = inform(address_cache, move |object| addresses.add(object.key()));
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

    /// Every cluster IP of a Service has an IPAddress that names the Service.
    async fn sync_service(&self, key: &str) -> Result<(), String> {
        let Some(service) = find(&self.services, key)? else { return Ok(()) };
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let spec = Spec::read(&service);
        if !spec.needs_cluster_ip() || spec.is_headless() {
            return Ok(());
        }
        for text in &spec.cluster_ips {
            let Some(ip) = parse_ip_sloppy(text).map(|ip| ip.to_canonical()) else {
                tracing::error!(service = key, ip = text, "the cluster IP is no IP");
                continue;
            };
            if !self.ips.in_range(ip).await.map_err(|error| error.to_string())? {
                tracing::error!(
                    service = key,
                    %ip,
                    "the cluster IP is not within any service CIDR; please recreate service"
                );
                continue;
            }
            match find(&self.addresses, &ip.to_string())? {
                None => {
                    tracing::warn!(service = key, %ip, "the cluster IP is not allocated; repairing");
                    self.create(ip, namespace, name).await?;
                }
                Some(address) => self.sync_pair(&address, ip, &service).await?,
            }
        }
        Ok(())
    }

    /// An IPAddress is as the allocator makes it for a Service.
    async fn sync_pair(&self, address: &Value, ip: IpAddr, service: &Value) -> Result<(), String> {
        let names = |field: &str| service.str_at(&["metadata", field]);
        let (namespace, name) = (names("namespace"), names("name"));
        let parent = |field: &str| address.str_at(&["spec", "parentRef", field]);
        let is_service = parent("group").is_empty() && parent("resource") == "services";
        let is_this = is_service && parent("namespace") == namespace && parent("name") == name;
        if is_service && !is_this {
            let other = local_key(parent("namespace"), parent("name"));
            if let Some(other) = find(&self.services, &other)? {
                if Spec::read(&other).cluster_ips.contains(&ip.to_string()) {
                    tracing::error!(
                        namespace,
                        name,
                        %ip,
                        "the cluster IP was assigned to multiple services; please recreate service"
                    );
                }
                return Ok(());
            }
        }
        let label = |label: &str| address.str_at(&["metadata", "labels", label]);
        let labelled =
            label(FAMILY_LABEL) == family(&ip.to_string()) && label(MANAGED_BY_LABEL) == MANAGED_BY;
        if is_this && labelled {
            return Ok(());
        }
        tracing::warn!(namespace, name, %ip, "the IPAddress has a wrong reference; repairing");
        self.delete(ip).await?;
        self.create(ip, namespace, name).await
    }

    /// An IPAddress that the allocator made belongs to a Service that has it.
    async fn sync_address(&self, key: &str) -> Result<(), String> {
        let Some(address) = find(&self.addresses, key)? else { return Ok(()) };
        let Ok(ip) = key.parse::<IpAddr>() else { return Ok(()) };
        if address.str_at(&["metadata", "labels", MANAGED_BY_LABEL]) != MANAGED_BY {
            return Ok(());
        }
        let parent = |field: &str| address.str_at(&["spec", "parentRef", field]);
        if !parent("group").is_empty() || parent("resource") != "services" {
            tracing::error!(%ip, "IPAddress appears to have been modified: cleaning up");
            return self.delete(ip).await;
        }
        let made = seconds(&address);
        let age = Time::now().seconds.saturating_sub(made);
        let service = find(&self.services, &local_key(parent("namespace"), parent("name")))?;
        let wait = match &service {
            None => GRACE_PERIOD.saturating_sub(age),
            Some(service) => {
                let spec = Spec::read(service);
                if spec.cluster_ips.iter().any(|given| given == key) {
                    return Ok(());
                }
                let getting = if spec.is_external_name() { GRACE_PERIOD - age } else { 0 };
                let reverting = if made >= seconds(service) { REVERT_PERIOD - age } else { 0 };
                getting.max(reverting)
            }
        };
        if let Ok(wait @ 1..) = u64::try_from(wait) {
            self.queues[1].add_after(key, Duration::from_secs(wait));
            return Ok(());
        }
        tracing::warn!(%ip, "IPAddress appears to have leaked: cleaning up");
        self.delete(ip).await
    }

    async fn create(&self, ip: IpAddr, namespace: &str, name: &str) -> Result<(), String> {
        let created = self.client.create(PATH, &ip_address(ip, namespace, name)).await;
        created.map(drop).map_err(|error| error.to_string())
    }

    async fn delete(&self, ip: IpAddr) -> Result<(), String> {
        match self.client.delete(&format!("{PATH}/{ip}")).await {
            Err(error) if error.reason() != reason::NOT_FOUND => Err(error.to_string()),
            _ => Ok(()),
        }
    }
}

fn find(storage: &Storage, key: &str) -> Result<Option<Value>, String> {
    let Some(object) = storage.cache.latest().get(key).cloned() else { return Ok(None) };
    let wire = object.wire().map_err(|error| StatusError::internal(error).to_string())?;
    storage.read(wire).map(Some)
}

/// When an object was made.
fn seconds(object: &Value) -> i64 {
    let time: Option<Time> = object.str_at(&["metadata", "creationTimestamp"]).parse().ok();
    time.map_or(0, |time| time.seconds)
}
