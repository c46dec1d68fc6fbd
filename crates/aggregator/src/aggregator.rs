//! The aggregator: assembly of its parts (upstream: kube-aggregator's APIAggregator).

use std::sync::{Arc, Mutex, PoisonError};

use kevel_controller_runtime::Client;
use kevel_registry::resource::Resource;
use kevel_registry::storage::Storage;
use kevel_server::discovery::{Registered, priority};
use kevel_server::egress::Dialer;
use kevel_server::health::Check;
use kevel_server::metrics::Metrics;
use kevel_server::openapi;
use kevel_server::webhook::{Endpoint, Identity, tls_config};

use crate::api_service::Managed;
use crate::auto_register::{AutoRegister, Desired};
use crate::availability::{AvailabilityMetrics, LocalAvailability, Remote, RemoteAvailability};
use crate::crd_registration::CrdRegistration;
use crate::discovery::{Groups, RemoteDiscovery};
use crate::openapi::{Downloads, OpenApi};
use crate::proxy::Proxy;
use crate::registered::ApiServices;
use crate::service_resolver::ServiceResolver;

/// Configuration of the aggregator.
#[derive(Debug)]
pub struct Config {
    /// The APIServices resource.
    pub api_services: Arc<Resource>,
    /// Client that writes APIServices.
    pub client: Client,
    /// Resolver of the Services behind APIServices.
    pub resolver: Arc<ServiceResolver>,
    /// Storage of Services, by whose addresses extension servers are found.
    pub services: Arc<Storage>,
    /// Storage of EndpointSlices, used instead with `--enable-aggregator-routing`.
    pub endpoint_slices: Arc<Storage>,
    /// Storage of CustomResourceDefinitions, if they are served.
    pub definitions: Option<Arc<Storage>>,
    /// Groups and versions that this server itself serves.
    pub served: Vec<(String, String)>,
    /// Client certificate for extension servers: `--proxy-client-cert-file` and its key.
    pub identity: Option<Identity>,
    /// Dialer for Services of the cluster.
    pub dialer: Dialer,
    /// `--aggregator-reject-forwarding-redirect`
    pub reject_forwarding_redirects: bool,
    /// Metrics of the server.
    pub metrics: Arc<Metrics>,
}

/// The aggregation layer.
pub struct Aggregator {
    pub(crate) services: Arc<ApiServices>,
    pub(crate) has_identity: bool,
    pub(crate) registration: Arc<AutoRegister>,
    pub(crate) crd_registration: Option<Arc<CrdRegistration>>,
    pub(crate) local: Arc<LocalAvailability>,
    pub(crate) remote: Arc<RemoteAvailability>,
    pub(crate) discovery: Arc<RemoteDiscovery>,
    pub(crate) openapi: Arc<OpenApi>,
    proxy: Proxy,
    /// Health check: whether this server's own APIServices are available.
    pub(crate) completion: Check,
}

impl std::fmt::Debug for Aggregator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Aggregator").field("services", &self.services).finish_non_exhaustive()
    }
}

impl Aggregator {
    /// Builds the parts without starting them.
    pub fn new(config: Config) -> Result<Self, String> {
        let Config { api_services, client, resolver, identity, .. } = config;
        let storage = api_services.storage.clone().ok_or("API services must be stored")?;
        if identity.is_some() {
            // Fail at start if the proxy client certificate cannot be loaded; CA bundles are checked per APIService.
            let (identity, insecure_skip_tls_verify) = (identity.clone(), true);
            tls_config(&Endpoint { identity, insecure_skip_tls_verify, ..Endpoint::default() })?;
        }
        let has_identity = identity.is_some();
        let services = Arc::new(ApiServices::new(storage, identity, config.dialer));
        let registration = AutoRegister::new(
            services.clone(),
            api_services.clone(),
            client.clone(),
            config.definitions.clone(),
        );
        // The aggregator's own group has no APIService, and must get none through a CustomResourceDefinition.
        let own = api_services.kind.group.to_string();
        let built_in_versions = config.served.iter().cloned().collect();
        let desired: Vec<Desired> = config.served.into_iter().filter_map(built_in).collect();
        let completion = completion(&services, desired.iter().map(Desired::name).collect());
        desired.into_iter().for_each(|desired| registration.add(desired));
        let crd_registration = config.definitions.map(|definitions| {
            CrdRegistration::new(definitions, registration.clone(), built_in_versions, own)
        });
        let remote = Remote {
            services: config.services,
            endpoint_slices: config.endpoint_slices,
            resolver: resolver.clone(),
        };
        let metrics = AvailabilityMetrics::new(&config.metrics, &services);
        let proxy = Proxy {
            services: services.clone(),
            resolver: resolver.clone(),
            reject_forwarding_redirects: config.reject_forwarding_redirects,
        };
        let (v2, v3) = (
            Downloads::new(services.clone(), resolver.clone()),
            Downloads::new(services.clone(), resolver.clone()),
        );
        Ok(Aggregator {
            local: LocalAvailability::new(&services, api_services.clone(), client.clone()),
            remote: RemoteAvailability::new(
                services.clone(),
                remote,
                api_services,
                client,
                metrics,
            ),
            discovery: RemoteDiscovery::new(services.clone(), resolver),
            openapi: Arc::new(OpenApi::new(proxy.clone(), v2, v3)),
            proxy,
            crd_registration: crd_registration.transpose()?,
            services,
            has_identity,
            registration,
            completion,
        })
    }

    /// Filter in front of the server chain that proxies requests to extension servers.
    pub fn proxy(&self) -> Proxy {
        self.proxy.clone()
    }

    /// Groups that `/apis` lists.
    pub fn groups(&self) -> Arc<dyn Registered> {
        Arc::new(Groups::new(self.services.clone(), self.discovery.clone()))
    }

    /// OpenAPI documents of extension servers.
    pub fn openapi(&self) -> Arc<dyn openapi::Remote> {
        self.openapi.clone()
    }
}

/// APIService of a version of a built-in group; `None` without a priority: it could not be told from a custom
/// resource's.
fn built_in((group, version): (String, String)) -> Option<Desired> {
    let priority = priority::built_in(&group, &version)?;
    Some(Desired { group, version, priority, managed: Managed::OnStart })
}

/// Health check that succeeds once each of these APIServices has been available.
fn completion(services: &Arc<ApiServices>, mut names: Vec<String>) -> Check {
    names.sort();
    let pending = Arc::new(Mutex::new(names));
    let (heard, known) = (pending.clone(), Arc::downgrade(services));
    services.listen(move |name| {
        let mut pending = heard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(at) = pending.binary_search_by(|waiting| waiting.as_str().cmp(name)) {
            let all = known.upgrade().map(|services| services.all().clone());
            let one = all.as_ref().and_then(|all| all.get(name));
            if one.is_some_and(|one| one.service.available) {
                pending.remove(at);
            }
        }
    });
    Check::new("autoregister-completion", move || {
        let pending = pending.lock().unwrap_or_else(PoisonError::into_inner);
        match pending.is_empty() {
            true => Ok(()),
            false => Err(format!("missing APIService: [{}]", pending.join(" "))),
        }
    })
}
