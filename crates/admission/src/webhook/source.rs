//! Current webhooks of all configurations, compiled from the cache (upstream: mutatingWebhookConfigurationManager,
//! validatingWebhookConfigurationManager).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use kevel_server::certificates::verify::Purpose;
use kevel_server::certificates::warn_unable_to_sign;
use kevel_server::storage::Storage;
use kevel_store::Revision;
use kevel_store::cache::{At, Cache, CacheError, Delivery, Object, Selection, Snapshot};
use tokio::sync::watch;

use crate::predicates::Matcher;

use super::Follow;
use super::definition::{Step, Webhook};

/// Longest wait of a request for the webhooks of a server that has just started.
const READY_WAIT: Duration = Duration::from_secs(10);

/// Delay before a failed cache is read again.
const RETRY: Duration = Duration::from_millis(200);

/// Compiled webhooks; recompiled in the background when configurations change, so that loading never waits.
#[derive(Debug)]
pub(super) struct Source {
    /// `None` until the configurations have been loaded once.
    webhooks: Arc<ArcSwapOption<Vec<Arc<Webhook>>>>,
    ready: watch::Receiver<bool>,
}

impl Source {
    /// Makes a source over these configurations, and the task that follows them.
    pub fn new(configurations: Arc<Storage>, step: Step) -> (Self, Follow) {
        let webhooks = Arc::new(ArcSwapOption::empty());
        let (loaded, ready) = watch::channel(false);
        let known = BTreeMap::new();
        let compile = Compile { configurations, step, webhooks: webhooks.clone(), loaded, known };
        (Source { webhooks, ready }, Box::pin(compile.run()))
    }

    /// Whether the configurations are loaded and have no webhooks.
    pub fn is_empty(&self) -> bool {
        self.webhooks.load().as_ref().is_some_and(|webhooks| webhooks.is_empty())
    }

    /// Waits until configurations and namespaces are loaded; `false` after a timeout.
    pub async fn wait_until_ready(&self, matcher: &Matcher) -> bool {
        let mut ready = self.ready.clone();
        let wait = async { ready.wait_for(|ready| *ready).await.is_ok() && matcher.ready().await };
        tokio::time::timeout(READY_WAIT, wait).await.unwrap_or(false)
    }

    /// Webhooks ordered by the name of the configuration, then by position in it.
    pub fn webhooks(&self) -> Arc<Vec<Arc<Webhook>>> {
        self.webhooks.load_full().unwrap_or_default()
    }
}

/// Follows the configurations and compiles them.
struct Compile {
    configurations: Arc<Storage>,
    step: Step,
    webhooks: Arc<ArcSwapOption<Vec<Arc<Webhook>>>>,
    loaded: watch::Sender<bool>,
    /// Compiled webhooks, by configuration.
    known: BTreeMap<String, (Revision, Vec<Arc<Webhook>>)>,
}

impl Compile {
    async fn run(mut self) {
        let cache = self.configurations.cache.clone();
        loop {
            match self.follow(&cache).await {
                Err(CacheError::Closed) => return,
                _ => tokio::time::sleep(RETRY).await,
            }
        }
    }

    async fn follow(&mut self, cache: &Arc<Cache>) -> Result<(), CacheError> {
        let (snapshot, mut watcher) = cache.list_watch(Selection::default(), At::Any).await?;
        self.compile_all(&snapshot);
        let mut seen: Vec<Delivery> = Vec::new();
        loop {
            watcher.next(&mut seen).await?;
            for delivery in seen.drain(..) {
                let event = &delivery.event;
                match (event.current(), event.previous()) {
                    (Some(object), _) => self.compile(object),
                    (None, Some(gone)) => drop(self.known.remove(gone.key())),
                    (None, None) => {}
                }
            }
            self.publish();
        }
    }

    fn compile_all(&mut self, snapshot: &Snapshot) {
        for object in snapshot.damaged() {
            tracing::error!(
                name = object.key(),
                kind = &*self.configurations.kind.kind,
                "cannot be read: nobody is asked because of it"
            );
        }
        self.known.retain(|name, _| snapshot.get(name).is_some());
        snapshot.range("", None).for_each(|object| self.compile(object));
        self.publish();
        self.loaded.send_replace(true);
    }

    /// Compiles a configuration, unless its revision is compiled already.
    fn compile(&mut self, object: &Object) {
        let done = self.known.get(object.key());
        if done.is_some_and(|(revision, _)| *revision == object.revision()) {
            return;
        }
        let wire = object.wire().map_err(str::to_owned);
        match wire.and_then(|wire| self.configurations.read(wire)) {
            Ok(configuration) => {
                let webhooks = Webhook::of_configuration(&configuration, self.step);
                self.warn(object.key(), &webhooks);
                self.known.insert(object.key().to_owned(), (object.revision(), webhooks));
            }
            Err(error) => tracing::error!(name = object.key(), error, "cannot be read"),
        }
    }

    /// Logs warnings about CA bundles that are new in the configuration.
    fn warn(&self, name: &str, webhooks: &[Arc<Webhook>]) {
        let bundle = |webhook: &Arc<Webhook>| webhook.client_config.ca_bundle().to_owned();
        let before = self.known.get(name).map_or(&[][..], |(_, webhooks)| webhooks);
        let before: HashSet<String> = before.iter().map(bundle).collect();
        let new = webhooks.iter().filter(|webhook| !before.contains(&bundle(webhook)));
        let new = new.filter_map(|webhook| webhook.client_config.ca().ok().flatten());
        let source = format_args!("{} {name}", self.configurations.kind.kind);
        warn_unable_to_sign(source, Purpose::ServerAuth, new);
    }

    fn publish(&self) {
        let all = self.known.values().flat_map(|(_, webhooks)| webhooks.iter().cloned());
        self.webhooks.store(Some(Arc::new(all.collect())));
    }
}
