//! The aggregator: what the options say of it, and what it takes from the other servers.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use kevel_aggregator::{Aggregator, ApiServiceStrategy, ServiceResolver};
use kevel_registry::resource::Resource;
use kevel_server::egress::EgressType;
use kevel_server::webhook::Identity;

use super::config::Config;
use super::tables::Tables;

/// A row of the aggregator's group, with its rules.
pub fn row(config: &Config, row: Resource) -> Resource {
    let clock = config.options.clock.clone();
    Resource { strategy: Arc::new(ApiServiceStrategy { clock }), ..row }
}

/// The aggregator over the servers behind it: the kube API server and that of custom kinds.
pub fn aggregator(config: &Config, tables: &Tables) -> Result<Aggregator, String> {
    let [own, kube, definitions] = tables.built_in().map(|table| table.current());
    let missing = "API group/version apiregistration.k8s.io/v1 must be enabled";
    let api_services = own.get("apiregistration.k8s.io", "v1", "apiservices").ok_or(missing)?;
    let flags = &config.options.flags.misc;
    let identity =
        match (flags.proxy_client_cert_file.as_str(), flags.proxy_client_key_file.as_str()) {
            ("", _) | (_, "") => None,
            (certificate, key) => {
                Some(Identity::Files { certificate: certificate.into(), key: key.into() })
            }
        };
    let served = [&kube, &definitions].into_iter().flat_map(|rows| rows.groups()).flat_map(
        |(group, versions)| versions.iter().map(move |version| (group.clone(), version.clone())),
    );
    Aggregator::new(kevel_aggregator::Config {
        api_services: api_services.clone(),
        client: config.client.clone(),
        resolver: Arc::new(service_resolver(config)?),
        services: config.storages.required("", "services")?,
        endpoint_slices: config.storages.required("discovery.k8s.io", "endpointslices")?,
        definitions: tables.definitions(),
        served: served.collect(),
        identity,
        dialer: config.egress.dialer(EgressType::Cluster),
        reject_forwarding_redirects: flags.aggregator_reject_forwarding_redirect,
        metrics: config.metrics.clone(),
    })
}

/// Resolver of Services: their cluster IPs, or with `--enable-aggregator-routing` their endpoints.
pub fn service_resolver(config: &Config) -> Result<ServiceResolver, String> {
    let services = config.storages.required("", "services")?;
    let resolver = match config.options.flags.misc.enable_aggregator_routing {
        true => ServiceResolver::endpoints(
            services,
            config.storages.required("discovery.k8s.io", "endpointslices")?,
        ),
        false => ServiceResolver::cluster_ip(services),
    };
    let port = u16::try_from(config.options.flags.secure_serving.secure_port).unwrap_or(0);
    Ok(resolver.with_own_address(SocketAddr::from((Ipv4Addr::LOCALHOST, port))))
}
