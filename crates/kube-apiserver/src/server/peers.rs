//! Peers: this server's address for them, and the proxy for resources that only they serve.

use std::sync::Arc;

use kevel_aggregator::{Aggregator, PeerEndpoints, Peers, PeersConfig};
use kevel_component::future::Pending;
use kevel_component::signals::Signal;
use kevel_controlplane::{PeerAddress, PeerLeases};
use kevel_features::Feature;
use kevel_registry::backends::Backend;
use kevel_registry::resource::Resources;
use kevel_registry::storage::Storage;
use kevel_server::egress::EgressType;
use kevel_server::lifecycle::HookContext;
use kevel_server::webhook::Identity;

use super::config::Config;
use crate::options::{CompletedOptions, StorageKind};

const HOOK: &str = "peer-endpoint-reconciler-controller";

/// Whether servers are to know of each other.
pub fn enabled(options: &CompletedOptions) -> bool {
    options.feature_gates.enabled(Feature::UnknownVersionInteroperabilityProxy)
}

/// Address at which peers reach this server, if there is one.
pub fn address(options: &CompletedOptions) -> Result<Option<PeerAddress>, String> {
    let flags = &options.flags.misc;
    let (ip, port) = match (flags.peer_advertise_ip.as_str(), flags.peer_advertise_port.as_str()) {
        ("", _) | (_, "") => (
            options.advertise_address.to_string(),
            options.flags.secure_serving.secure_port.to_string(),
        ),
        (ip, port) => (ip.to_owned(), port.to_owned()),
    };
    let number = port.parse().map_err(|_| format!("--peer-advertise-port {port} is no port"))?;
    let address = PeerAddress { id: options.server_id(), ip, port: number };
    Ok(enabled(options).then_some(address))
}

/// Adds the hooks by which others learn where this server is.
pub fn start(config: &Config) -> Result<(), String> {
    let Some(address) = address(&config.options)? else { return Ok(()) };
    let hooks = &config.lifecycle.hooks;
    // A store that only this server reads has no peers.
    if config.options.storage != StorageKind::Etcd {
        return hooks.add_post_start(HOOK, |_| async { Ok(()) });
    }
    let leases = leases(config)?;
    let stopped = Signal::new("PeerEndpointLeaseGivenBack");
    let (ready, id) = (config.lifecycle.signals.has_been_ready.wait(), address.id.clone());
    let keep = {
        let (leases, stopped) = (leases.clone(), stopped.clone());
        async move {
            ready.await;
            leases.keep(address, stopped).await;
        }
    };
    hooks.add_post_start(HOOK, |context: HookContext| async move {
        context.spawn(HOOK, keep);
        Ok(())
    })?;
    hooks.add_pre_shutdown(HOOK, || async move {
        stopped.signal();
        leases.remove(&id).await
    })
}

/// Peers of this server, if a CA bundle verifies them (`--peer-ca-file`).
pub fn peers(
    config: &Config,
    aggregator: &Aggregator,
    tables: Vec<Arc<Resources>>,
    definitions: Option<Arc<Storage>>,
) -> Result<Option<Arc<Peers>>, String> {
    let flags = &config.options.flags.misc;
    if !enabled(&config.options) || flags.peer_ca_file.is_empty() {
        return Ok(None);
    }
    for (file, what) in
        [(&flags.proxy_client_cert_file, "cert"), (&flags.proxy_client_key_file, "key")]
    {
        if file.is_empty() {
            let why = format!("error building peer proxy handler, proxy-{what}-file not specified");
            return Err(why);
        }
    }
    let peers = aggregator.peers(PeersConfig {
        server_id: config.options.server_id(),
        leases: config.storages.required("coordination.k8s.io", "leases")?,
        endpoints: Arc::new(Endpoints(leases(config)?)),
        definitions,
        tables,
        ca_file: flags.peer_ca_file.clone(),
        identity: Identity::Files {
            certificate: flags.proxy_client_cert_file.as_str().into(),
            key: flags.proxy_client_key_file.as_str().into(),
        },
        dialer: config.egress.dialer(EgressType::ControlPlane),
        metrics: config.metrics.clone(),
    })?;
    peers.add_hooks(&config.lifecycle.hooks)?;
    Ok(Some(peers))
}

fn leases(config: &Config) -> Result<PeerLeases, String> {
    let Backend { engine, caches } = &config.backends.default;
    let leases = PeerLeases::new(&config.storage_options, engine, caches);
    leases.ok_or_else(|| "leases of peers have no kind".to_owned())
}

/// Servers are where their leases say.
struct Endpoints(PeerLeases);

impl PeerEndpoints for Endpoints {
    fn endpoint<'a>(&'a self, server_id: &'a str) -> Pending<'a, Result<Option<String>, String>> {
        Box::pin(self.0.get(server_id))
    }
}
