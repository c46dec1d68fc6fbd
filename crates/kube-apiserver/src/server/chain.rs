//! The server chain, from the inside out: extensions, kube API, aggregator; then the handler chain.

use std::sync::Arc;

use kevel_api::selector::shard::ShardSelector;
use kevel_api::status::StatusError;
use kevel_features::Feature;
use kevel_registry::resource::Resources;
use kevel_server::audit::Auditor;
use kevel_server::chain;
use kevel_server::delegate::Delegate;
use kevel_server::egress::EgressType;
use kevel_server::endpoints::{Endpoints, RequestFeatures};
use kevel_server::handler::{Filter, Handler};
use kevel_server::metrics::Metrics;
use kevel_server::serving::{HandshakeErrors, Limits, SecureServing};

use super::admission::admission;
use super::audit::auditor;
use super::config::{Config, seconds};
use super::controllers::ServerControllers;
use super::tables::Tables;
use super::{
    PreparedServer, aggregator, debug_socket, extensions, flowcontrol, handlers, kube, peers,
    storage, ui,
};

/// Puts the servers together and makes them ready to run (upstream: `CreateServerChain`).
pub fn create_server_chain(config: Config) -> Result<PreparedServer, String> {
    let metrics = config.metrics.clone();
    config.creaters.check()?;
    // Rows first: admission plug-ins, hooks and controllers read them.
    let tables = Tables::install(&config)?;
    let endpoints = endpoints(&config, &tables)?;
    // The servers, from the inside out: each passes on what it does not serve.
    let custom = Arc::new(tables.extensions.custom_resources(endpoints.clone()));
    let definitions = delegate("apiextensions", &tables.extensions.definitions, &endpoints, custom);
    let kube = delegate("kube", &tables.kube, &endpoints, definitions);
    let servers: Arc<dyn Handler> = delegate("aggregator", &tables.aggregator, &endpoints, kube);
    // The way of the server's own clients: with authorization, admission and audit, without limits.
    let audit = auditor(&config.options, config.egress.dialer(EgressType::ControlPlane), &metrics)?;
    let authorizer = config.authorization.authorizer.clone();
    let internal = |handler| chain::internal(audit.clone(), authorizer.clone(), &metrics, handler);
    let own = internal(servers.clone());
    config.loopback.lead_to(&own);
    // Hooks and controllers of each server.
    flowcontrol::add_hooks(&config)?;
    kube::start(&config)?;
    debug_socket::start(&config).map_err(|error| error.to_string())?;
    let synced = extensions::start(&config, &tables.extensions)?;
    let aggregator = aggregator::aggregator(&config, &tables)?;
    aggregator.add_hooks(&config.lifecycle, synced)?;
    let all = tables.all();
    let peers = peers::peers(&config, &aggregator, all.to_vec(), tables.definitions())?;
    if config.options.flags.etcd.etcd_count_metric_poll_period.0 > 0 {
        storage::count_objects(all.to_vec(), &metrics);
    }
    // Not of custom kinds, as in the reference.
    let storage_versions = kube::storage_versions(&config, &tables.built_in())?;
    let controllers = ServerControllers::new(&config, &all).map_err(|error| error.to_string())?;
    // Around the servers: plain paths, documents about all of them, requests for other servers.
    let checks = controllers.iter().flat_map(ServerControllers::checks);
    let front = handlers::front(&config, &all, &aggregator, peers.as_ref(), checks, servers);
    // Controllers see what clients see, aggregated APIs and discovery included.
    if let Some(controllers) = controllers {
        controllers.start(&config.lifecycle, internal(front.clone()))?;
    }
    // The filters come before everything.
    let filters = chain::Config {
        storage_versions,
        peer_proxy: peers.map(|peers| Arc::new(peers.proxy()) as Arc<dyn Filter>),
        ..handlers::chain_config(&config, &metrics, audit.clone(), all.to_vec())
    };
    let handler = chain::build(ui::admit(&config.options, filters), front);
    Ok(prepared(config, &metrics, audit, own, handler, all))
}

/// REST handlers that all servers share.
fn endpoints(config: &Config, tables: &Tables) -> Result<Arc<Endpoints>, String> {
    let enabled = |feature| config.options.feature_gates.enabled(feature);
    Ok(Arc::new(Endpoints {
        admission: admission(config, &tables.kube, &tables.extensions)?,
        authorizer: Some(config.authorization.authorizer.clone()),
        connecters: config.connecters.clone(),
        min_request_timeout: seconds(config.options.flags.generic.min_request_timeout),
        features: RequestFeatures {
            compression: enabled(Feature::APIResponseCompression),
            watch_list: enabled(Feature::WatchList),
        },
        shard_selectors: enabled(Feature::ShardedListAndWatch).then_some(parse_shard_selector),
    }))
}

/// A server that serves all versions of its groups.
fn delegate(
    name: &'static str,
    resources: &Arc<Resources>,
    endpoints: &Arc<Endpoints>,
    next: Arc<dyn Handler>,
) -> Arc<Delegate> {
    Arc::new(Delegate {
        name,
        resources: resources.clone(),
        owns_groups: true,
        endpoints: endpoints.clone(),
        paths: Vec::new(),
        next: Some(next),
    })
}

fn prepared(
    config: Config,
    metrics: &Metrics,
    audit: Option<Arc<Auditor>>,
    internal: Arc<dyn Handler>,
    handler: Arc<dyn Handler>,
    tables: [Arc<Resources>; 4],
) -> PreparedServer {
    let ui = ui::front(&config, &handler);
    // Before the chain: the page itself is for everybody, and requests of its sessions begin there.
    let handler = ui.clone().map_or(handler, |ui| ui as Arc<dyn Handler>);
    let flags = &config.options.flags.secure_serving;
    let mut limits = Limits::default();
    if let Ok(streams @ 1..) = u32::try_from(flags.http2_max_streams_per_connection) {
        limits.streams = streams;
    }
    let shutdown_timeout = config.shutdown.http_timeout();
    let handshake_errors = Arc::new(HandshakeErrors::new(metrics.tls_handshake_errors.clone()));
    let clock = config.options.clock;
    let serving = config.listener.zip(config.certificates.tls).map(|(listener, tls)| {
        SecureServing { listener, tls, limits, shutdown_timeout, handshake_errors, clock }
    });
    PreparedServer {
        metrics: config.metrics,
        handler,
        tables,
        ui,
        internal,
        audit,
        lifecycle: config.lifecycle,
        authorization: config.authorization,
        storages: config.storages,
        shutdown: config.shutdown,
        serving,
        stand_in: config.stand_in,
        backends: config.backends,
        pki: config.certificates.own.map(|(pki, _)| pki),
        tracer: config.tracer,
    }
}

/// Parses the parameter `shardSelector`.
fn parse_shard_selector(text: &str) -> Result<ShardSelector, StatusError> {
    kevel_cel::parse_shard_selector(text)
        .map_err(|error| StatusError::unknown(500, format!("invalid shard selector: {error}")))
}
