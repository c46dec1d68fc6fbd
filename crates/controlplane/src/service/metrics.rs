//! Metrics of the allocators of cluster IPs and node ports, by the reference's names.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kevel_server::metrics::{Counter, Description, Family, Gauge, Histogram, Metrics};

use super::Services;
use super::ip_allocator::IpAllocator;
use super::port_set::PortSet;

/// Prometheus' default bounds.
const SECONDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Metrics of allocations. Nothing is counted before they are registered.
#[derive(Debug, Default)]
pub struct AllocatorMetrics(OnceLock<AllocatorFamilies>);

#[derive(Debug)]
struct AllocatorFamilies {
    ip_allocations: Arc<Family<Counter>>,
    ip_errors: Arc<Family<Counter>>,
    ip_seconds: Arc<Family<Histogram>>,
    ports_allocated: Arc<Gauge>,
    ports_available: Arc<Gauge>,
    port_repair_errors: Arc<Counter>,
}

impl AllocatorMetrics {
    /// Records an allocation of an address: of any (`static` if it was asked for), in a network.
    pub fn address(&self, network: &str, is_static: bool, well: bool, took: Duration) {
        let Some(metrics) = self.0.get() else { return };
        let scope = if is_static { "static" } else { "dynamic" };
        let family = if well { &metrics.ip_allocations } else { &metrics.ip_errors };
        family.with(&[network, scope]).increment();
        if well {
            metrics.ip_seconds.with(&[network]).observe_seconds(took);
        }
    }

    /// Shows how many ports are allocated.
    pub fn ports(&self, ports: &PortSet) {
        let Some(metrics) = self.0.get() else { return };
        let allocated = i64::try_from(ports.iter().count()).unwrap_or(i64::MAX);
        metrics.ports_allocated.set(allocated);
        metrics.ports_available.set(i64::from(ports.range.size) - allocated);
    }

    /// Counts a failed repair of node ports.
    pub fn port_repair_failed(&self) {
        if let Some(metrics) = self.0.get() {
            metrics.port_repair_errors.increment();
        }
    }
}

impl Services {
    /// Registers the metrics of the allocators.
    pub fn measure(&self, metrics: &Metrics) {
        let network = &["cidr"];
        let scoped = &["cidr", "scope"];
        let describe = |name, help, labels| Description { name, help, labels };
        let allocated = metrics.gauge(describe(
            "kube_apiserver_clusterip_allocator_allocated_ips",
            "[ALPHA] Cluster IPs that are allocated, by network.",
            network,
        ));
        let available = metrics.gauge(describe(
            "kube_apiserver_clusterip_allocator_available_ips",
            "[ALPHA] Cluster IPs that are free, by network.",
            network,
        ));
        let single = |name, help| metrics.gauge(describe(name, help, &[])).with(&[]);
        let registered = AllocatorFamilies {
            ip_allocations: metrics.counter(describe(
                "kube_apiserver_clusterip_allocator_allocation_total",
                "[ALPHA] Allocations of cluster IPs, by network and whether they were asked for.",
                scoped,
            )),
            ip_errors: metrics.counter(describe(
                "kube_apiserver_clusterip_allocator_allocation_errors_total",
                "[ALPHA] Failed allocations of cluster IPs.",
                scoped,
            )),
            ip_seconds: metrics.histogram(
                describe(
                    "kube_apiserver_clusterip_allocator_allocation_duration_seconds",
                    "[ALPHA] Seconds that allocations of cluster IPs took, by network.",
                    network,
                ),
                SECONDS,
            ),
            ports_allocated: single(
                "kube_apiserver_nodeport_allocator_allocated_ports",
                "[ALPHA] Node ports that are allocated.",
            ),
            ports_available: single(
                "kube_apiserver_nodeport_allocator_available_ports",
                "[ALPHA] Node ports that are free.",
            ),
            port_repair_errors: metrics
                .counter(describe(
                    "apiserver_nodeport_repair_reconcile_errors_total",
                    "[ALPHA] Repairs of node ports that failed.",
                    &[],
                ))
                .with(&[]),
        };
        let _ = self.metrics.0.set(registered);
        let ips = self.ips.clone();
        metrics.before_show(move || {
            for (network, taken, size) in ips.usage() {
                let taken = i64::try_from(taken).unwrap_or(i64::MAX);
                allocated.with(&[&network]).set(taken);
                let size = i64::try_from(size).unwrap_or(i64::MAX);
                available.with(&[&network]).set(size.saturating_sub(taken));
            }
        });
    }
}

impl IpAllocator {
    /// Networks with the numbers of their addresses: those taken, and all.
    fn usage(&self) -> Vec<(String, usize, usize)> {
        let addresses: Vec<IpAddr> = {
            let snapshot = self.addresses().cache.latest();
            snapshot.range("", None).filter_map(|object| object.key().parse().ok()).collect()
        };
        let networks = self.known_networks().into_iter();
        networks
            .map(|(text, range)| {
                let taken = addresses.iter().filter(|ip| range.contains(**ip)).count();
                (text, taken, range.len(usize::MAX))
            })
            .collect()
    }
}
