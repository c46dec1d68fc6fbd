//! Current webhooks of all configurations, compiled from the cache and from files (upstream: mutatingWebhookConfigurationManager,
//! validatingWebhookConfigurationManager).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::FutureExt as _;
use futures_util::future::select;
use kevel_registry::storage::Storage;
use kevel_server::certificates::verify::Purpose;
use kevel_server::certificates::warn_unable_to_sign;
use kevel_store::Revision;
use kevel_store::cache::{At, Cache, CacheError, Delivery, Object, Selection, Snapshot};
use tokio::sync::watch;

use crate::manifest::{
    MUTATING_WEBHOOKS, ManifestError, ManifestFolder, ManifestObject, Manifests,
    VALIDATING_WEBHOOKS,
};
use crate::predicates::Matcher;

use super::definition::{Step, Webhook};
use super::{Follow, mutating, validating};

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
    manifests: Option<Arc<Manifests<Arc<Webhook>>>>,
}

impl Source {
    /// Makes a source over these configurations, and the task that follows them.
    pub fn new(
        configurations: Arc<Storage>,
        folder: Option<ManifestFolder>,
        step: Step,
    ) -> Result<(Self, Follow), ManifestError> {
        let manifests = folder.map(|folder| load_manifests(folder, step)).transpose()?;
        let webhooks = Arc::new(ArcSwapOption::empty());
        let (loaded, ready) = watch::channel(false);
        let known = BTreeMap::new();
        let compile = Compile { configurations, step, webhooks: webhooks.clone(), loaded, known };
        let follow: Follow = match &manifests {
            Some(manifests) => {
                let (compile, manifests) = (Box::pin(compile.run()), manifests.clone().follow());
                Box::pin(select(compile, Box::pin(manifests)).map(drop))
            }
            None => Box::pin(compile.run()),
        };
        Ok((Source { webhooks, ready, manifests }, follow))
    }

    /// Whether no webhook of a file is in force.
    pub fn has_no_files(&self) -> bool {
        self.manifests.as_ref().is_none_or(|manifests| manifests.is_empty())
    }

    /// Webhooks of files.
    pub fn of_files(&self) -> Arc<Vec<Arc<Webhook>>> {
        self.manifests.as_ref().map(|manifests| manifests.current()).unwrap_or_default()
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

    /// Webhooks ordered by the name of the configuration, then by position in it; those of files come first.
    pub fn webhooks(&self) -> Arc<Vec<Arc<Webhook>>> {
        let of_api = self.webhooks.load_full().unwrap_or_default();
        match &self.manifests {
            Some(manifests) => manifests.and(of_api),
            None => of_api,
        }
    }
}

/// Loads the webhook configurations of a folder.
fn load_manifests(
    folder: ManifestFolder,
    step: Step,
) -> Result<Arc<Manifests<Arc<Webhook>>>, ManifestError> {
    match step {
        Step::Admit => Manifests::load(mutating::NAME, folder, MUTATING_WEBHOOKS, |objects| {
            webhooks_of(&objects, Step::Admit)
        }),
        Step::Validate => {
            Manifests::load(validating::NAME, folder, VALIDATING_WEBHOOKS, |objects| {
                webhooks_of(&objects, Step::Validate)
            })
        }
    }
}

fn webhooks_of(objects: &[ManifestObject], step: Step) -> Vec<Arc<Webhook>> {
    let each = objects.iter().map(|object| Webhook::of_manifest(&object.value, step));
    each.flatten().collect()
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
                "cannot be read: none of its webhooks is called"
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
