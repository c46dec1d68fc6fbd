//! The server chain, from the inside out: extensions, kube API, aggregator; then the handler chain.

use std::net::IpAddr;
use std::sync::Arc;

use kevel_api::selector::shard::ShardSelector;
use kevel_api::status::StatusError;
use kevel_auth::bootstrap;
use kevel_controller_runtime::{LeaderElectionTimers, LeaderElector};
use kevel_controlplane::{
    Capabilities, IdentityLease, LeaderElectionController, RowsConfig, StorageVersionManager,
    collect_identity_leases, priority_classes, rows, system_namespaces,
};
use kevel_extensions::Extensions;
use kevel_features::Feature;
use kevel_registry::resource::{Resource, Resources};
use kevel_server::audit::Auditor;
use kevel_server::chain;
use kevel_server::delegate::Delegate;
use kevel_server::discovery::{Addresses, Discovery, Rule};
use kevel_server::egress::EgressType;
use kevel_server::endpoints::{Endpoints, RequestFeatures};
use kevel_server::handler::{Filter, Filtered, Handler};
use kevel_server::metrics::Metrics;
use kevel_server::openapi::OpenApi;
use kevel_server::serving::{HandshakeErrors, Limits, SecureServing};

use super::admission::admission;
use super::aggregator;
use super::audit::auditor;
use super::config::{AGGREGATOR, Config, EXTENSIONS, duration, seconds};
use super::extensions::{add_hooks, extensions};
use super::flowcontrol::{self, RowFacts};
use super::paths::PlainPaths;
use super::{PreparedServer, controllers, health, peers, services, storage, ui};

/// Puts the servers together and makes them ready to run.
pub fn create_server_chain(config: Config) -> Result<PreparedServer, String> {
    let metrics = config.metrics.clone();

    config.creaters.check()?;
    let kube_rows = install(&config, |group| group != EXTENSIONS && group != AGGREGATOR)?;
    let extensions = extensions(&config);
    let endpoints = Arc::new(Endpoints {
        admission: admission(&config, &kube_rows, &extensions)?,
        authorizer: Some(config.authorization.authorizer.clone()),
        connecters: config.connecters.clone(),
        min_request_timeout: seconds(config.options.flags.generic.min_request_timeout),
        features: RequestFeatures {
            compression: config.options.feature_gates.enabled(Feature::APIResponseCompression),
            watch_list: config.options.feature_gates.enabled(Feature::WatchList),
        },
        shard_selectors: config
            .options
            .feature_gates
            .enabled(Feature::ShardedListAndWatch)
            .then_some(parse_shard_selector),
    });
    let server = |name, resources, next: Arc<dyn Handler>| {
        let (endpoints, next) = (endpoints.clone(), Some(next));
        Arc::new(Delegate {
            name,
            resources,
            owns_groups: true,
            endpoints,
            paths: Vec::new(),
            next,
        })
    };
    let custom = Arc::new(extensions.custom_resources(endpoints.clone()));
    let definitions = server("apiextensions", extensions.definitions.clone(), custom);
    let kube = server("kube", kube_rows, definitions);
    flowcontrol::add_hooks(&config)?;
    start_kube(&config)?;
    let controllers = extensions.controllers(config.client.clone())?;
    let mut synced = controllers.synced();
    add_hooks(&config, controllers)?;
    let aggregator_rows =
        install_as(&config, |group| group == AGGREGATOR, |row| aggregator::row(&config, row))?;
    let front_server = server("aggregator", aggregator_rows.clone(), kube.clone());
    let to_webhooks = config.egress.dialer(EgressType::ControlPlane);
    let audit = auditor(&config.options, to_webhooks, &metrics)?;
    let authorizer = config.authorization.authorizer.clone();
    let internal = |handler| chain::internal(audit.clone(), authorizer.clone(), &metrics, handler);
    let own = internal(front_server.clone());
    config.loopback.lead_to(&own);
    let aggregator = aggregator::aggregator(
        &config,
        &aggregator_rows,
        &kube.resources,
        &extensions.definitions,
    )?;
    let custom_kinds = async move { drop(synced.wait_for(|synced| *synced).await) };
    aggregator.add_hooks(&config.lifecycle, custom_kinds)?;

    let Extensions { definitions, custom, .. } = extensions;
    let crds = definitions.current().get(EXTENSIONS, "v1", "customresourcedefinitions").cloned();
    let crds = crds.and_then(|row| row.storage.clone());
    let tables = [aggregator_rows, kube.resources.clone(), definitions, custom];
    let peers = peers::peers(&config, &aggregator, tables.to_vec(), crds)?;
    if config.options.flags.etcd.etcd_count_metric_poll_period.0 > 0 {
        storage::count_objects(tables.to_vec(), &metrics);
    }
    // Of custom kinds it is not said, as in the reference.
    let storage_versions = storage_versions(&config, &tables[..3])?;
    let controllers = controllers::ServerControllers::new(&config, &tables);
    let controllers = controllers.map_err(|error| error.to_string())?;
    let mut health = health::checks(&config);
    if let Some(controllers) = &controllers {
        controllers.checks().for_each(|check| health.add_readyz(check));
    }
    let health = health.install(&config.lifecycle.signals);
    let mut paths = PlainPaths::new(&config, health, &metrics);
    paths.served.extend(ui::search(&config, &tables));
    let mut discovery = Discovery::new(tables.to_vec(), addresses(&config), paths.listed)
        .with_registered(aggregator.groups());
    if peers::enabled(&config.options) {
        let of_peers = peers.as_ref().map(|peers| peers.discovery());
        discovery = discovery.with_peers(&metrics, of_peers);
    }
    let front = Delegate {
        name: "front",
        resources: Arc::default(),
        owns_groups: false,
        endpoints: Arc::default(),
        paths: paths.served,
        next: Some(front_server),
    };
    let front: Arc<dyn Handler> = Arc::new(front);
    let front: Arc<dyn Handler> = Arc::new(Filtered::new(discovery, front));
    let openapi =
        OpenApi::new(tables.to_vec()).with_about(paths.about).with_remote(aggregator.openapi());
    let front: Arc<dyn Handler> = Arc::new(Filtered::new(openapi, front));
    // Before discovery: what another server answers for it describes itself.
    let front: Arc<dyn Handler> = Arc::new(Filtered::new(aggregator.proxy(), front));
    // Controllers see what clients see, aggregated APIs and discovery included.
    if let Some(controllers) = controllers {
        controllers.start(&config.lifecycle, internal(front.clone()))?;
    }
    let mut chain_config = chain_config(&config, &metrics, audit.clone(), tables.to_vec());
    chain_config.storage_versions = storage_versions;
    chain_config.peer_proxy = peers.map(|peers| Arc::new(peers.proxy()) as Arc<dyn Filter>);
    let handler = chain::build(ui::admit(&config.options, chain_config), front);
    prepared(config, &metrics, audit, own, handler)
}

fn install(config: &Config, groups: impl Fn(&str) -> bool) -> Result<Arc<Resources>, String> {
    install_as(config, groups, |row| row)
}

fn install_as(
    config: &Config,
    groups: impl Fn(&str) -> bool,
    row: impl Fn(Resource) -> Resource,
) -> Result<Arc<Resources>, String> {
    let enabled = config.options.resource_config();
    let wanted = |resource: &kevel_api::builtin::Resource| {
        groups(resource.group) && enabled.enabled(resource.group, resource.version, resource.path)
    };
    let resources = Resources::default();
    let capabilities = Capabilities {
        allow_privileged: config.options.flags.misc.allow_privileged,
        features: config.options.feature_gates.effective(),
        clock: config.options.clock.clone(),
    };
    let services = config.services.iter();
    let allocations =
        services.map(|services| (("", "services"), services.allocation(&capabilities)));
    let allocations = allocations.collect();
    let rows = rows(
        wanted,
        &RowsConfig {
            storages: &config.storages,
            creaters: config.creaters.clone(),
            allocations,
            listers: vec![(("", "componentstatuses"), config.component_statuses.clone())],
            capabilities,
        },
    )?;
    let hashed = config.options.feature_gates.enabled(Feature::StorageVersionHash);
    let spoken = |mut resource: Resource| {
        resource.conventions.cbor = config.cbor();
        resource.conventions.storage_version_hash = hashed;
        resource
    };
    resources.install(rows.into_iter().map(spoken).map(row));
    Ok(Arc::new(resources))
}

/// The hooks and controllers of the server of the built-in kinds.
fn start_kube(config: &Config) -> Result<(), String> {
    let Config { authentication, authorization, certificates, options, storages, client, .. } =
        config;
    let hooks = &config.lifecycle.hooks;
    if authorization.uses_rbac {
        let on = |name: &&str| {
            Feature::from_name(name).is_some_and(|gate| options.feature_gates.enabled(gate))
        };
        let on = bootstrap::gates().into_iter().filter(on).collect();
        hooks.add_post_start(bootstrap::HOOK, bootstrap::hook(client.clone(), on))?;
    }
    if storages.get("scheduling.k8s.io", "priorityclasses").is_some() {
        hooks.add_post_start(priority_classes::HOOK, priority_classes::hook(client.clone()))?;
    }
    health::add_hooks(config)?;
    flowcontrol::add_producer(config)?;
    services::start(config)?;
    peers::start(config)?;
    let reload = options.flags.etcd.encryption_provider_config_automatic_reload;
    if let Some(encryption) = config.encryption.clone().filter(|_| reload) {
        hooks.run("start-encryption-provider-config-automatic-reload", encryption.follow())?;
    }
    let mut controllers = authentication.controllers(options, certificates, storages, client)?;
    let namespaces = system_namespaces(client.clone(), storages.required("", "namespaces")?);
    controllers.push(("start-system-namespaces-controller", Box::pin(namespaces)));
    controllers.into_iter().try_for_each(|(name, controller)| hooks.run(name, controller))?;
    if options.feature_gates.enabled(Feature::CoordinatedLeaderElection) {
        start_leader_election(config)?;
    }
    if options.feature_gates.enabled(Feature::APIServerIdentity) {
        let peer_address = peers::address(options)?.map(|address| address.to_string());
        let (id, hostname) = (options.server_id(), options.hostname.clone());
        let lease = IdentityLease::new(client.clone(), id, hostname, peer_address);
        hooks.run("start-kube-apiserver-identity-lease-controller", lease.keep())?;
        let collector = collect_identity_leases(client.clone());
        hooks.run("start-kube-apiserver-identity-lease-garbage-collector", collector)?;
        let give_back = || async move {
            lease.give_back().await;
            Ok(())
        };
        hooks.add_pre_shutdown("stop-kube-apiserver-identity-lease-controller", give_back)?;
    }
    Ok(())
}

/// Lets one of the cluster's servers choose the holders of leases.
fn start_leader_election(config: &Config) -> Result<(), String> {
    let Config { client, options, storages, lifecycle, .. } = config;
    let flags = &options.flags.misc;
    let timers = LeaderElectionTimers {
        lease_duration: duration(flags.coordinated_leadership_lease_duration),
        renew_deadline: duration(flags.coordinated_leadership_renew_deadline),
        retry_period: duration(flags.coordinated_leadership_retry_period),
    };
    let hook = "start-kube-apiserver-coordinated-leader-election-controller";
    // Without candidates no leader is elected, and the server does not become ready: see `health::informer_sync`.
    let Some(candidates) = health::lease_candidates(config) else {
        return lifecycle.hooks.add_post_start(hook, |_| async { Ok(()) });
    };
    let leases = storages.required("coordination.k8s.io", "leases")?;
    let controller = LeaderElectionController::new(client.clone(), leases, candidates);
    let name = LeaderElectionController::NAME;
    let elector = LeaderElector::new(client.clone(), name, &options.hostname, timers);
    let release = elector.clone();
    let run = elector.run(move |over| {
        let controller = controller.clone();
        async move {
            tokio::select! {
                () = controller.run() => {}
                () = over.wait() => {}
            }
        }
    });
    lifecycle.hooks.run(hook, run)?;
    let release = || async move { release.release().await.map_err(|error| error.to_string()) };
    lifecycle.hooks.add_pre_shutdown("stop-coordinated-leader-election-controller", release)
}

/// Lets the cluster's servers know what this one stores, and writes wait for it.
fn storage_versions(
    config: &Config,
    tables: &[Arc<Resources>],
) -> Result<Option<Arc<dyn Filter>>, String> {
    let options = &config.options;
    let gates = [Feature::StorageVersionAPI, Feature::APIServerIdentity];
    if !gates.iter().all(|gate| options.feature_gates.enabled(*gate)) {
        return Ok(None);
    }
    let manager = StorageVersionManager::new(config.client.clone(), options.server_id(), tables);
    let manager = Arc::new(manager);
    let start = manager.clone();
    let hook = |context| start.start(context);
    config.lifecycle.hooks.add_post_start(StorageVersionManager::HOOK, hook)?;
    Ok(Some(manager))
}

/// Addresses of the server for clients, as `/api` returns them.
fn addresses(config: &Config) -> Addresses {
    let port = config.options.flags.secure_serving.secure_port;
    let host = match config.options.advertise_address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    let services = &config.options.service_ips;
    let rule = Rule {
        network: services.primary.address,
        prefix_length: u8::try_from(services.primary.prefix_length).unwrap_or(0),
        address: format!("{}:443", services.api_server),
    };
    Addresses { default: format!("{host}:{port}"), rules: vec![rule] }
}

fn chain_config(
    config: &Config,
    metrics: &Arc<Metrics>,
    audit: Option<Arc<Auditor>>,
    tables: Vec<Arc<Resources>>,
) -> chain::Config {
    let flags = &config.options.flags.generic;
    let resources = Arc::new(RowFacts(tables.clone()));
    let installed = move |info: &kevel_server::request_info::RequestInfo| {
        tables.iter().any(|table| {
            let rows = table.current();
            let row = rows.get(&info.group, &info.version, &info.resource);
            row.is_some_and(|row| {
                info.subresource.is_empty() || row.subresources.contains_key(&info.subresource)
            })
        })
    };
    chain::Config {
        audit,
        installed: Arc::new(installed),
        flow_control: config.flow_control.clone(),
        resources,
        metrics: metrics.clone(),
        tracer: config.tracer.clone(),
        send_retry_after: flags.shutdown_send_retry_after,
        goaway_chance: flags.goaway_chance,
        request_timeout: duration(flags.request_timeout),
        max_requests_in_flight: usize::try_from(flags.max_requests_inflight).unwrap_or(0),
        max_mutating_requests_in_flight: usize::try_from(flags.max_mutating_requests_inflight)
            .unwrap_or(0),
        ends_unauthenticated_connections: config
            .options
            .feature_gates
            .enabled(Feature::UnauthenticatedHTTP2DOSMitigation),
        constrained_impersonation: config
            .options
            .feature_gates
            .enabled(Feature::ConstrainedImpersonation),
        hsts_directives: flags.strict_transport_security_directives.0.clone(),
        cors_allowed_origins: chain::cors_origins(&flags.cors_allowed_origins.0)
            .unwrap_or_default(),
        ..chain::Config::new(
            &config.lifecycle,
            config.authentication.authenticator.clone(),
            config.authorization.authorizer.clone(),
        )
    }
}

fn prepared(
    config: Config,
    metrics: &Metrics,
    audit: Option<Arc<Auditor>>,
    internal: Arc<dyn Handler>,
    handler: Arc<dyn Handler>,
) -> Result<PreparedServer, String> {
    let ui = ui::front(&config, &handler);
    // Before the chain: the page itself is for everybody, and requests of its sessions begin there.
    let handler = ui.clone().map_or(handler, |ui| ui as Arc<dyn Handler>);
    let flags = &config.options.flags.secure_serving;
    let mut limits = Limits::default();
    if let Ok(streams @ 1..) = u32::try_from(flags.http2_max_streams_per_connection) {
        limits.streams = streams;
    }
    let shutdown_timeout = config.shutdown.http_timeout();
    let (tls, listener) = (config.certificates.tls.clone(), config.listener);
    let handshake_errors = Arc::new(HandshakeErrors::new(metrics.tls_handshake_errors.clone()));
    Ok(PreparedServer {
        handler,
        ui,
        internal,
        audit,
        lifecycle: config.lifecycle,
        authorization: config.authorization,
        storages: config.storages,
        shutdown: config.shutdown,
        serving: SecureServing {
            listener,
            tls,
            limits,
            shutdown_timeout,
            handshake_errors,
            clock: config.options.clock,
        },
        stand_in: config.stand_in,
        backends: config.backends,
        pki: config.certificates.own.map(|(pki, _)| pki),
        tracer: config.tracer,
    })
}

/// Parses the parameter `shardSelector`.
fn parse_shard_selector(text: &str) -> Result<ShardSelector, StatusError> {
    kevel_cel::parse_shard_selector(text)
        .map_err(|error| StatusError::unknown(500, format!("invalid shard selector: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_of_bootstrap_roles_exist() {
        for name in bootstrap::gates() {
            assert!(Feature::from_name(name).is_some(), "{name}");
        }
    }
}
