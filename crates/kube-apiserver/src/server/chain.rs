//! The server chain, from the inside out: extensions, kube API, aggregator; then the handler chain.

use std::net::IpAddr;
use std::sync::Arc;

use kevel_auth::{Escalation, bootstrap};
use kevel_controlplane::{StorageOptions, admission, rows, system_namespaces};
use kevel_server::admission::Admission;
use kevel_server::audit::Auditor;
use kevel_server::chain;
use kevel_server::controller::Client;
use kevel_server::delegate::{Delegate, Path};
use kevel_server::discovery::{Addresses, Discovery, Rule};
use kevel_server::endpoints::Endpoints;
use kevel_server::handler::{Filtered, Handler};
use kevel_server::health::{Check, Health};
use kevel_server::lifecycle::HookContext;
use kevel_server::metrics::Metrics;
use kevel_server::openapi::OpenApi;
use kevel_server::resource::{Resources, Rows};
use kevel_server::serving::{HandshakeErrors, Limits, SecureServing};
use kevel_server::version;

use super::PreparedServer;
use super::audit::auditor;
use super::authorization::Authorization;
use super::config::{Config, duration};

/// Groups that the extensions server and the aggregator hold, not the kube API server.
const EXTENSIONS: &str = "apiextensions.k8s.io";
const AGGREGATOR: &str = "apiregistration.k8s.io";

/// Puts the servers together and makes them ready to run.
pub fn create_server_chain(config: Config) -> Result<PreparedServer, String> {
    let mut health = Health::new(duration(config.options.options.generic.livez_grace_period));
    health.add(Check::ping());
    health.add(Check::log());
    let engine = config.engine.clone();
    health.add(Check::later("etcd", move || {
        let engine = engine.clone();
        Box::pin(async move { engine.health().await.map_err(|error| error.to_string()) })
    }));
    let metrics = config.metrics.clone();

    let kube_rows = install(&config, |group| group != EXTENSIONS && group != AGGREGATOR);
    config.authorization.bind(&kube_rows.current())?;
    let endpoints = Arc::new(Endpoints {
        admission: admission(&config, &kube_rows.current())?,
        authorizer: Some(config.authorization.authorizer.clone()),
    });
    let server = |name, resources, next| {
        let endpoints = endpoints.clone();
        Arc::new(Delegate { name, resources, endpoints, paths: Vec::new(), next })
    };
    let extension_rows = install(&config, |group| group == EXTENSIONS);
    let extensions = server("apiextensions", extension_rows, None);
    let kube = server("kube", kube_rows, Some(extensions.clone()));
    start_kube(&config, &kube, &mut health)?;
    let aggregator_rows = install(&config, |group| group == AGGREGATOR);
    let aggregator = server("aggregator", aggregator_rows, Some(kube.clone()));

    let tables = [&aggregator, &kube, &extensions].map(|server| server.resources.clone());
    let health = health.install(&config.lifecycle.signals);
    let mut listed = health.paths();
    let plain = ["/metrics", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version", "/version/"];
    listed.extend(plain.map(str::to_owned));
    let open_id = config.authentication.open_id_paths(&config.options);
    let open_id_listed = open_id.iter().map(|path| &path.path).filter(|path| !path.ends_with('/'));
    listed.extend(open_id_listed.cloned());
    let discovery = Discovery::new(tables.to_vec(), addresses(&config), listed);
    let mut paths = plain_paths(health, &metrics);
    paths.extend(open_id);
    let front = Delegate {
        name: "front",
        resources: Arc::default(),
        endpoints: Arc::default(),
        paths,
        next: Some(aggregator.clone()),
    };
    let front: Arc<dyn Handler> = Arc::new(front);
    let front: Arc<dyn Handler> = Arc::new(Filtered::new(discovery, front));
    let openapi = OpenApi::new(tables.to_vec());
    let front: Arc<dyn Handler> = Arc::new(Filtered::new(openapi, front));
    let audit = auditor(&config.options, &metrics)?;
    let chain_config = chain_config(&config, &metrics, audit.clone(), tables.to_vec());
    let handler = chain::build(chain_config, front);
    config.lifecycle.signals.mux_and_discovery_complete.signal();
    prepared(config, &metrics, audit, handler)
}

fn install(config: &Config, groups: impl Fn(&str) -> bool) -> Arc<Resources> {
    let enabled = config.options.resource_config();
    let options = StorageOptions {
        prefix: config.options.options.etcd.etcd_prefix.clone(),
        format: config.format,
    };
    let wanted = |resource: &kevel_api::builtin::Resource| {
        groups(resource.group) && enabled.enabled(resource.group, resource.version, resource.path)
    };
    let resources = Resources::default();
    resources.install(rows(wanted, &options, &config.engine, &config.caches, &config.answers));
    Arc::new(resources)
}

/// What every write to any of the servers passes.
fn admission(config: &Config, rows: &Rows) -> Result<Admission, String> {
    let Authorization { rbac, authorizer, .. } = &config.authorization;
    let feature = |name: &str| config.options.feature_gates.enabled(name);
    let context = admission::Context { rows, authorizer, feature: &feature };
    let mut plugins = admission::plugins(&config.options.admission_plugins, &context)?;
    plugins.push(Arc::new(Escalation::new(rbac.clone(), authorizer.clone())));
    Ok(Admission::new(plugins))
}

/// The hooks and controllers of the server of the built-in kinds.
fn start_kube(config: &Config, kube: &Arc<Delegate>, health: &mut Health) -> Result<(), String> {
    let authorization = &config.authorization;
    let client = Client::new(kube.clone());
    if authorization.uses_rbac {
        let hook = bootstrap::hook(client.clone());
        health.add_boot(config.lifecycle.hooks.add_post_start(bootstrap::HOOK, hook)?);
    }
    let Config { authentication, certificates, options, lifecycle, .. } = config;
    let rows = kube.resources.current();
    let row = rows.get("", "v1", "namespaces").ok_or("namespaces must be served")?;
    let namespaces = row.storage.clone().ok_or("namespaces must be stored")?;
    authentication.bind(&rows, &client)?;
    let mut controllers = authentication.controllers(options, certificates, &rows, &client)?;
    controllers.extend(authorization.controllers(options, &rows, &client));
    let system_namespaces = Box::pin(system_namespaces(client, namespaces));
    controllers.push(("start-system-namespaces-controller", system_namespaces));
    for (name, controller) in controllers {
        let hook = |context: HookContext| async move {
            tokio::spawn(async move {
                tokio::select! {
                    () = controller => {}
                    () = context.stop.wait() => {}
                }
            });
            Ok(())
        };
        health.add_boot(lifecycle.hooks.add_post_start(name, hook)?);
    }
    Ok(())
}

fn plain_paths(health: kevel_server::health::HealthHandler, metrics: &Arc<Metrics>) -> Vec<Path> {
    let health: Arc<dyn Handler> = Arc::new(health);
    let mut paths: Vec<Path> = Vec::new();
    for name in ["healthz", "livez", "readyz"] {
        for path in [format!("/{name}"), format!("/{name}/")] {
            paths.push(Path { path, handler: health.clone() });
        }
    }
    let version: Arc<dyn Handler> = Arc::new(version::Version::new(&version::Info::default()));
    for path in ["/version", "/version/"] {
        paths.push(Path { path: path.into(), handler: version.clone() });
    }
    paths.push(Path { path: "/metrics".into(), handler: metrics.clone() });
    paths
}

/// Where clients find the server, as `/api` tells them.
fn addresses(config: &Config) -> Addresses {
    let port = config.options.options.secure_serving.secure_port;
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
    let flags = &config.options.options.generic;
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
        metrics: metrics.clone(),
        send_retry_after: flags.shutdown_send_retry_after,
        goaway_chance: flags.goaway_chance,
        request_timeout: duration(flags.request_timeout),
        max_requests_in_flight: usize::try_from(flags.max_requests_inflight).unwrap_or(0),
        max_mutating_requests_in_flight: usize::try_from(flags.max_mutating_requests_inflight)
            .unwrap_or(0),
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
    handler: Arc<dyn Handler>,
) -> Result<PreparedServer, String> {
    let flags = &config.options.options.secure_serving;
    let mut limits = Limits::default();
    if let Ok(streams @ 1..) = u32::try_from(flags.http2_max_streams_per_connection) {
        limits.streams = streams;
    }
    let shutdown_timeout = config.shutdown.http_timeout();
    let (tls, listener) = (config.certificates.tls.clone(), config.listener);
    let handshake_errors = Arc::new(HandshakeErrors::new(metrics.tls_handshake_errors.clone()));
    Ok(PreparedServer {
        handler,
        audit,
        lifecycle: config.lifecycle,
        shutdown: config.shutdown,
        serving: SecureServing { listener, tls, limits, shutdown_timeout, handshake_errors },
        engine: config.engine,
        caches: config.caches,
        pki: config.certificates.own.map(|(pki, _)| pki),
    })
}
