//! Documents of remote APIServices, fetched and refreshed periodically.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{HeaderMap, Response};
use kevel_controller_runtime::{Backoff, WorkQueue, run};

use super::aggregator;
use crate::api_service::{ApiService, ServiceReference};
use crate::registered::ApiServices;
use crate::service_resolver::ServiceResolver;

/// Refresh interval, and maximum backoff after failures.
const REFRESH: Duration = Duration::from_secs(60);
const MAX_WAIT: Duration = Duration::from_secs(3600);
/// Timeout and maximum size of a response.
const TIMEOUT: Duration = Duration::from_secs(60);
const MAX_ANSWER: usize = 16 << 20;
const BACKOFF: Backoff =
    Backoff { base: REFRESH, max: MAX_WAIT, per_second: f64::INFINITY, burst: f64::INFINITY };

/// Kind of document that is fetched.
pub(crate) trait Fetched: Send + Sync + 'static {
    type Document: PartialEq + Send + Sync + 'static;
    const NAME: &'static str;
    const PATH: &'static str;

    /// Request headers, given the stored document.
    fn headers(kept: Option<&Self::Document>) -> HeaderMap;

    /// Parses a response; `None` if the server has no such document.
    fn read(
        service: &ApiService,
        answer: &Response<Bytes>,
        kept: Option<&Arc<Self::Document>>,
    ) -> Result<Option<Arc<Self::Document>>, String>;
}

/// Fetched documents by the names of APIServices. Later failures leave them as they are.
pub(crate) struct Downloads<F: Fetched> {
    services: Arc<ApiServices>,
    resolver: Arc<ServiceResolver>,
    pub queue: Arc<WorkQueue>,
    kept: ArcSwap<BTreeMap<String, Arc<F::Document>>>,
    writing: Mutex<()>,
}

impl<F: Fetched> Downloads<F> {
    pub fn new(services: Arc<ApiServices>, resolver: Arc<ServiceResolver>) -> Arc<Self> {
        let this = Arc::new(Downloads {
            services: services.clone(),
            resolver,
            queue: WorkQueue::new(BACKOFF),
            kept: ArcSwap::default(),
            writing: Mutex::default(),
        });
        let heard = Arc::downgrade(&this);
        services.listen(move |name| {
            if let Some(this) = heard.upgrade() {
                this.hear(name);
            }
        });
        this
    }

    pub fn kept(&self) -> Arc<BTreeMap<String, Arc<F::Document>>> {
        self.kept.load_full()
    }

    pub async fn run(self: Arc<Self>) {
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
                self.kept.load().keys().for_each(|name| self.queue.add(name));
            }
        };
        tokio::select! {
            () = run(self.queue.clone(), F::NAME, 1, reconcile) => {}
            () = refresh => {}
        }
    }

    /// Queues an APIService that is available and not fetched, or that was removed.
    fn hear(&self, name: &str) {
        let available = self.services.remote().get(name).map(|one| one.service.available);
        let kept = self.kept.load().contains_key(name);
        if available == Some(true) && !kept || available.is_none() && kept {
            self.queue.forget(name);
            self.queue.add(name);
        }
    }

    async fn reconcile(&self, name: &str) -> Result<(), String> {
        let one = self.services.remote().get(name).cloned();
        let Some((one, upstream)) = one.and_then(|one| Some((one.clone(), one.upstream.clone()?)))
        else {
            self.change(name, None);
            return Ok(());
        };
        if !one.service.available {
            return Ok(());
        }
        let kept = self.kept.load().get(name).cloned();
        let ServiceReference { namespace, name: service, port } = &upstream.service;
        let address = self.resolver.resolve(namespace, service, *port)?;
        let headers = F::headers(kept.as_deref());
        let user = aggregator();
        let get = upstream.server.get(&address, F::PATH, &user, headers, MAX_ANSWER);
        let answer = tokio::time::timeout(TIMEOUT, get).await;
        let answer = answer.map_err(|_| "request timed out".to_owned())??;
        if let Some(document) = F::read(&one.service, &answer, kept.as_ref())? {
            self.change(name, Some(document));
        }
        Ok(())
    }

    fn change(&self, name: &str, document: Option<Arc<F::Document>>) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = self.kept.load_full();
        if kept.get(name) == document.as_ref() {
            return;
        }
        let mut kept = BTreeMap::clone(&kept);
        match document {
            Some(document) => kept.insert(name.to_owned(), document),
            None => kept.remove(name),
        };
        self.kept.store(Arc::new(kept));
    }
}
