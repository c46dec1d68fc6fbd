//! One watch on the engine, for all caches.
//!
//! The feed opens the watch, loads the caches beside it and hands out what it says. What may be shown
//! and announced at which moment is decided by [`followers`], which says it all.
//!
//! A watch that breaks is taken up again where it was: nobody notices. Only when that cannot be (what
//! came since is compacted, or the engine's history is another one, as after the restore of a backup)
//! is the epoch over: watchers are told that they missed something, and the caches are loaded anew.

mod followers;
#[cfg(test)]
mod tests;
mod troubles;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kevel_compute::Metered;
use tokio::sync::{mpsc, watch as signal};
use tokio::task::{AbortHandle, Id, JoinError, JoinHandle, JoinSet};

use self::followers::{BacklogLimit, Followers, Load};
pub(super) use self::troubles::Troubles;
use super::damage::Damage;
use super::epoch::{Epoch, Progress, Shown};
use super::{Cache, Resource, Snapshot, State, load};
use crate::deaths::Deaths;
use crate::{Engine, Error, Pending, Result, Revision, Watch, WatchResponse, failpoint};

/// How long a failed watch or load waits before it is tried again.
const RETRY: Duration = Duration::from_millis(200);
/// How often watchers that have gone away are forgotten.
const SWEEP: Duration = Duration::from_secs(30);

/// How many objects that cannot be read a report names: enough to begin with.
const DAMAGED_NAMED: usize = 10;

/// The caches of all resources below one prefix.
pub struct Caches {
    engine: Arc<dyn Engine>,
    root: Arc<[u8]>,
    commands: mpsc::UnboundedSender<Command>,
    caches: Mutex<BTreeMap<String, Arc<Cache>>>,
    progress: signal::Receiver<Progress>,
    troubles: Arc<Troubles>,
    deaths: Deaths,
    damage: Arc<Damage>,
    task: JoinHandle<()>,
}

/// What the feed is told to do.
#[derive(Debug)]
pub(super) enum Command {
    Add(Arc<Cache>),
    Remove(String),
    /// Somebody waits for the engine to say how far it is.
    Progress,
    /// The engine is not where it was in this epoch: its history is another one.
    Rewound {
        epoch: Epoch,
        reached: Revision,
        current: Revision,
    },
}

impl Caches {
    /// Starts to follow the engine. Must be called within a tokio runtime.
    pub fn start(engine: Arc<dyn Engine>, root: &str) -> Self {
        Caches::with_limit(engine, root, BacklogLimit::default())
    }

    fn with_limit(engine: Arc<dyn Engine>, root: &str, limit: BacklogLimit) -> Self {
        let (commands, inbox) = mpsc::unbounded_channel();
        let (announced, progress) = signal::channel(Progress::default());
        let troubles = Arc::new(Troubles::default());
        let root: Arc<[u8]> = root.as_bytes().into();
        let feed = Feed {
            engine: engine.clone(),
            root: root.clone(),
            followers: Followers::new(announced, limit),
            troubles: troubles.clone(),
            loads: JoinSet::new(),
            orders: HashMap::new(),
        };
        let deaths = Deaths::default();
        let task = tokio::spawn(deaths.clone().watch_over("the watch cache", feed.run(inbox)));
        let (caches, damage) = Default::default();
        Caches { engine, root, commands, caches, progress, troubles, deaths, damage, task }
    }

    /// The cache of a resource, made if there is none; it loads in the background.
    pub fn add(&self, resource: Resource) -> Arc<Cache> {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let prefix = resource.prefix.clone();
        caches.entry(prefix).or_insert_with(|| self.make(resource)).clone()
    }

    /// A new cache in the place of a resource's old one, whose watchers end. Who reads the old one
    /// at this moment may go on doing so.
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
        let cache = Cache::new(resource, engine, root, progress, commands, troubles, damage);
        let cache = Arc::new(cache);
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

    /// The revision up to which the caches that are loaded show everything.
    pub fn progress(&self) -> Revision {
        self.progress.borrow().of_stream()
    }

    /// Calls `count` with the prefix of the resource whenever an object is met that cannot be read. To
    /// be called before resources are added.
    pub fn count_damaged(&self, count: impl Fn(&str) + Send + Sync + 'static) {
        self.damage.count(count);
    }

    /// Whether all objects can be read; the error names those that cannot, and says why.
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

    /// Whether anybody follows the engine; if not, nothing but a new start helps.
    pub fn alive(&self) -> Result<()> {
        self.deaths.report()
    }

    /// Whether the engine's watch works: without it everything that is read grows old.
    pub fn watching(&self) -> Result<(), String> {
        self.troubles.of_stream()
    }

    /// Whether all resources could be loaded; the error names those that could not, and says why.
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
    troubles: Arc<Troubles>,
    loads: JoinSet<Result<Snapshot>>,
    orders: HashMap<Id, (Load, AbortHandle)>,
}

/// The engine's watch, or the attempts to open it.
enum Source {
    Opening(Pending<'static, Opened>),
    Open(Watch),
}

/// A watch that was opened.
struct Opened {
    watch: Watch,
    /// After which revision an epoch begins; `None` when the one before goes on.
    start: Option<Revision>,
}

enum Heard {
    Opened(Opened),
    Said(Result<WatchResponse>),
}

impl Source {
    /// May be dropped at any await point.
    async fn next(&mut self) -> Heard {
        match self {
            Source::Opening(opening) => Heard::Opened(opening.await),
            Source::Open(watch) => Heard::Said(watch.next().await),
        }
    }

    fn request_progress(&mut self) {
        if let Source::Open(watch) = self {
            watch.request_progress();
        }
    }
}

impl Feed {
    /// Follows the engine until nobody is left to follow it for.
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Command>) {
        let mut source = self.open(Duration::ZERO);
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            // No branch before the others: a busy stream must not hold up those that are loading.
            tokio::select! {
                heard = source.next() => match heard {
                    Heard::Opened(opened) => source = self.opened(opened),
                    Heard::Said(Ok(response)) => self.hear(response),
                    Heard::Said(Err(error)) => source = self.broken(error),
                },
                Some(done) = self.loads.join_next_with_id() => self.loaded(done),
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
                    Some(Command::Rewound { epoch, reached, current }) => {
                        if self.followers.is_in(epoch) {
                            let (requested, current) = (reached, current);
                            source = self.broken(Error::FutureRevision { requested, current });
                        }
                    }
                    None => return,
                },
                _ = sweep.tick() => {
                    self.followers.caches().for_each(|cache| cache.subscribers.sweep());
                }
            }
        }
    }

    /// Opens the watch after a pause: where the last one broke, or from now on. Tries until it works.
    fn open(&self, pause: Duration) -> Source {
        let (engine, root) = (self.engine.clone(), self.root.clone());
        let (troubles, mut resume) = (self.troubles.clone(), self.followers.said());
        Source::Opening(Box::pin(async move {
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

    fn opened(&mut self, opened: Opened) -> Source {
        if let Some(start) = opened.start {
            let orders = self.followers.begin(start);
            self.drop_unexpected();
            self.start(orders, Duration::ZERO);
        }
        let mut source = Source::Open(opened.watch);
        match self.engine.reports_progress() {
            // A watch that works says so: then it is well.
            true => source.request_progress(),
            false => self.well(),
        }
        source
    }

    /// What becomes of a watch that has ended: it is taken up again, or everybody starts over.
    fn broken(&mut self, error: Error) -> Source {
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
        // Some engines say how far they are before they tell what happened.
        if response.events.is_empty() && !self.engine.reports_progress() {
            return;
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

    /// Starts to load caches beside the stream.
    fn start(&mut self, orders: impl IntoIterator<Item = Load>, pause: Duration) {
        for order in orders {
            let (engine, cache) = (self.engine.clone(), order.cache.clone());
            let name = format!("load of {}", cache.prefix());
            let load = async move {
                tokio::time::sleep(pause).await;
                load(&*engine, &cache.resource, None).await
            };
            let handle = self.loads.spawn(Metered::task(Box::pin(load), &name));
            self.orders.insert(handle.id(), (order, handle));
        }
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

    /// Ends the loads that nobody waits for any more.
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

/// Opens the watch after a revision, or after the current one.
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

/// Whether what came after the last event can no longer be heard.
fn is_loss(error: &Error) -> bool {
    matches!(
        error,
        Error::Compacted { .. }
            | Error::FutureRevision { .. }
            | Error::Corrupt(_)
            | Error::Damaged(_)
    )
}
