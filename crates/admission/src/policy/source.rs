//! Current policies that are in force, compiled from the caches and from files (upstream: policySource).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::FutureExt as _;
use futures_util::future::{join, select};
use kevel_api::status::StatusError;
use kevel_registry::admission::Attributes;
use kevel_registry::storage::Storage;
use kevel_store::cache::{At, Cache, CacheError, Object, Selection, Snapshot};
use tokio::sync::{Notify, watch};

use super::definition::{Binding, Evaluator, Hook, Policy};
use super::{Exemption, Follow, not_ready};
use crate::manifest::Manifests;
use crate::predicates::Matcher;

/// Longest wait of a request for the policies of a server that has just started.
const READY_WAIT: Duration = Duration::from_secs(10);

/// Delay before a failed cache is read again.
const RETRY: Duration = Duration::from_millis(200);

/// Policies with bindings, ordered by name; a policy without bindings is not in force.
pub(super) type Hooks<E> = Vec<Hook<E>>;

/// Compiled policies; recompiled in the background when they change, so that loading never waits.
#[derive(Debug)]
pub(super) struct Source<E> {
    hooks: Arc<ArcSwap<Hooks<E>>>,
    ready: watch::Receiver<bool>,
    manifests: Option<Arc<Manifests<Hook<E>>>>,
}

impl<E: Evaluator> Source<E> {
    /// Makes a source over these caches, and the task that follows them.
    pub fn new(
        policies: Arc<Storage>,
        bindings: Arc<Storage>,
        manifests: Option<Arc<Manifests<Hook<E>>>>,
    ) -> (Self, Follow) {
        let hooks = Arc::new(ArcSwap::default());
        let (loaded, ready) = watch::channel(false);
        let known = Mutex::default();
        let refresher = Refresher { policies, bindings, hooks: hooks.clone(), loaded, known };
        let run = Arc::new(refresher).run();
        let follow: Follow = match manifests.clone() {
            Some(manifests) => {
                Box::pin(select(Box::pin(run), Box::pin(manifests.follow())).map(drop))
            }
            None => Box::pin(run),
        };
        (Source { hooks, ready, manifests }, follow)
    }

    /// Whether no policy can apply to a request.
    pub fn is_idle(&self, attributes: &Attributes<'_>) -> bool {
        let has_no_files = self.manifests.as_ref().is_none_or(|manifests| manifests.is_empty());
        match has_no_files && self.is_ready() && self.hooks.load().is_empty() {
            true => true,
            false => match Exemption::of(attributes) {
                Exemption::None => false,
                Exemption::OfApi => has_no_files,
                Exemption::All => true,
            },
        }
    }

    /// Policies that a request is not exempt from. Waits until they and the namespaces are loaded, and refuses the
    /// request if that takes too long.
    pub async fn hooks(
        &self,
        attributes: &Attributes<'_>,
        matcher: &Matcher,
    ) -> Result<Arc<Hooks<E>>, StatusError> {
        match (Exemption::of(attributes), &self.manifests) {
            (Exemption::None, _) => {}
            (Exemption::OfApi, Some(manifests)) => return Ok(manifests.current()),
            (Exemption::OfApi | Exemption::All, _) => return Ok(Arc::default()),
        }
        if !self.is_ready() && !self.wait_until_ready(matcher).await {
            return Err(not_ready(attributes));
        }
        let of_api = self.hooks.load_full();
        Ok(match &self.manifests {
            Some(manifests) => manifests.and(of_api),
            None => of_api,
        })
    }

    /// Whether the policies of the API have been loaded once.
    fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Waits until policies and namespaces are loaded; `false` after a timeout.
    async fn wait_until_ready(&self, matcher: &Matcher) -> bool {
        let mut ready = self.ready.clone();
        let wait = async { ready.wait_for(|ready| *ready).await.is_ok() && matcher.ready().await };
        tokio::time::timeout(READY_WAIT, wait).await.unwrap_or(false)
    }
}

/// Reloads policies and bindings whenever one of them changes.
struct Refresher<E> {
    policies: Arc<Storage>,
    bindings: Arc<Storage>,
    hooks: Arc<ArcSwap<Hooks<E>>>,
    loaded: watch::Sender<bool>,
    known: Mutex<CompiledObjects<E>>,
}

/// Compiled policies and bindings, reused while their revisions stay the same.
struct CompiledObjects<E> {
    policies: HashMap<Arc<str>, Arc<Policy<E>>>,
    bindings: HashMap<Arc<str>, Arc<Binding>>,
}

impl<E> Default for CompiledObjects<E> {
    fn default() -> Self {
        CompiledObjects { policies: HashMap::new(), bindings: HashMap::new() }
    }
}

impl<E: Evaluator> Refresher<E> {
    async fn run(self: Arc<Self>) {
        let changed = Notify::new();
        let (policies, bindings) = (self.policies.cache.clone(), self.bindings.cache.clone());
        let heard = join(notify(policies, &changed), notify(bindings, &changed));
        let refresh = self.refresh(&changed);
        // Both end when the caches are closed, at shutdown.
        select(std::pin::pin!(heard), std::pin::pin!(refresh)).await;
    }

    async fn refresh(self: &Arc<Self>, changed: &Notify) {
        loop {
            match self.refresh_once().await {
                Ok(()) => changed.notified().await,
                Err(CacheError::Closed) => return,
                Err(error) => {
                    tracing::error!("encountered error syncing policies: {error}");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    async fn refresh_once(self: &Arc<Self>) -> Result<(), CacheError> {
        let policies = self.policies.cache.snapshot(At::Any).await?;
        let bindings = self.bindings.cache.snapshot(At::Any).await?;
        let this = self.clone();
        // Compiling takes too long for an async worker thread.
        let compiled = tokio::task::spawn_blocking(move || {
            let mut known = this.known.lock().unwrap_or_else(PoisonError::into_inner);
            let (compiled, hooks) = this.compile(&known, &policies, &bindings);
            *known = compiled;
            this.hooks.store(Arc::new(hooks));
        });
        // The task is cancelled at shutdown.
        compiled.await.map_err(|_| CacheError::Closed)?;
        self.loaded.send_replace(true);
        Ok(())
    }

    fn compile(
        &self,
        before: &CompiledObjects<E>,
        policies: &Snapshot,
        bindings: &Snapshot,
    ) -> (CompiledObjects<E>, Hooks<E>) {
        report_damage(policies, &self.policies);
        report_damage(bindings, &self.bindings);
        let mut known = CompiledObjects::default();
        let mut bound: BTreeMap<String, Vec<Arc<Binding>>> = BTreeMap::new();
        for object in bindings.range("", None) {
            let Some(binding) = self.binding(before, object) else { continue };
            known.bindings.insert(binding.name.clone(), binding.clone());
            bound.entry(binding.policy_name.clone()).or_default().push(binding);
        }
        let mut hooks = Vec::new();
        for (name, bindings) in bound {
            let Some(policy) = policies.get(&name).and_then(|object| self.policy(before, object))
            else {
                continue;
            };
            known.policies.insert(policy.name.clone(), policy.clone());
            hooks.push(Hook { policy, bindings });
        }
        (known, hooks)
    }

    fn policy(&self, known: &CompiledObjects<E>, object: &Object) -> Option<Arc<Policy<E>>> {
        match known.policies.get(object.name()) {
            Some(known) if known.revision == object.revision() => Some(known.clone()),
            _ => {
                let value = self.policies.read(object.wire().ok()?).ok()?;
                Some(Arc::new(Policy::new(object.name(), object.revision(), &value)))
            }
        }
    }

    fn binding(&self, known: &CompiledObjects<E>, object: &Object) -> Option<Arc<Binding>> {
        match known.bindings.get(object.name()) {
            Some(known) if known.revision == object.revision() => Some(known.clone()),
            _ => {
                let value = self.bindings.read(object.wire().ok()?).ok()?;
                Some(Arc::new(Binding::new(object.name(), object.revision(), &value)))
            }
        }
    }
}

/// Logs policies and bindings that cannot be decoded: they are not enforced.
fn report_damage(snapshot: &Snapshot, storage: &Storage) {
    for object in snapshot.damaged() {
        let kind = &storage.kind.kind;
        tracing::error!(name = object.key(), "{kind} cannot be read, and is not enforced");
    }
}

/// Signals every change, and every gap in the watch that may hide one. Ends when the cache is closed.
async fn notify(cache: Arc<Cache>, changed: &Notify) {
    loop {
        match follow(&cache, changed).await {
            Err(CacheError::Closed) => return,
            _ => tokio::time::sleep(RETRY).await,
        }
    }
}

async fn follow(cache: &Arc<Cache>, changed: &Notify) -> Result<(), CacheError> {
    let (_, mut watcher) = cache.list_watch(Selection::default(), At::Consistent).await?;
    let mut seen = Vec::new();
    loop {
        changed.notify_one();
        watcher.next(&mut seen).await?;
        seen.clear();
    }
}
