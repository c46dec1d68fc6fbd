//! Availability of remote APIServices (upstream: AvailableConditionController): their Service exists, it has endpoints,
//! and one of them answers.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderMap;
use kevel_api::quote::quote;
use kevel_clock::monotonic_now;
use kevel_compute::Metered;
use kevel_controller_runtime::{Backoff, Client, Informer, WorkQueue, run};
use kevel_registry::resource::Resource;
use kevel_registry::storage::Storage;
use kevel_registry::user::{PRIVILEGED, User};
use tokio::task::JoinSet;

use super::{AvailabilityMetrics, write};
use crate::api_service::{ApiService, Condition, ServiceReference};
use crate::registered::{ApiServices, Registered};
use crate::service_resolver::{RoutedService, RoutedSlice, SERVICE_NAME, ServiceResolver, slices};
use crate::upstream::Upstream;

/// Interval at which all remote APIServices are checked.
const RESYNC: Duration = Duration::from_secs(30);
/// Timeout of a discovery request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Number of concurrent discovery requests; one successful response is enough.
const ATTEMPTS: usize = 5;
/// Maximum size of the response, whose content does not matter.
const MAX_ANSWER: usize = 8 << 20;
const WORKERS: usize = 5;
/// Minimum interval between checks due to changes of the APIService. The result is written there: if each check had
/// another result, immediate checks would never end.
const PAUSE: Duration = Duration::from_secs(1);
/// Short, because a server may become unreachable without an event in the cluster.
const BACKOFF: Backoff = Backoff {
    base: Duration::from_millis(5),
    max: Duration::from_secs(30),
    per_second: f64::INFINITY,
    burst: f64::INFINITY,
};

/// Access to Services and EndpointSlices.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pub services: Arc<Storage>,
    pub endpoint_slices: Arc<Storage>,
    pub resolver: Arc<ServiceResolver>,
}

/// Controller that writes the condition of remote APIServices.
pub(crate) struct RemoteAvailability {
    known: Arc<ApiServices>,
    remote: Remote,
    resource: Arc<Resource>,
    client: Client,
    metrics: AvailabilityMetrics,
    pub queue: Arc<WorkQueue>,
    /// Time of the last availability check, by APIService.
    looked: Arc<Mutex<HashMap<String, Instant>>>,
}

impl RemoteAvailability {
    pub fn new(
        known: Arc<ApiServices>,
        remote: Remote,
        resource: Arc<Resource>,
        client: Client,
        metrics: AvailabilityMetrics,
    ) -> Arc<Self> {
        let queue = WorkQueue::new(BACKOFF);
        let looked: Arc<Mutex<HashMap<String, Instant>>> = Arc::default();
        let (heard, last) = (queue.clone(), looked.clone());
        let services = Arc::downgrade(&known);
        known.listen(move |name| {
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            match services.upgrade().is_some_and(|all| all.remote().contains_key(name)) {
                true => {
                    let since = last.get(name).map_or(PAUSE, Instant::elapsed);
                    heard.add_after(name, PAUSE.saturating_sub(since));
                }
                false => {
                    last.remove(name);
                }
            }
        });
        Arc::new(RemoteAvailability { known, remote, resource, client, metrics, queue, looked })
    }

    pub async fn run(self: Arc<Self>) {
        // A Service that is not loaded yet must not be taken for a missing one.
        self.remote.resolver.loaded().await;
        let _ = self.remote.endpoint_slices.cache.loaded().await;
        let reconcile = {
            let this = self.clone();
            move |name: String| {
                let this = this.clone();
                async move { this.reconcile(&name).await }
            }
        };
        let this = self.clone();
        let services = Informer::new(self.remote.services.cache.clone()).for_each(move |service| {
            this.look_at(service.namespace(), service.name());
        });
        let this = self.clone();
        let endpoint_slices =
            Informer::new(self.remote.endpoint_slices.cache.clone()).for_each(move |slice| {
                this.look_at(slice.namespace(), slice.label(SERVICE_NAME).unwrap_or_default());
            });
        tokio::join!(
            run(self.queue.clone(), "RemoteAvailability", WORKERS, reconcile),
            services,
            endpoint_slices,
            self.resync(),
        );
    }

    /// Queues the APIServices of a changed Service.
    fn look_at(&self, namespace: &str, name: &str) {
        let remote = self.known.remote();
        let of_service = remote.iter().filter(|(_, one)| {
            let service = one.service.service.as_ref();
            service.is_some_and(|known| (&*known.namespace, &*known.name) == (namespace, name))
        });
        of_service.for_each(|(name, _)| self.queue.add(name));
    }

    /// Queues all remote APIServices periodically, while there are any.
    async fn resync(&self) {
        loop {
            self.known.some_remote().await;
            tokio::time::sleep(RESYNC).await;
            self.known.remote().keys().for_each(|name| self.queue.add(name));
        }
    }

    async fn reconcile(&self, name: &str) -> Result<(), String> {
        let Some(one) = self.known.remote().get(name).cloned() else { return Ok(()) };
        let Registered { service, upstream: Some(upstream) } = &*one else { return Ok(()) };
        self.looked().insert(name.to_owned(), monotonic_now());
        let (condition, failed) = match self.check_service(service)? {
            Some(condition) => (condition, Ok(())),
            None => match check_server(&self.remote.resolver, &service.path(), upstream).await {
                Ok(()) => (passed(), Ok(())),
                Err(error) => {
                    let condition = unavailable("FailedDiscoveryCheck", error.clone());
                    (condition, Err(error))
                }
            },
        };
        if write(&self.resource, &self.client, name, &condition).await? {
            self.metrics.became_unavailable(name, condition.reason);
        }
        failed
    }

    fn looked(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Condition of an APIService whose Service cannot work; `None` if nothing is wrong with it.
    fn check_service(&self, service: &ApiService) -> Result<Option<Condition>, String> {
        let Some(ServiceReference { namespace, name, port }) = &service.service else {
            return Ok(None);
        };
        let place = format!("service/{name} in {}", quote(namespace));
        let Some(found) = self.remote.resolver.service(namespace, name)? else {
            return Ok(Some(unavailable("ServiceNotFound", format!("{place} is not present"))));
        };
        let slices = slices(&self.remote.endpoint_slices, namespace, name)?;
        Ok(missing(&found, &slices, *port, &place))
    }
}

/// Requests the discovery document of a version.
async fn check_server(
    resolver: &Arc<ServiceResolver>,
    path: &str,
    upstream: &Arc<Upstream>,
) -> Result<(), String> {
    upstream.server.check()?;
    let mut attempts = JoinSet::new();
    for _ in 0..ATTEMPTS {
        let (resolver, upstream, path) = (resolver.clone(), upstream.clone(), path.to_owned());
        let ask = async move { ask(&resolver, &upstream, &path).await };
        attempts.spawn(Metered::task(Box::pin(ask), "remote-availability"));
    }
    let mut last = Ok(());
    while let Some(ended) = attempts.join_next().await {
        last = ended.unwrap_or_else(|error| Err(error.to_string()));
        if last.is_ok() {
            break;
        }
    }
    last
}

/// Condition of a Service with a cluster IP that lacks a port or endpoints. Services of other types are
/// checked only by a request.
fn missing(
    service: &RoutedService,
    slices: &[Arc<RoutedSlice>],
    port: i64,
    place: &str,
) -> Option<Condition> {
    if service.ty != "ClusterIP" {
        return None;
    }
    let Some(name) = service.port_name(port) else {
        let message = format!("{place} is not listening on port {port}");
        return Some(unavailable("ServicePortError", message));
    };
    if slices.is_empty() {
        let message = format!("cannot find endpointslices for {place}");
        return Some(unavailable("EndpointsNotFound", message));
    }
    (!slices.iter().any(|slice| slice.serves(name))).then(|| {
        let name = quote(name);
        let message = format!("endpointslices for {place} have no addresses with port name {name}");
        unavailable("MissingEndpoints", message)
    })
}

async fn ask(resolver: &ServiceResolver, upstream: &Upstream, path: &str) -> Result<(), String> {
    let ServiceReference { namespace, name, port } = &upstream.service;
    let address = resolver.resolve(namespace, name, *port)?;
    let url = format!("https://{address}{path}");
    let failed = |why: String| format!("failing or missing response from {url}: {why}");
    let user = aggregator();
    let get = upstream.server.get(&address, path, &user, HeaderMap::new(), MAX_ANSWER);
    match tokio::time::timeout(TIMEOUT, get).await {
        Ok(Ok(answer)) if answer.status().is_success() => Ok(()),
        Ok(Ok(answer)) => {
            Err(failed(format!("bad status from {url}: {}", answer.status().as_u16())))
        }
        Ok(Err(error)) => Err(failed(format!("Get {}: {error}", quote(&url)))),
        Err(_) => Err(failed(format!(
            "Get {}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
            quote(&url)
        ))),
    }
}

/// User of the aggregator's own requests. It may see everything.
pub(crate) fn aggregator() -> User {
    User {
        name: "system:kube-aggregator".to_owned(),
        groups: vec![PRIVILEGED.to_owned()],
        ..User::default()
    }
}

fn unavailable(reason: &'static str, message: String) -> Condition {
    Condition { status: "False", reason, message }
}

fn passed() -> Condition {
    Condition { status: "True", reason: "Passed", message: "all checks passed".to_owned() }
}
