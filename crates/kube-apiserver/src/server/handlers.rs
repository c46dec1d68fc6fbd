//! Handlers around the servers of the chain: plain paths and documents behind the filters, and the filters' configuration.

use std::net::IpAddr;
use std::sync::Arc;

use kevel_aggregator::{Aggregator, Peers};
use kevel_features::Feature;
use kevel_registry::resource::Resources;
use kevel_server::audit::Auditor;
use kevel_server::chain;
use kevel_server::delegate::Delegate;
use kevel_server::discovery::{Addresses, Discovery, Rule};
use kevel_server::handler::{Filtered, Handler};
use kevel_server::health::Check;
use kevel_server::metrics::Metrics;
use kevel_server::openapi::OpenApi;

use super::config::{Config, duration};
use super::flowcontrol::RowFacts;
use super::paths::PlainPaths;
use super::{health, peers, ui};

/// Handler of everything behind the filters: requests for other servers, OpenAPI, discovery, plain paths, and then the
/// `servers` of the chain. `checks` are of `/readyz` alone.
pub fn front(
    config: &Config,
    tables: &[Arc<Resources>],
    aggregator: &Aggregator,
    of_peers: Option<&Arc<Peers>>,
    checks: impl Iterator<Item = Check>,
    servers: Arc<dyn Handler>,
) -> Arc<dyn Handler> {
    let mut health = health::checks(config);
    checks.for_each(|check| health.add_readyz(check));
    let health = health.install(&config.lifecycle.signals);
    let mut paths = PlainPaths::new(config, health, &config.metrics);
    paths.served.extend(ui::search(config, tables));
    let mut discovery = Discovery::new(tables.to_vec(), addresses(config), paths.listed)
        .with_registered(aggregator.groups());
    if peers::enabled(&config.options) {
        let of_peers = of_peers.map(|peers| peers.discovery());
        discovery = discovery.with_peers(&config.metrics, of_peers);
    }
    let openapi =
        OpenApi::new(tables.to_vec()).with_about(paths.about).with_remote(aggregator.openapi());
    let plain = Delegate {
        name: "front",
        resources: Arc::default(),
        owns_groups: false,
        endpoints: Arc::default(),
        paths: paths.served,
        next: Some(servers),
    };
    let discovered = Arc::new(Filtered::new(discovery, Arc::new(plain)));
    let described = Arc::new(Filtered::new(openapi, discovered));
    // Before discovery: what another server answers for it describes itself.
    Arc::new(Filtered::new(aggregator.proxy(), described))
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

/// Configuration of the filters, by the options.
pub fn chain_config(
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
