//! Services: kinds, allocation of cluster IPs and node ports, and the Service `default/kubernetes`.

mod address;
mod allocation;
mod bitmap_allocator;
mod cluster_ips;
mod default_service_cidr;
pub(crate) mod endpoint_slice;
pub(crate) mod endpoints;
mod families;
pub(crate) mod ip_address;
mod ip_allocator;
mod ip_range;
mod kubernetes_service;
mod leases;
mod metrics;
mod node_ports;
mod port_allocator;
mod port_set;
mod range_object;
mod reconciler;
mod repair_bitmaps;
mod repair_ips;
mod repair_ports;
pub(crate) mod service_cidr;
mod spec;
pub(crate) mod strategy;
mod validation;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use kevel_api::builtin;
use kevel_api::gvk::GroupVersionKind;
use kevel_registry::allocation::Allocation;
use kevel_registry::storage::{Storage, StorageConfig};
use kevel_registry::storages::Storages;
use kevel_registry::type_ref::TypeRef;
use kevel_store::Engine;
use kevel_store::cache::Caches;

use allocation::ServiceAllocation;
use bitmap_allocator::BitmapAllocator;
use families::{Families, IPV4, IPV6};
use ip_allocator::IpAllocator;
use metrics::AllocatorMetrics;
use port_allocator::PortAllocator;

use crate::capabilities::Capabilities;
use crate::rows::StorageOptions;

pub use default_service_cidr::DefaultServiceCidr;
pub use ip_allocator::IpAllocation;
pub use kubernetes_service::{KubernetesService, KubernetesServiceOptions};
pub use leases::Leases;
pub use port_set::PortRange;
pub use reconciler::Reconciler;
pub use repair_bitmaps::RepairBitmaps;
pub use repair_ips::RepairIps;
pub use repair_ports::RepairPorts;

/// Storages and allocators of a cluster's Services.
pub struct Services {
    services: Arc<Storage>,
    addresses: Arc<Storage>,
    cidrs: Arc<Storage>,
    endpoints: Arc<Storage>,
    families: Families,
    ips: Arc<IpAllocator>,
    ports: Arc<PortAllocator>,
    metrics: Arc<AllocatorMetrics>,
}

impl std::fmt::Debug for Services {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Services({})", self.ports.range)
    }
}

impl Services {
    /// Makes the allocators: addresses of the families of `networks`, one or two, and node ports. `None` if a kind
    /// that they need is not served.
    pub fn new(
        storages: &Storages,
        networks: &[String],
        mode: IpAllocation,
        node_ports: PortRange,
        storage: &StorageOptions,
        engine: &Arc<dyn Engine>,
        caches: &Caches,
    ) -> Option<Self> {
        let stored = |group, plural| storages.get(group, plural).cloned();
        let services = stored("", "services")?;
        let addresses = stored("networking.k8s.io", "ipaddresses")?;
        let cidrs = stored("networking.k8s.io", "servicecidrs")?;
        let ranges = internal("RangeAllocation", "ranges", storage, engine, caches)?;
        let ranges = Arc::new(ranges);
        let bitmaps = BitmapAllocator::of(networks, &ranges);
        let metrics = Arc::<AllocatorMetrics>::default();
        let ips = IpAllocator::new(addresses.clone(), cidrs.clone(), mode, bitmaps);
        let ips = Arc::new(ips.measured(metrics.clone()));
        let ports = Arc::new(PortAllocator::new(node_ports, ranges).measured(metrics.clone()));
        let is_ipv6 = |network: &String| network.contains(':');
        let families = Families {
            primary: if networks.first().is_some_and(is_ipv6) { IPV6 } else { IPV4 },
            dual_stack: networks.len() > 1,
        };
        let endpoints = stored("", "endpoints")?;
        Some(Services { services, addresses, cidrs, endpoints, families, ips, ports, metrics })
    }

    /// Record of the cluster IPs.
    pub fn mode(&self) -> IpAllocation {
        self.ips.mode()
    }

    /// Allocation hook for writes and deletions of Services.
    pub fn allocation(&self, capabilities: &Capabilities) -> Arc<dyn Allocation> {
        Arc::new(ServiceAllocation {
            families: self.families,
            ips: self.ips.clone(),
            ports: self.ports.clone(),
            endpoints: self.endpoints.clone(),
            capabilities: capabilities.clone(),
        })
    }
}

/// Storage of a core kind under a key of its own, which clients cannot read.
pub(crate) fn internal(
    kind: &'static str,
    place: &str,
    options: &StorageOptions,
    engine: &Arc<dyn Engine>,
    caches: &Caches,
) -> Option<Storage> {
    let config = StorageConfig {
        kind: GroupVersionKind::from_static("", "v1", kind),
        ty: TypeRef::BuiltIn(builtin::schema("", "v1", kind)?),
        prefix: format!("{}{place}/", kevel_store::keys::root(&options.prefix)),
        format: options.format,
        keeps_empty: false,
        fields: Vec::new(),
        indexed: Vec::new(),
        time_to_live: None,
        form: None,
        conversion: None,
        registry: options.registry.most.clone(),
    };
    Some(Storage::new(config, engine.clone(), caches))
}

/// Random number: the standard library's hasher is keyed by the operating system's randomness.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
