//! The aggregator: its parts, and the hooks that start them.

use std::sync::{Arc, Mutex, PoisonError};

use kevel_server::controller::{Client, WorkQueue};
use kevel_server::discovery::{Registered, priority};
use kevel_server::health::{Check, Health};
use kevel_server::lifecycle::{HookContext, HookResult, Lifecycle, Signal};
use kevel_server::metrics::Metrics;
use kevel_server::openapi;
use kevel_server::resource::Resource;
use kevel_server::service_resolver::ServiceResolver;
use kevel_server::storage::Storage;
use kevel_server::webhook::{Endpoint, Identity, tls_config};

use crate::api_service::Managed;
use crate::auto_register::{AutoRegister, Desired};
use crate::availability::{AvailabilityMetrics, LocalAvailability, Remote, RemoteAvailability};
use crate::crd_registration::CrdRegistration;
use crate::discovery::{Groups, RemoteDiscovery};
use crate::openapi::{Downloads, OpenApi};
use crate::proxy::Proxy;
use crate::registered::ApiServices;

/// What an aggregator is made of.
#[derive(Debug)]
pub struct Config {
    /// The row of the API services.
    pub api_services: Arc<Resource>,
    /// Writes them.
    pub client: Client,
    /// Where the servers behind them are.
    pub resolver: Arc<ServiceResolver>,
    pub services: Arc<Storage>,
    pub endpoint_slices: Arc<Storage>,
    /// The definitions of custom kinds, where there are any.
    pub definitions: Option<Arc<Storage>>,
    /// The groups and versions that this server itself has.
    pub served: Vec<(String, String)>,
    /// What this server shows to others: `--proxy-client-cert-file` and its key.
    pub identity: Option<Identity>,
    /// `--aggregator-reject-forwarding-redirect`
    pub reject_forwarding_redirects: bool,
    /// Where it is counted.
    pub metrics: Arc<Metrics>,
}

/// The aggregation layer.
pub struct Aggregator {
    services: Arc<ApiServices>,
    has_identity: bool,
    registration: Arc<AutoRegister>,
    crd_registration: Option<Arc<CrdRegistration>>,
    local: Arc<LocalAvailability>,
    remote: Arc<RemoteAvailability>,
    discovery: Arc<RemoteDiscovery>,
    openapi: Arc<OpenApi>,
    proxy: Proxy,
    completion: Check,
}

impl std::fmt::Debug for Aggregator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Aggregator").field("services", &self.services).finish_non_exhaustive()
    }
}

impl Aggregator {
    /// Builds everything and runs nothing.
    pub fn new(config: Config) -> Result<Self, String> {
        let Config { api_services, client, resolver, identity, .. } = config;
        let storage = api_services.storage.clone().ok_or("API services must be stored")?;
        if identity.is_some() {
            // Who cannot show who it is should say so at once.
            let ca = None;
            tls_config(&Endpoint {
                identity: identity.clone(),
                ca,
                insecure_skip_tls_verify: true,
                ..Endpoint::default()
            })?;
        }
        let has_identity = identity.is_some();
        let services = Arc::new(ApiServices::new(storage, identity));
        let registration =
            AutoRegister::new(services.clone(), api_services.clone(), client.clone());
        let desired: Vec<Desired> = config.served.into_iter().filter_map(built_in).collect();
        let completion = completion(&services, desired.iter().map(Desired::name).collect());
        desired.into_iter().for_each(|desired| registration.add(desired));
        let crd_registration = config
            .definitions
            .map(|definitions| CrdRegistration::new(definitions, registration.clone()));
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

    /// What stands before the servers of the chain.
    pub fn proxy(&self) -> Proxy {
        self.proxy.clone()
    }

    /// What `/apis` lists.
    pub fn groups(&self) -> Arc<dyn Registered> {
        Arc::new(Groups::new(self.services.clone(), self.discovery.clone()))
    }

    /// The OpenAPI documents of other servers.
    pub fn openapi(&self) -> Arc<dyn openapi::Remote> {
        self.openapi.clone()
    }

    /// Adds the post-start hooks, each with its health check. When all API services are known, and
    /// the custom kinds, too, a 404 is to be believed: there is nobody to answer.
    pub fn add_hooks(
        &self,
        lifecycle: &Lifecycle,
        health: &mut Health,
        custom_kinds: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), String> {
        let Lifecycle { hooks, signals, .. } = lifecycle;
        if self.has_identity {
            // The files are looked at when a connection is made.
            let hook = |_: HookContext| async { Ok(()) };
            health.add_boot(hooks.add_post_start("aggregator-reload-proxy-client-cert", hook)?);
        }
        let mut add = |name, work: Work| -> Result<(), String> {
            health.add_boot(hooks.add_post_start(name, |context| work.start(context))?);
            Ok(())
        };
        let services = self.services.clone();
        add("start-kube-aggregator-informers", Work::new(async move { services.follow().await }))?;
        let local = Work::new(self.local.clone().run()).with_queue(&self.local.queue);
        add("apiservice-status-local-available-controller", local)?;
        let remote = Work::new(self.remote.clone().run()).with_queue(&self.remote.queue);
        add("apiservice-status-remote-available-controller", remote)?;
        let (loaded, complete) =
            (self.services.loaded().wait(), signals.mux_and_discovery_complete.clone());
        let register = async move {
            tokio::join!(loaded, custom_kinds);
            complete.signal();
        };
        let registered = Work::new(register).ready(self.services.loaded());
        add("apiservice-registration-controller", registered)?;
        let discovery = Work::new(self.discovery.clone().run());
        let discovery = discovery.ready(&self.discovery.synced).with_queue(&self.discovery.queue);
        add("apiservice-discovery-controller", discovery)?;
        let (registration, definitions) =
            (self.registration.clone(), self.crd_registration.clone());
        let register = async move {
            let Some(definitions) = definitions else { return registration.run().await };
            let initial_sync = definitions.initial_sync.clone();
            // API services of custom kinds would be taken for superfluous before.
            let registration = async {
                initial_sync.wait().await;
                registration.run().await;
            };
            tokio::join!(definitions.run(), registration);
        };
        let register = Work::new(register).with_queue(&self.registration.queue);
        add("kube-apiserver-autoregistration", register)?;
        health.add_boot(self.completion.clone());
        let (v2, v3) = (&self.openapi.v2, &self.openapi.v3);
        let v2 = Work::new(v2.clone().run()).with_queue(&v2.queue);
        let v3 = Work::new(v3.clone().run()).with_queue(&v3.queue);
        for (name, work) in
            [("apiservice-openapi-controller", v2), ("apiservice-openapiv3-controller", v3)]
        {
            health.add_boot(hooks.add_post_start(name, |context| work.start(context))?);
        }
        Ok(())
    }
}

/// What a hook leaves running.
struct Work {
    /// What the hook waits for.
    ready: Option<Signal>,
    task: kevel_server::handler::Pending<'static, ()>,
    /// Whose workers end with it.
    queue: Option<Arc<WorkQueue>>,
}

impl Work {
    fn new(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Work { ready: None, task: Box::pin(task), queue: None }
    }

    fn ready(self, ready: &Signal) -> Self {
        Work { ready: Some(ready.clone()), ..self }
    }

    fn with_queue(self, queue: &Arc<WorkQueue>) -> Self {
        Work { queue: Some(queue.clone()), ..self }
    }

    async fn start(self, context: HookContext) -> HookResult {
        let Work { ready, task, queue } = self;
        let stop = context.stop.wait();
        tokio::spawn(async move {
            tokio::select! {
                () = task => {}
                () = stop => {}
            }
            queue.iter().for_each(|queue| queue.shut_down());
        });
        if let Some(ready) = ready {
            tokio::select! {
                () = ready.wait() => {}
                () = context.stop.wait() => {}
            }
        }
        Ok(())
    }
}

/// The API service of a version of a built-in group. One that has no place among the others has
/// none: it could never be told from a custom kind's.
fn built_in((group, version): (String, String)) -> Option<Desired> {
    let priority = priority::built_in(&group, &version)?;
    Some(Desired { group, version, priority, managed: Managed::OnStart })
}

/// The check that is green once each of these API services has been available.
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
