//! The addresses and ports of services, and the Service by which pods find this server.

use std::sync::Arc;
use std::time::Duration;

use kevel_component::signals::Signal;
use kevel_controlplane::StorageOptions;
use kevel_controlplane::service::{
    DefaultServiceCidr, IpAllocation, KubernetesService, KubernetesServiceOptions, Leases,
    PortRange, Reconciler, RepairBitmaps, RepairIps, RepairPorts, Services,
};
use kevel_features::Feature;
use kevel_registry::backends::Backend;
use kevel_registry::storages::Storages;
use kevel_server::lifecycle::HookContext;
use kevel_store::Engine;
use kevel_store::cache::Caches;

use super::config::Config;
use crate::flags::{self, Cidr};
use crate::options::CompletedOptions;

/// Timeout of the first repair of Service addresses and ports.
const FIRST_REPAIR: Duration = Duration::from_secs(60);

/// Message of the reference where that takes longer.
const FIRST_REPAIR_FAILED: &str = "unable to perform initial IP and Port allocation check";

/// Allocators of Services, if Services are served.
pub fn services(
    options: &CompletedOptions,
    storages: &Storages,
    storage: &StorageOptions,
    engine: &Arc<dyn Engine>,
    caches: &Caches,
) -> Result<Option<Services>, String> {
    let networks: Vec<_> = networks(options).map(|network| network.to_string()).collect();
    let (mode, ports) = (ip_allocation(options), node_ports(options)?);
    Ok(Services::new(storages, &networks, mode, ports, storage, engine, caches))
}

/// Record of the cluster IPs, by the gates that decide about it.
fn ip_allocation(options: &CompletedOptions) -> IpAllocation {
    let gates = &options.feature_gates;
    if !gates.enabled(Feature::MultiCIDRServiceAllocator) {
        IpAllocation::Bitmap
    } else if gates.enabled(Feature::DisableAllocatorDualWrite) {
        IpAllocation::Addresses
    } else {
        IpAllocation::Both
    }
}

/// The networks of services' addresses: one or two.
fn networks(options: &CompletedOptions) -> impl Iterator<Item = Cidr> {
    let ips = &options.service_ips;
    [Some(ips.primary), ips.secondary].into_iter().flatten()
}

/// Adds the hooks of the controllers of services.
pub fn start(config: &Config) -> Result<(), String> {
    let Some(services) = &config.services else { return Ok(()) };
    let hooks = &config.lifecycle.hooks;
    if services.mode() == IpAllocation::Bitmap {
        repair_bitmaps(config, services)?;
    } else {
        repair_addresses(config, services)?;
    }

    let kubernetes = kubernetes_service(config)?;
    let (keeps, ready) = (kubernetes.clone(), config.lifecycle.signals.has_been_ready.wait());
    let hook = |context: HookContext| async move {
        keeps.remove_stale().await;
        tokio::select! {
            () = keeps.ensure_service() => {}
            () = context.stop.wait() => return Ok(()),
        }
        let keep = async {
            ready.await;
            keeps.keep().await;
        };
        context.spawn("kubernetes-service-controller", keep);
        Ok(())
    };
    hooks.add_post_start("bootstrap-controller", hook)?;
    hooks.add_pre_shutdown("stop-kubernetes-service-controller", || async move {
        kubernetes.stop().await;
        Ok(())
    })
}

/// Adds the hooks of controllers that keep an object for each cluster IP.
fn repair_addresses(config: &Config, services: &Services) -> Result<(), String> {
    let cidrs = networks(&config.options).map(|network| network.to_string()).collect();
    let (hooks, client) = (&config.lifecycle.hooks, &config.client);

    let there = Signal::new("DefaultServiceCIDR");
    let cidr = DefaultServiceCidr::new(client.clone(), cidrs);
    let hook = {
        let there = there.clone();
        |context: HookContext| async move {
            tokio::select! {
                () = cidr.ensure() => {}
                () = context.stop.wait() => return Ok(()),
            }
            there.signal();
            context.spawn("kubernetes-service-cidr-controller", cidr.keep());
            Ok(())
        }
    };
    hooks.add_post_start("start-kubernetes-service-cidr-controller", hook)?;

    let repair_ips = RepairIps::new(services, client.clone());
    let mut repair_ports = RepairPorts::new(services);
    let hook = |context: HookContext| async move {
        let first = async {
            there.wait().await;
            tokio::join!(repair_ips.first(), repair_ports.first());
        };
        tokio::select! {
            done = tokio::time::timeout(FIRST_REPAIR, first) => {
                done.map_err(|_| FIRST_REPAIR_FAILED)?;
            }
            () = context.stop.wait() => return Ok(()),
        }
        context.spawn("service-ip-repair-controller", repair_ips.keep());
        context.spawn("service-node-port-repair-controller", repair_ports.keep());
        Ok(())
    };
    hooks.add_post_start("start-service-ip-repair-controllers", hook)
}

/// Adds the hook of controllers that keep the bitmaps of cluster IPs.
fn repair_bitmaps(config: &Config, services: &Services) -> Result<(), String> {
    let mut repair_ips = RepairBitmaps::new(services);
    let mut repair_ports = RepairPorts::new(services);
    let hook = |context: HookContext| async move {
        let first = async {
            tokio::join!(repair_ips.first(), repair_ports.first());
        };
        tokio::select! {
            done = tokio::time::timeout(FIRST_REPAIR, first) => {
                done.map_err(|_| FIRST_REPAIR_FAILED)?;
            }
            () = context.stop.wait() => return Ok(()),
        }
        context.spawn("service-ip-repair-controller", repair_ips.keep());
        context.spawn("service-node-port-repair-controller", repair_ports.keep());
        Ok(())
    };
    config.lifecycle.hooks.add_post_start("start-service-ip-repair-controllers", hook)
}

fn kubernetes_service(config: &Config) -> Result<KubernetesService, String> {
    let flags = &config.options.flags;
    let options = KubernetesServiceOptions {
        public_ip: config.options.advertise_address,
        public_port: u16::try_from(flags.secure_serving.secure_port)
            .map_err(|_| "--secure-port is out of range")?,
        service_ip: config.options.service_ips.api_server,
        node_port: flags.misc.kubernetes_service_node_port,
    };
    let reconciler = match flags.misc.endpoint_reconciler_type.as_str() {
        "none" => Reconciler::None,
        "master-count" => {
            Reconciler::Count(usize::try_from(flags.misc.apiserver_count).unwrap_or(1))
        }
        _ => {
            let Backend { engine, caches } = &config.backends.default;
            let leases = Leases::new(&config.storage_options, engine, caches);
            Reconciler::Lease(leases.ok_or("leases of servers have no kind")?)
        }
    };
    Ok(KubernetesService::new(config.client.clone(), options, reconciler))
}

fn node_ports(options: &CompletedOptions) -> Result<PortRange, String> {
    let range = match options.flags.misc.service_node_port_range {
        none if none.size == 0 => flags::PortRange { base: 30000, size: 2768 },
        range => range,
    };
    let wrong = |_| format!("--service-node-port-range {range} is out of range");
    Ok(PortRange {
        base: u16::try_from(range.base).map_err(wrong)?,
        size: u32::try_from(range.size).map_err(wrong)?,
    })
}
