//! The feed: one watch on the engine, for all caches (upstream: Reflector, one per resource there).
//!
//! The feed opens the watch, loads the caches and passes them the watch's events. [`followers`] decides and documents
//! when a cache may show a snapshot and when progress is announced.
//!
//! A watch that breaks is resumed at its last revision, without effect on clients. The epoch ends only when that is
//! impossible (the following events are compacted, or the engine's history was replaced, as by the restore of a
//! backup): then watchers expire and the caches are reloaded.

mod followers;
#[cfg(test)]
mod tests;
mod troubles;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kevel_clock::monotonic_now;
use kevel_component::metrics::Counter;
use kevel_compute::Metered;
use tokio::sync::{mpsc, watch as signal};
use tokio::task::{AbortHandle, Id, JoinError, JoinHandle, JoinSet};

use self::followers::{BacklogLimit, Followers, Load};
pub(super) use self::troubles::FeedFailures;
use super::damage::Damage;
use super::demand::BuiltIndex;
use super::epoch::{Epoch, Progress, Shown};
use super::index::IndexKey;
use super::metrics::MetricsOfCaches;
use super::{Cache, Resource, Snapshot, State, load};
use crate::deaths::Deaths;
use crate::{Engine, Error, Pending, Result, Revision, Watch, WatchResponse, failpoint};

/// Pause before a failed watch or load is tried again.
const RETRY: Duration = Duration::from_millis(200);
/// Interval at which the queues of ended watchers are dropped.
const SWEEP: Duration = Duration::from_secs(30);

/// Maximum number of unreadable objects that a health report names.
const DAMAGED_NAMED: usize = 10;

/// The watch caches of all resources below one prefix.
pub struct Caches {
    engine: Arc<dyn Engine>,
    root: Arc<[u8]>,
    commands: mpsc::UnboundedSender<Command>,
    caches: Mutex<BTreeMap<String, Arc<Cache>>>,
    progress: signal::Receiver<Progress>,
    troubles: Arc<FeedFailures>,
    deaths: Deaths,
    damage: Arc<Damage>,
    pub(super) metrics: MetricsOfCaches,
    pub(super) bookmarks: Arc<Counter>,
    task: JoinHandle<()>,
}

/// Command to the feed.
#[derive(Debug)]
pub(super) enum Command {
    Add(Arc<Cache>),
    Remove(String),
    /// A reader waits for progress.
    Progress,
    /// Selections ask for an index.
    Index(Arc<Cache>, IndexKey),
    /// The engine's revision went back in this epoch: its history was replaced.
    Rewound {
        epoch: Epoch,
        reached: Revision,
        current: Revision,
    },
}

impl Caches {
    /// Starts to watch the engine. Must be called within a tokio runtime.
    pub fn start(engine: Arc<dyn Engine>, root: &str) -> Self {
        Caches::with_limit(engine, root, BacklogLimit::default())
    }

    fn with_limit(engine: Arc<dyn Engine>, root: &str, limit: BacklogLimit) -> Self {
        let (commands, inbox) = mpsc::unbounded_channel();
        let (announced, progress) = signal::channel(Progress::default());
        let troubles = Arc::new(FeedFailures::default());
        let root: Arc<[u8]> = root.as_bytes().into();
        let bookmarks = Arc::<Counter>::default();
        let feed = Feed {
            engine: engine.clone(),
            root: root.clone(),
            followers: Followers::new(announced, limit),
            troubles: troubles.clone(),
            loads: JoinSet::new(),
            orders: HashMap::new(),
            builds: JoinSet::new(),
            bookmarks: bookmarks.clone(),
        };
        let deaths = Deaths::default();
        let task = tokio::spawn(deaths.clone().watch_over("the watch cache", feed.run(inbox)));
        let (caches, damage, metrics) = Default::default();
        Caches {
            engine,
            root,
            commands,
            caches,
            progress,
            troubles,
            deaths,
            damage,
            metrics,
            bookmarks,
            task,
        }
    }

    /// The cache of a resource, created if it does not exist; it loads in the background.
    pub fn add(&self, resource: Resource) -> Arc<Cache> {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let prefix = resource.prefix.clone();
        caches.entry(prefix).or_insert_with(|| self.make(resource)).clone()
    }

    /// Replaces a resource's cache by a new one and ends the old one's watchers. Reads of the old cache may continue.
    pub fn replace(&self, resource: Resource) -> Arc<Cache> {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let prefix = resource.prefix.clone();
        let cache = self.make(resource);
        if let Some(old) = caches.insert(prefix, cache.clone()) {
            old.end(State::Replaced);
        }
        cache
    }

    fn make(&self, resource: Resource) -> Arc<Cache> {
        let (engine, progress) = (self.engine.clone(), self.progress.clone());
        let (commands, troubles) = (self.commands.clone(), self.troubles.clone());
        let (root, damage) = (self.root.clone(), self.damage.clone());
        let metrics = self.metrics.of(&resource.prefix);
        let cache = Cache::new(resource, engine, root, progress, commands, troubles, damage);
        let cache = Arc::new(cache.with_metrics(metrics));
        let _ = self.commands.send(Command::Add(cache.clone()));
        cache
    }

    /// Ends a resource's cache and its watchers.
    pub fn remove(&self, prefix: &str) {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cache) = caches.remove(prefix) {
            cache.end(State::Closed);
            let _ = self.commands.send(Command::Remove(prefix.to_owned()));
        }
    }

    /// Revision up to which the loaded caches are complete.
    pub fn progress(&self) -> Revision {
        self.progress.borrow().of_stream()
    }

    /// Calls `count` with the resource's prefix for each unreadable object. To be called before resources are added.
    pub fn count_damaged(&self, count: impl Fn(&str) + Send + Sync + 'static) {
        self.damage.count(count);
    }

    /// Whether all objects can be read; the error names the unreadable ones with the reasons.
    pub fn readable(&self) -> Result<(), String> {
        let caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let shown: Vec<Arc<Shown>> =
            caches.values().map(|cache| cache.current.load_full()).collect();
        drop(caches);
        let damaged = shown.iter().flat_map(|shown| shown.snapshot.damaged());
        let mut errors = damaged.filter_map(|object| {
            let (key, error) = (object.key(), object.wire().err()?);
            Some(if error.contains(key) { error.to_owned() } else { format!("{key}: {error}") })
        });
        let named: Vec<String> = errors.by_ref().take(DAMAGED_NAMED).collect();
        let more = errors.count();
        match (named.is_empty(), more) {
            (true, _) => Ok(()),
            (false, 0) => Err(named.join("; ")),
            (false, more) => Err(format!("{}; and {more} more", named.join("; "))),
        }
    }

    /// Whether the feed's task is running; if it has ended, only a restart helps.
    pub fn alive(&self) -> Result<()> {
        self.deaths.report()
    }

    /// Whether the engine's watch works: without it the caches grow stale.
    pub fn watching(&self) -> Result<(), String> {
        self.troubles.of_stream()
    }

    /// Whether all resources could be loaded; the error names the others with the reasons.
    pub fn loading(&self) -> Result<(), String> {
        self.troubles.of_loads()
    }
}

impl std::fmt::Debug for Caches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caches").field("progress", &self.progress()).finish_non_exhaustive()
    }
}

impl Drop for Caches {
    fn drop(&mut self) {
        self.task.abort();
        let caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        caches.values().for_each(|cache| cache.end(State::Closed));
    }
}

struct Feed {
    engine: Arc<dyn Engine>,
    root: Arc<[u8]>,
    followers: Followers,
    troubles: Arc<FeedFailures>,
    loads: JoinSet<Result<Snapshot>>,
    orders: HashMap<Id, (Load, AbortHandle)>,
    /// Indexes that are built.
    builds: JoinSet<(Arc<Cache>, BuiltIndex)>,
    /// Reports of progress without events.
    bookmarks: Arc<Counter>,
}

/// The engine's watch, or the attempts to open it.
enum EngineWatch {
    Opening(Pending<'static, Opened>),
    Open(Watch),
}

/// A watch that was opened.
struct Opened {
    watch: Watch,
    /// Revision after which an epoch begins; `None` if the present epoch continues.
    start: Option<Revision>,
}

enum Heard {
    Opened(Opened),
    Said(Result<WatchResponse>),
}

impl EngineWatch {
    /// May be dropped at any await point.
    async fn next(&mut self) -> Heard {
        match self {
            EngineWatch::Opening(opening) => Heard::Opened(opening.await),
            EngineWatch::Open(watch) => Heard::Said(watch.next().await),
        }
    }

    fn request_progress(&mut self) {
        if let EngineWatch::Open(watch) = self {
            watch.request_progress();
        }
    }
}

impl Feed {
    /// Watches the engine until the command channel closes.
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Command>) {
        let mut source = self.open(Duration::ZERO);
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            // Unbiased: a busy watch must not delay the loads.
            tokio::select! {
                heard = source.next() => match heard {
                    Heard::Opened(opened) => source = self.opened(opened),
                    Heard::Said(Ok(response)) => self.hear(response),
                    Heard::Said(Err(error)) => source = self.broken(error),
                },
                Some(done) = self.loads.join_next_with_id() => self.loaded(done),
                Some(done) = self.builds.join_next() => {
                    if let Ok((cache, built)) = done {
                        cache.install_index(built);
                    }
                }
                command = inbox.recv() => match command {
                    Some(Command::Add(cache)) => {
                        let order = self.followers.add(cache);
                        self.start(order, Duration::ZERO);
                    }
                    Some(Command::Remove(prefix)) => {
                        self.followers.remove(&prefix);
                        self.troubles.load(&prefix, None);
                        self.drop_unexpected();
                    }
                    Some(Command::Progress) => source.request_progress(),
                    Some(Command::Index(cache, key)) => self.build(cache, key),
                    Some(Command::Rewound { epoch, reached, current }) => {
                        if self.followers.is_in(epoch) {
                            let (requested, current) = (reached, current);
                            source = self.broken(Error::FutureRevision { requested, current });
                        }
                    }
                    None => return,
                },
                _ = sweep.tick() => {
                    for cache in self.followers.caches() {
                        cache.subscribers.sweep();
                        cache.drop_idle_indexes(monotonic_now());
                    }
                }
            }
        }
    }

    /// Opens the watch after a pause: at the revision where the last one broke, or at the current one. Retries until it
    /// works.
    fn open(&self, pause: Duration) -> EngineWatch {
        let (engine, root) = (self.engine.clone(), self.root.clone());
        let (troubles, mut resume) = (self.troubles.clone(), self.followers.said());
        EngineWatch::Opening(Box::pin(async move {
            tokio::time::sleep(pause).await;
            loop {
                let error = match open_after(&*engine, &root, resume).await {
                    Ok((watch, after)) => {
                        return Opened { watch, start: resume.is_none().then_some(after) };
                    }
                    Err(error) => error,
                };
                if is_loss(&error) {
                    resume = None;
                }
                if troubles.stream(Some(error.to_string())) {
                    tracing::warn!(%error, "the store cannot be watched; trying again");
                }
                tokio::time::sleep(RETRY).await;
            }
        }))
    }

    fn opened(&mut self, opened: Opened) -> EngineWatch {
        if let Some(start) = opened.start {
            let orders = self.followers.begin(start);
            self.drop_unexpected();
            self.start(orders, Duration::ZERO);
        }
        let mut source = EngineWatch::Open(opened.watch);
        match self.engine.reports_progress() {
            // The trouble is cleared by the first response: request one.
            true => source.request_progress(),
            false => self.well(),
        }
        source
    }

    /// Handles the end of the watch: resumes it, or ends the epoch if events are lost.
    fn broken(&mut self, error: Error) -> EngineWatch {
        let lost = is_loss(&error);
        if lost {
            self.followers.end();
            self.drop_unexpected();
        }
        if self.troubles.stream(Some(error.to_string())) {
            tracing::warn!(%error, lost, "the store's watch ended");
        }
        self.open(RETRY)
    }

    fn well(&self) {
        if self.troubles.stream(None) {
            tracing::info!("the store is watched again");
        }
    }

    fn hear(&mut self, response: WatchResponse) {
        self.well();
        // Engines without progress reports may send a revision before its events.
        if response.events.is_empty() && !self.engine.reports_progress() {
            return;
        }
        if response.events.is_empty() {
            self.bookmarks.increment();
        }
        failpoint::reach(failpoint::HEARD);
        let orders = self.followers.hear(response.events, response.revision);
        if !orders.is_empty() {
            self.drop_unexpected();
            for (order, why) in &orders {
                let prefix = order.cache.prefix();
                tracing::warn!(prefix, why, "a resource could not be loaded; trying again");
                self.troubles.load(prefix, Some(why.clone()));
            }
            self.start(orders.into_iter().map(|(order, _)| order), Duration::ZERO);
        }
    }

    /// Starts to load caches while the watch runs.
    fn start(&mut self, orders: impl IntoIterator<Item = Load>, pause: Duration) {
        for order in orders {
            let (engine, cache) = (self.engine.clone(), order.cache.clone());
            let name = format!("load of {}", cache.prefix());
            let load = async move {
                tokio::time::sleep(pause).await;
                load(&*engine, &cache.resource, None, cache.metrics()).await
            };
            let handle = self.loads.spawn(Metered::task(Box::pin(load), &name));
            self.orders.insert(handle.id(), (order, handle));
        }
    }

    /// Builds an index beside the feed, in portions.
    fn build(&mut self, cache: Arc<Cache>, key: IndexKey) {
        let name = format!("index of {}", cache.prefix());
        let build = async move { (cache.clone(), cache.build(key).await) };
        self.builds.spawn(Metered::task(Box::pin(build), &name));
    }

    fn loaded(&mut self, done: Result<(Id, Result<Snapshot>), JoinError>) {
        let (id, result) = match done {
            Ok((id, result)) => (id, result.map_err(|error| error.to_string())),
            Err(error) => (error.id(), Err(error.to_string())),
        };
        let Some((order, _)) = self.orders.remove(&id) else { return };
        let prefix = order.cache.prefix().to_owned();
        let result = result.and_then(|snapshot| {
            let revision = snapshot.revision;
            let taken = self.followers.loaded(&order, snapshot);
            let old = || format!("it was read at revision {revision}, which is in the past");
            taken.then_some(()).ok_or_else(old)
        });
        match result {
            Ok(()) => {
                self.troubles.load(&prefix, None);
            }
            Err(error) if self.followers.expects(&order) => {
                if self.troubles.load(&prefix, Some(error.clone())) {
                    tracing::warn!(error, prefix, "a resource could not be loaded; trying again");
                }
                self.start([order], RETRY);
            }
            Err(_) => {}
        }
    }

    /// Aborts the loads that no cache waits for.
    fn drop_unexpected(&mut self) {
        self.orders.retain(|_, (order, handle)| {
            let expected = self.followers.expects(order);
            if !expected {
                handle.abort();
            }
            expected
        });
    }
}

/// Opens the watch after a revision, or after the engine's current one.
async fn open_after(
    engine: &dyn Engine,
    root: &[u8],
    after: Option<Revision>,
) -> Result<(Watch, Revision)> {
    let after = match after {
        Some(after) => after,
        None => engine.current_revision().await?,
    };
    Ok((engine.watch(root, after).await?, after))
}

/// Whether the events after the last one cannot be received any more.
fn is_loss(error: &Error) -> bool {
    matches!(
        error,
        Error::Compacted { .. }
            | Error::FutureRevision { .. }
            | Error::Corrupt(_)
            | Error::Damaged(_)
    )
}
