//! The aggregator: what the options say of it, and what it takes from the other servers.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use kevel_aggregator::{Aggregator, ApiServiceStrategy};
use kevel_server::controller::Client;
use kevel_server::resource::{Resource, Resources, Rows};
use kevel_server::service_resolver::ServiceResolver;
use kevel_server::storage::Storage;
use kevel_server::webhook::Identity;

use super::config::Config;

/// A row of the aggregator's group, with its rules.
pub fn row(row: Resource) -> Resource {
    Resource { strategy: Arc::new(ApiServiceStrategy), ..row }
}

/// The aggregator over the servers behind it: the kube API server and that of custom kinds.
pub fn aggregator(
    config: &Config,
    own: &Resources,
    kube: &Resources,
    definitions: &Resources,
    client: Client,
) -> Result<Aggregator, String> {
    let (own, kube, definitions) = (own.current(), kube.current(), definitions.current());
    let missing = "API group/version apiregistration.k8s.io/v1 must be enabled";
    let api_services = own.get("apiregistration.k8s.io", "v1", "apiservices").ok_or(missing)?;
    let flags = &config.options.options.misc;
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
    let crds = storage(&definitions, "apiextensions.k8s.io", "customresourcedefinitions").ok();
    Aggregator::new(kevel_aggregator::Config {
        api_services: api_services.clone(),
        client,
        resolver: Arc::new(service_resolver(config, &kube)?),
        services: storage(&kube, "", "services")?,
        endpoint_slices: storage(&kube, "discovery.k8s.io", "endpointslices")?,
        definitions: crds,
        served: served.collect(),
        identity,
        reject_forwarding_redirects: flags.aggregator_reject_forwarding_redirect,
        metrics: config.metrics.clone(),
    })
}

/// How Services are reached: at their cluster IPs, or with `--enable-aggregator-routing` at their
/// endpoints.
pub fn service_resolver(config: &Config, kube: &Rows) -> Result<ServiceResolver, String> {
    let services = storage(kube, "", "services")?;
    let resolver = match config.options.options.misc.enable_aggregator_routing {
        true => ServiceResolver::endpoints(
            services,
            storage(kube, "discovery.k8s.io", "endpointslices")?,
        ),
        false => ServiceResolver::cluster_ip(services),
    };
    let port = u16::try_from(config.options.options.secure_serving.secure_port).unwrap_or(0);
    Ok(resolver.with_own_address(SocketAddr::from((Ipv4Addr::LOCALHOST, port))))
}

fn storage(rows: &Rows, group: &str, plural: &str) -> Result<Arc<Storage>, String> {
    let row = rows.get(group, "v1", plural).and_then(|row| row.storage.clone());
    row.ok_or_else(|| format!("{plural} must be served"))
}
