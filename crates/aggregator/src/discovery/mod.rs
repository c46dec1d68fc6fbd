//! Discovery of extension servers: fetched from them, and merged with this server's (upstream: discoveryManager).

pub(crate) mod document;
mod groups;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use kevel_api::value::Value;
use kevel_clock::monotonic_now;
use kevel_component::signals::Signal;
use kevel_compute::Metered;
use kevel_controller_runtime::{Backoff, WorkQueue, run};
use tokio::task::JoinSet;

pub(crate) use groups::Groups;

use crate::api_service::{ApiService, ServiceReference};
use crate::availability::aggregator;
use crate::registered::ApiServices;
use crate::service_resolver::ServiceResolver;
use crate::upstream::Upstream;
use document::{GroupVersion, Versions};

/// Interval at which documents are fetched again.
const REFRESH: Duration = Duration::from_secs(60);
/// Timeout and maximum size of a response.
const TIMEOUT: Duration = Duration::from_secs(5);
const MAX_ANSWER: usize = 8 << 20;
const WORKERS: usize = 2;
const BACKOFF: Backoff = Backoff {
    base: Duration::from_millis(500),
    max: REFRESH,
    per_second: f64::INFINITY,
    burst: f64::INFINITY,
};

const ACCEPT: HeaderValue = HeaderValue::from_static(
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
     application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
);
const ACCEPT_ALONE: HeaderValue = HeaderValue::from_static("application/json");

/// Documents by the names of their APIServices.
type Entries = BTreeMap<String, Arc<Value>>;

/// Controller that fetches discovery documents of remote APIServices.
pub(crate) struct RemoteDiscovery {
    services: Arc<ApiServices>,
    resolver: Arc<ServiceResolver>,
    pub queue: Arc<WorkQueue>,
    state: Mutex<State>,
    entries: ArcSwap<Entries>,
    /// Signaled when every APIService that existed at the start has been fetched once.
    pub synced: Signal,
}

#[derive(Default)]
struct State {
    /// Time since which a newer document is required, by APIService.
    dirty: HashMap<String, Instant>,
    /// Fetched documents by Service; one server may serve many APIServices.
    fetched: HashMap<ServiceReference, Fetched>,
}

#[derive(Clone)]
struct Fetched {
    versions: Arc<Versions>,
    tag: Option<HeaderValue>,
    asked: Instant,
}

impl RemoteDiscovery {
    pub fn new(services: Arc<ApiServices>, resolver: Arc<ServiceResolver>) -> Arc<Self> {
        let this = Arc::new(RemoteDiscovery {
            services: services.clone(),
            resolver,
            queue: WorkQueue::new(BACKOFF),
            state: Mutex::default(),
            entries: ArcSwap::default(),
            synced: Signal::new("RemoteDiscoverySynced"),
        });
        let heard = Arc::downgrade(&this);
        services.listen(move |name| {
            if let Some(this) = heard.upgrade() {
                this.look_at(name);
            }
        });
        this
    }

    pub async fn run(self: Arc<Self>) {
        self.services.loaded().wait().await;
        self.resolver.loaded().await;
        let mut asked = JoinSet::new();
        let remote = self.services.remote().clone();
        for (name, one) in remote.iter() {
            // The server is not ready before all have been fetched: an unavailable one is fetched later.
            if !one.service.available {
                self.show(name, &one.service, None, "Stale");
                self.look_at(name);
                continue;
            }
            let (this, name) = (self.clone(), name.clone());
            let reconcile = async move { this.reconcile(&name).await };
            asked.spawn(Metered::task(Box::pin(reconcile), "remote-discovery"));
        }
        // A failed one is listed as stale, and fetched again.
        while asked.join_next().await.is_some() {}
        self.synced.signal();
        let reconcile = {
            let this = self.clone();
            move |name: String| {
                let this = this.clone();
                async move { this.reconcile(&name).await }
            }
        };
        let refresh = async {
            loop {
                self.services.some_remote().await;
                tokio::time::sleep(REFRESH).await;
                self.services.remote().keys().for_each(|name| self.look_at(name));
            }
        };
        tokio::select! {
            () = run(self.queue.clone(), "discovery-manager", WORKERS, reconcile) => {}
            () = refresh => {}
        }
    }

    fn look_at(&self, name: &str) {
        let remote = self.services.remote().contains_key(name);
        if remote || self.entries.load().contains_key(name) {
            self.state().dirty.insert(name.to_owned(), monotonic_now());
            self.queue.add(name);
        }
    }

    async fn reconcile(&self, name: &str) -> Result<(), String> {
        let one = self.services.remote().get(name).cloned();
        let upstream = one.as_ref().and_then(|one| one.upstream.as_ref());
        let (Some(one), Some(upstream)) = (&one, upstream) else {
            self.forget(name);
            return Ok(());
        };
        let service = &one.service;
        let fetched = tokio::time::timeout(TIMEOUT * 2, self.fetch(service, upstream)).await;
        let fetched = fetched.unwrap_or_else(|_| Err("request timed out".to_owned()));
        let freshness = if fetched.is_ok() { "Current" } else { "Stale" };
        let version = (service.group.clone(), service.version.clone());
        let known = fetched.as_ref().ok().and_then(|versions| versions.get(&version));
        self.show(name, service, known, freshness);
        fetched.map(|_| ())
    }

    /// Lists a version with its known document.
    fn show(&self, name: &str, service: &ApiService, known: Option<&Value>, freshness: &str) {
        let document = document::with_freshness(known, &service.version, freshness);
        self.change(|entries| {
            let changes = entries.get(name).is_none_or(|known| **known != document);
            if changes {
                entries.insert(name.to_owned(), Arc::new(document));
            }
            changes
        });
    }

    /// All versions that a server serves, at least as new as required.
    async fn fetch(
        &self,
        service: &ApiService,
        upstream: &Upstream,
    ) -> Result<Arc<Versions>, String> {
        let (known, wanted) = {
            let state = self.state();
            let known = state.fetched.get(&upstream.service).cloned();
            (known, state.dirty.get(&service.name).copied())
        };
        if let (Some(known), Some(wanted)) = (&known, wanted)
            && known.asked > wanted
        {
            return Ok(known.versions.clone());
        }
        let asked = monotonic_now();
        let mut headers = HeaderMap::from_iter([(header::ACCEPT, ACCEPT)]);
        if let Some(tag) = known.as_ref().and_then(|known| known.tag.clone()) {
            headers.insert(header::IF_NONE_MATCH, tag);
        }
        let answer = self.get(upstream, "/apis", headers).await?;
        let (versions, tag) = match (answer.status(), known) {
            (StatusCode::NOT_MODIFIED, Some(known)) => (known.versions, known.tag),
            (StatusCode::OK, _) if document::is_aggregated(&answer) => {
                let versions = document::aggregated(answer.body())?;
                (Arc::new(versions), answer.headers().get(header::ETAG).cloned())
            }
            (StatusCode::SERVICE_UNAVAILABLE, _) => {
                let ServiceReference { namespace, name, port } = &upstream.service;
                return Err(format!(
                    "service {namespace}/{name}:{port} returned non-success response code: 503"
                ));
            }
            // An older server describes one version at a time.
            _ => return self.fetch_alone(service, upstream).await,
        };
        let fetched = Fetched { versions: versions.clone(), tag, asked };
        self.state().fetched.insert(upstream.service.clone(), fetched);
        Ok(versions)
    }

    async fn fetch_alone(
        &self,
        service: &ApiService,
        upstream: &Upstream,
    ) -> Result<Arc<Versions>, String> {
        let path = service.path();
        let headers = HeaderMap::from_iter([(header::ACCEPT, ACCEPT_ALONE)]);
        let answer = self.get(upstream, &path, headers).await?;
        if answer.status() != StatusCode::OK {
            let code = answer.status().as_u16();
            return Err(format!("failed to download legacy discovery for {path}: {code}"));
        }
        let version: GroupVersion = (service.group.clone(), service.version.clone());
        let document = document::alone(answer.body(), &service.version)?;
        Ok(Arc::new(Versions::from([(version, document)])))
    }

    async fn get(
        &self,
        upstream: &Upstream,
        path: &str,
        headers: HeaderMap,
    ) -> Result<Response<bytes::Bytes>, String> {
        let ServiceReference { namespace, name, port } = &upstream.service;
        let address = self.resolver.resolve(namespace, name, *port)?;
        let user = aggregator();
        let get = upstream.server.get(&address, path, &user, headers, MAX_ANSWER);
        match tokio::time::timeout(TIMEOUT, get).await {
            Ok(answer) => answer,
            Err(_) => Err("request timed out".to_owned()),
        }
    }

    fn forget(&self, name: &str) {
        self.change(|entries| entries.remove(name).is_some());
        let remote = self.services.remote();
        let mut state = self.state();
        state.dirty.remove(name);
        let used = |service: &ServiceReference| {
            remote.values().any(|one| one.service.service.as_ref() == Some(service))
        };
        state.fetched.retain(|service, _| used(service));
    }

    /// Changes the listed entries, if `change` returns `true`.
    fn change(&self, change: impl FnOnce(&mut Entries) -> bool) {
        // Holds the state's lock, so that changes do not overlap.
        let _state = self.state();
        let mut entries = Entries::clone(&self.entries.load());
        if change(&mut entries) {
            self.entries.store(Arc::new(entries));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
