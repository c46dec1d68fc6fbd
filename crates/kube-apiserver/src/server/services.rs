//! The addresses and ports of services, and the Service by which pods find this server.

use std::time::Duration;

use kevel_controlplane::StorageOptions;
use kevel_controlplane::service::{
    DefaultServiceCidr, KubernetesService, KubernetesServiceOptions, Leases, PortRange, Reconciler,
    RepairIps, RepairPorts, Services,
};
use kevel_server::controller::Client;
use kevel_server::health::Health;
use kevel_server::lifecycle::{HookContext, Signal};
use kevel_server::resource::Rows;

use super::config::Config;
use crate::flags;

/// How long the first look at what services have may take.
const FIRST_REPAIR: Duration = Duration::from_secs(60);

/// Gives services what they need, and adds the hooks of their controllers.
pub fn start(
    config: &Config,
    rows: &Rows,
    client: &Client,
    health: &mut Health,
) -> Result<(), String> {
    let storage = StorageOptions {
        prefix: config.options.options.etcd.etcd_prefix.clone(),
        format: config.format,
    };
    let ips = &config.options.service_ips;
    let networks = [Some(ips.primary), ips.secondary];
    let addresses: Vec<_> = networks.iter().flatten().map(|network| network.address).collect();
    let cidrs = networks.iter().flatten().map(ToString::to_string).collect();
    let ports = node_ports(config)?;
    let (engine, caches) = (&config.engine, &config.caches);
    let services = Services::new(rows, &addresses, ports, &storage, engine, caches);
    let Some(services) = services else { return Ok(()) };
    let hooks = &config.lifecycle.hooks;

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
    health.add_boot(hooks.add_post_start("start-kubernetes-service-cidr-controller", hook)?);

    let repair_ips = RepairIps::new(&services, client.clone());
    let mut repair_ports = RepairPorts::new(&services);
    let hook = |context: HookContext| async move {
        let first = async {
            there.wait().await;
            tokio::join!(repair_ips.first(), repair_ports.first());
        };
        tokio::select! {
            done = tokio::time::timeout(FIRST_REPAIR, first) => {
                done.map_err(|_| "unable to perform initial IP and Port allocation check")?;
            }
            () = context.stop.wait() => return Ok(()),
        }
        context.spawn("service-ip-repair-controller", repair_ips.keep());
        context.spawn("service-node-port-repair-controller", repair_ports.keep());
        Ok(())
    };
    health.add_boot(hooks.add_post_start("start-service-ip-repair-controllers", hook)?);

    let kubernetes = kubernetes_service(config, client, &storage)?;
    let (keeps, ready) = (kubernetes.clone(), config.lifecycle.signals.has_been_ready.wait());
    let hook = |context: HookContext| async move {
        keeps.remove_stale().await;
        let keep = async {
            ready.await;
            keeps.keep().await;
        };
        context.spawn("kubernetes-service-controller", keep);
        Ok(())
    };
    health.add_boot(hooks.add_post_start("bootstrap-controller", hook)?);
    hooks.add_pre_shutdown("stop-kubernetes-service-controller", || async move {
        kubernetes.stop().await;
        Ok(())
    })
}

fn kubernetes_service(
    config: &Config,
    client: &Client,
    storage: &StorageOptions,
) -> Result<KubernetesService, String> {
    let flags = &config.options.options;
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
            let leases = Leases::new(storage, &config.engine, &config.caches);
            Reconciler::Lease(leases.ok_or("leases of servers have no kind")?)
        }
    };
    Ok(KubernetesService::new(client.clone(), options, reconciler))
}

fn node_ports(config: &Config) -> Result<PortRange, String> {
    let range = match config.options.options.misc.service_node_port_range {
        none if none.size == 0 => flags::PortRange { base: 30000, size: 2768 },
        range => range,
    };
    let wrong = |_| format!("--service-node-port-range {range} is out of range");
    Ok(PortRange {
        base: u16::try_from(range.base).map_err(wrong)?,
        size: u32::try_from(range.size).map_err(wrong)?,
    })
}
