//! Allocator of cluster IPs: an `IPAddress` object for each, within the networks of the `ServiceCIDR` objects. The
//! stored objects are the only state.

use std::net::IpAddr;
use std::sync::Arc;

use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_clock::Stopwatch;
use kevel_registry::storage::{Storage, local_key};
use kevel_store::cache::At;

use super::bitmap_allocator::BitmapAllocator;
use super::families::{IPV4, IPV6};
use super::ip_range::IpRange;
use super::metrics::AllocatorMetrics;
use super::random;
use crate::lister::{Facts, Lister};

/// Value of the managed-by label for addresses of Services.
pub const MANAGED_BY: &str = "ipallocator.k8s.io";
pub const MANAGED_BY_LABEL: &str = "ipaddress.kubernetes.io/managed-by";
pub const FAMILY_LABEL: &str = "ipaddress.kubernetes.io/ip-family";

/// `fieldsV1` of a new IPAddress's managedFields entry.
const FIELDS: &str = r#"{"f:metadata":{"f:labels":{".":{},"f:ipaddress.kubernetes.io/ip-family":{},"f:ipaddress.kubernetes.io/managed-by":{}}},"f:spec":{"f:parentRef":{".":{},"f:name":{},"f:namespace":{},"f:resource":{}}}}"#;

/// Freshness of the two attempts: a failure on cached data is retried on consistent data.
const LOOKS: [At; 2] = [At::Any, At::Consistent];

/// Allocator of cluster IPs.
pub struct IpAllocator {
    addresses: Arc<Storage>,
    cidrs: Lister<ServiceCidr>,
    mode: IpAllocation,
    /// Bitmaps of the networks of the command line; none with [`IpAllocation::Addresses`].
    bitmaps: Vec<BitmapAllocator>,
    metrics: Arc<AllocatorMetrics>,
}

/// Record of the cluster IPs that are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpAllocation {
    /// `IPAddress` objects.
    Addresses,
    /// `IPAddress` objects and, for servers that do not know them, the bitmap (`DisableAllocatorDualWrite` is off).
    Both,
    /// The bitmap alone (`MultiCIDRServiceAllocator` is off).
    Bitmap,
}

/// Error of an allocation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IpError {
    #[error("range is full")]
    Full,
    #[error("provided IP is already allocated")]
    Allocated,
    #[error("the provided network does not match the current range")]
    MismatchedNetwork,
    #[error("the provided IP ({0}) is not in the valid range. The range of valid IPs is {1}")]
    NotInRange(IpAddr, String),
    #[error("allocator not ready")]
    NotReady,
    #[error("{0}")]
    Other(String),
}

/// A network of a ServiceCIDR.
struct Network {
    text: String,
    range: IpRange,
    /// True if new addresses may be allocated from the network.
    ready: bool,
}

impl IpAllocator {
    pub fn new(
        addresses: Arc<Storage>,
        cidrs: Arc<Storage>,
        mode: IpAllocation,
        bitmaps: Vec<BitmapAllocator>,
    ) -> Self {
        let bitmaps = if mode == IpAllocation::Addresses { Vec::new() } else { bitmaps };
        let metrics = Arc::default();
        IpAllocator { addresses, cidrs: Lister::new(cidrs), mode, bitmaps, metrics }
    }

    /// The allocator with metrics.
    pub fn measured(self, metrics: Arc<AllocatorMetrics>) -> Self {
        IpAllocator { metrics, ..self }
    }

    /// Storage of the addresses.
    pub(super) fn addresses(&self) -> &Storage {
        &self.addresses
    }

    /// Networks that the cache has, without duplicates.
    pub(super) fn known_networks(&self) -> Vec<(String, IpRange)> {
        let mut known: Vec<(String, IpRange)> = Vec::new();
        for cidr in self.cidrs.latest() {
            for (text, range) in &cidr.ranges {
                if known.iter().all(|(other, _)| other != text) {
                    known.push((text.clone(), *range));
                }
            }
        }
        known
    }

    /// Records an allocation. A dry run is none.
    fn count(
        &self,
        allocated: Result<IpAddr, bool>,
        is_static: bool,
        dry_run: bool,
        started: Stopwatch,
    ) {
        if dry_run {
            return;
        }
        let fits = |range: &IpRange| match allocated {
            Ok(ip) => range.contains(ip),
            Err(ipv6) => range.is_ipv6() == ipv6,
        };
        let networks = self.known_networks();
        let network = networks.iter().find(|(_, range)| fits(range));
        let network = network.map_or("", |(text, _)| text.as_str());
        self.metrics.address(network, is_static, allocated.is_ok(), started.elapsed());
    }

    /// Record of the addresses.
    pub fn mode(&self) -> IpAllocation {
        self.mode
    }

    /// Bitmaps of the networks, where they are kept.
    pub fn bitmaps(&self) -> &[BitmapAllocator] {
        &self.bitmaps
    }

    fn bitmap(&self, ipv6: bool) -> Option<&BitmapAllocator> {
        self.bitmaps.iter().find(|bitmap| bitmap.range().is_ipv6() == ipv6)
    }

    /// Allocates any address for a Service.
    pub async fn take_any(
        &self,
        ipv6: bool,
        namespace: &str,
        name: &str,
        dry_run: bool,
    ) -> Result<IpAddr, IpError> {
        let started = Stopwatch::start();
        let taken = self.take_any_uncounted(ipv6, namespace, name, dry_run).await;
        self.count(taken.as_ref().map_err(|_| ipv6).copied(), false, dry_run, started);
        taken
    }

    async fn take_any_uncounted(
        &self,
        ipv6: bool,
        namespace: &str,
        name: &str,
        dry_run: bool,
    ) -> Result<IpAddr, IpError> {
        if self.mode == IpAllocation::Bitmap {
            let bitmap = self.bitmap(ipv6).ok_or(IpError::NotReady)?;
            return if dry_run { Ok(bitmap.range().network()) } else { bitmap.take_any().await };
        }
        if dry_run {
            // A dry run answers the network's address: the address of the later write cannot be predicted.
            let networks = self.networks(ipv6, At::Any).await?;
            let network = networks.first().filter(|network| network.ready);
            return network.map(|network| network.range.network()).ok_or(IpError::NotReady);
        }
        // Older servers go by the bitmap: its addresses come first.
        if let Some(bitmap) = self.bitmap(ipv6)
            && let Ok(ip) = bitmap.take_any().await
        {
            let taken = self.take_address(ip, namespace, name).await;
            if taken.is_err() {
                bitmap.release(ip).await;
            }
            return taken.map(|()| ip);
        }
        for at in LOOKS {
            let networks = self.networks(ipv6, at).await?;
            match self.take_any_of(networks, namespace, name).await {
                Err(IpError::Full) => {}
                taken => return taken,
            }
        }
        Err(IpError::Full)
    }

    async fn take_any_of(
        &self,
        mut networks: Vec<Network>,
        namespace: &str,
        name: &str,
    ) -> Result<IpAddr, IpError> {
        if !networks.is_empty() {
            let first = usize::try_from(random()).unwrap_or(0) % networks.len();
            networks.rotate_left(first);
        }
        for network in networks.iter().filter(|network| network.ready) {
            for ip in network.range.shuffled() {
                if self.addresses.cache.latest().get(&ip.to_string()).is_some() {
                    continue;
                }
                // Another server may allocate the address at the same time.
                match self.create(ip, namespace, name).await {
                    Err(IpError::Allocated) => {}
                    created => return created.map(|()| ip),
                }
            }
        }
        Err(IpError::Full)
    }

    /// Allocates a given address for a Service.
    pub async fn take(
        &self,
        ip: IpAddr,
        namespace: &str,
        name: &str,
        dry_run: bool,
    ) -> Result<(), IpError> {
        let started = Stopwatch::start();
        let taken = self.take_uncounted(ip, namespace, name, dry_run).await;
        self.count(taken.as_ref().map(|()| ip).map_err(|_| ip.is_ipv6()), true, dry_run, started);
        taken
    }

    async fn take_uncounted(
        &self,
        ip: IpAddr,
        namespace: &str,
        name: &str,
        dry_run: bool,
    ) -> Result<(), IpError> {
        let bitmap = self.bitmap(ip.is_ipv6());
        if self.mode == IpAllocation::Bitmap {
            let bitmap = bitmap.ok_or(IpError::NotReady)?;
            return if dry_run && bitmap.offset(ip).is_some() {
                Ok(())
            } else {
                bitmap.take(ip).await
            };
        }
        if dry_run {
            return match self.networks(ip.is_ipv6(), At::Any).await?.first() {
                Some(network) if !network.ready => Err(IpError::NotReady),
                Some(network) if !network.range.contains(ip) => {
                    Err(IpError::NotInRange(ip, network.text.clone()))
                }
                Some(_) => Ok(()),
                None => Err(IpError::NotReady),
            };
        }
        let Some(bitmap) = bitmap.filter(|bitmap| bitmap.offset(ip).is_some()) else {
            return self.take_address(ip, namespace, name).await;
        };
        bitmap.take(ip).await?;
        let taken = self.take_address(ip, namespace, name).await;
        if taken.is_err() {
            bitmap.release(ip).await;
        }
        taken
    }

    /// Allocates a given address of a network by its object.
    async fn take_address(&self, ip: IpAddr, namespace: &str, name: &str) -> Result<(), IpError> {
        for at in LOOKS {
            let networks = self.networks(ip.is_ipv6(), at).await?;
            if networks.iter().any(|network| network.ready && network.range.contains(ip)) {
                return self.create(ip, namespace, name).await;
            }
        }
        Err(IpError::MismatchedNetwork)
    }

    /// Releases the address of a Service. An address that another Service has by then is kept. The repair controller
    /// of any server releases addresses for which this fails.
    pub async fn release(&self, ip: IpAddr, namespace: &str, name: &str) {
        if let Some(bitmap) = self.bitmap(ip.is_ipv6()) {
            bitmap.release(ip).await;
        }
        if self.mode == IpAllocation::Bitmap {
            return;
        }
        let service = local_key(namespace, name);
        let is_its = |address: &Value| parent_key(address).is_some_and(|parent| parent == service);
        if let Err(error) = self.addresses.discard_if("", &ip.to_string(), is_its).await {
            tracing::warn!(%ip, %error, "a cluster IP was not released");
        }
    }

    /// True if an address is in some network, ready or not.
    pub async fn in_range(&self, ip: IpAddr) -> Result<bool, IpError> {
        let networks = self.networks(ip.is_ipv6(), At::Any).await?;
        Ok(networks.iter().any(|network| network.range.contains(ip)))
    }

    /// Networks of a family, without duplicates.
    async fn networks(&self, ipv6: bool, at: At) -> Result<Vec<Network>, IpError> {
        let other = |error: String| IpError::Other(error);
        let cidrs = self.cidrs.list("", at).await;
        // Until the cache of addresses is loaded, allocated addresses would look free.
        let loaded = self.addresses.cache.loaded().await;
        loaded.map_err(|error| other(error.to_string()))?;
        let mut networks: Vec<Network> = Vec::new();
        for cidr in cidrs.map_err(|error| other(error.to_string()))? {
            for (text, range) in cidr.ranges.iter().filter(|(_, range)| range.is_ipv6() == ipv6) {
                let ready = cidr.ready;
                match networks.iter_mut().find(|network| network.text == *text) {
                    Some(network) => network.ready |= ready,
                    None => networks.push(Network { text: text.clone(), range: *range, ready }),
                }
            }
        }
        Ok(networks)
    }

    async fn create(&self, ip: IpAddr, namespace: &str, name: &str) -> Result<(), IpError> {
        let mut object = ip_address(ip, namespace, name);
        own(&mut object, Time::now(&self.addresses.registry.clock));
        match self.addresses.insert(object).await {
            Ok(_) => Ok(()),
            Err(kevel_store::Error::Exists(_)) => Err(IpError::Allocated),
            Err(error) => Err(IpError::Other(error.to_string())),
        }
    }
}

/// Networks of a ServiceCIDR.
struct ServiceCidr {
    ranges: Vec<(String, IpRange)>,
    ready: bool,
}

impl Facts for ServiceCidr {
    fn read(cidr: &Value) -> Self {
        let texts = cidr.list_at(&["spec", "cidrs"]).iter().filter_map(Value::as_str);
        let ranges = texts.filter_map(|text| Some((text.to_owned(), IpRange::parse(text)?)));
        ServiceCidr { ranges: ranges.collect(), ready: is_ready(cidr) }
    }
}

/// True if addresses may be allocated: the ServiceCIDR is not being deleted, and its Ready condition is absent or True.
fn is_ready(cidr: &Value) -> bool {
    let mut ready = cidr.list_at(&["status", "conditions"]).iter();
    let ready = ready.find(|condition| condition.str_at(&["type"]) == "Ready");
    cidr.str_at(&["metadata", "deletionTimestamp"]).is_empty()
        && ready.is_none_or(|condition| condition.str_at(&["status"]) == "True")
}

/// Key of the Service in an IPAddress's `parentRef`; `None` for other parents.
pub fn parent_key(address: &Value) -> Option<String> {
    let parent = |field: &str| address.str_at(&["spec", "parentRef", field]);
    let is_service = parent("group").is_empty() && parent("resource") == "services";
    is_service.then(|| local_key(parent("namespace"), parent("name")))
}

/// Makes the IPAddress of a Service.
pub fn ip_address(ip: IpAddr, namespace: &str, name: &str) -> Value {
    let family = if ip.is_ipv6() { IPV6 } else { IPV4 };
    let labels = Map::from_iter([
        (FAMILY_LABEL, Value::from(family)),
        (MANAGED_BY_LABEL, Value::from(MANAGED_BY)),
    ]);
    let metadata = Map::from_iter([
        ("name", Value::from(ip.to_string().as_str())),
        ("labels", Value::Map(labels)),
    ]);
    let parent = Map::from_iter([
        ("resource", Value::from("services")),
        ("namespace", Value::from(namespace)),
        ("name", Value::from(name)),
    ]);
    let spec = Map::from_iter([("parentRef", Value::Map(parent))]);
    Value::Map(Map::from_iter([
        ("apiVersion", Value::from("networking.k8s.io/v1")),
        ("kind", Value::from("IPAddress")),
        ("metadata", Value::Map(metadata)),
        ("spec", Value::Map(spec)),
    ]))
}

/// Sets the managedFields of an IPAddress.
fn own(object: &mut Value, now: Time) {
    let now = now.to_string();
    let fields = Map::from_iter([
        ("manager", Value::from("kube-apiserver")),
        ("operation", Value::from("Update")),
        ("apiVersion", Value::from("networking.k8s.io/v1")),
        ("time", Value::from(now.as_str())),
        ("fieldsType", Value::from("FieldsV1")),
        ("fieldsV1", Value::Raw(FIELDS.into())),
    ]);
    if let Some(metadata) = object.at_mut(&["metadata"]).and_then(Value::as_map_mut) {
        metadata.insert("managedFields", Value::List([Value::Map(fields)].into_iter().collect()));
    }
}
