//! The watch cache (upstream: Cacher, watchCache): every object of a resource as wire bytes, and its recent events.
//!
//! One [`Caches`] follows the engine with a single watch and hands each event to the [`Cache`] of
//! the resource it belongs to. A cache holds
//! - a [`Snapshot`]: a persistent ordered set of [`Object`]s, replaced whole on every change, so that
//!   readers take it without a lock and keep it as long as they like;
//! - a log of recent [`Event`]s. Watchers read it at their own pace; a watcher that falls off its end gets
//!   [`CacheError::Expired`] and costs other readers neither memory nor time.
//!
//! A snapshot's set knows the number of objects below each branch (`object_set.rs`): what remains after a page is counted
//! without a look at it. Lists and watches that select by equality or `in` among many objects look at those of an index
//! (`index.rs`), which belongs to the snapshot, so that pages and past revisions have it, too. An index is built when a
//! label or field is asked for again, beside the feed and in portions, and dropped when it is not used (`demand.rs`). It
//! gives candidates: every object is matched all the same. All selectable fields are located in one pass over an object, at
//! the first use of any (`wire/located.rs`).
//!
//! Since all caches follow one stream, they share one notion of progress: when it has reached a revision, every cache
//! that follows it shows everything up to that revision. Consistent reads, bookmarks and a list's resourceVersion all
//! come from that. `feed/followers.rs` describes when a cache follows the stream and what it shows while it does not.

mod apply;
mod damage;
mod demand;
mod epoch;
mod feed;
mod index;
mod load;
mod log;
mod metrics;
mod object;
mod object_set;
mod recall;
mod selection;
mod snapshot;
mod watch;
mod wire;

use std::sync::{Arc, RwLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use kevel_clock::{Stopwatch, timer_now};
use tokio::sync::{mpsc, watch as signal};
use tokio::time::Instant;

pub use self::demand::{INDEX_IDLE, INDEXED_OBJECTS, MAX_INDEXES};
pub use self::feed::Caches;
pub use self::log::{
    Change, EncoderId, Event, LOG_AGE, LOG_MAX_BYTES, LOG_MAX_EVENTS, LOG_MIN_EVENTS,
};
pub use self::metrics::{CacheMetrics, ConsistentReads, READ_WAIT_SECONDS};
pub use self::object::{Object, Span, Wire};
pub use self::selection::Selection;
pub use self::snapshot::{Candidates, Snapshot};
pub use self::watch::{AHEAD_WAIT, Delivery, WATCHER_QUEUE, WATCHER_QUEUE_BYTES, Watcher};
pub use self::wire::{FieldPath, JsonDecode, KeyOrder};

use self::damage::Damage;
use self::demand::IndexDemand;
use self::epoch::{Progress, Shown};
use self::feed::{Command, FeedFailures};
use self::load::load;
use self::log::Log;
use self::metrics::Waited;
use self::selection::Selections;
use self::watch::Subscribers;
use crate::{Damaged, Engine, Entry, Error, Revision, Unreadable};

/// Time that a read waits for the cache to reach the requested revision.
pub const FRESHNESS_WAIT: Duration = Duration::from_secs(3);
/// Interval at which a waiting read requests progress from the engine.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Decoder of stored values into wire bytes.
pub trait Decode: Send + Sync + 'static {
    /// Decodes a stored value into wire bytes.
    fn decode(&self, stored: &Bytes, revision: Revision) -> Result<Wire, String>;

    /// Whether watchers are told of values that cannot be read: an object that becomes unreadable is not shown as
    /// deleted, and the deletion of an unreadable object is shown to every watcher that may have seen it.
    fn reports_damage(&self) -> bool {
        false
    }
}

/// Configuration of a resource's cache.
pub struct Resource {
    /// Key prefix of the resource's objects: `/registry/pods/`.
    pub prefix: String,
    /// Decoder of stored values.
    pub decode: Arc<dyn Decode>,
    /// Fields that field selectors may use, besides name and namespace.
    pub fields: Arc<[FieldPath]>,
    /// Positions in `fields` of the indexed ones: watchers that select one value of an indexed field get only its
    /// events (upstream: IndexerFuncs, triggers).
    pub indexed: Vec<usize>,
}

impl std::fmt::Debug for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resource").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl Resource {
    /// Object of an entry; a damaged object with the reason if the entry cannot be decoded.
    fn object(&self, key: &str, entry: &Entry) -> Object {
        let revision = entry.mod_revision;
        match self.decode.decode(&entry.value, revision) {
            Ok(wire) => Object::readable(key, revision, wire),
            Err(why) => {
                let damaged = Damaged { key: entry.key.clone(), revision, why, sealed: false };
                Object::damaged(key, &damaged)
            }
        }
    }

    /// Object of an event's entry; damaged if the event says that the value is unreadable.
    fn changed(&self, key: &str, entry: &Entry, unreadable: Option<Unreadable>) -> Object {
        let Some(Unreadable::Damaged(why) | Unreadable::Unavailable(why)) = unreadable else {
            return self.object(key, entry);
        };
        let (revision, sealed) = (entry.mod_revision, true);
        Object::damaged(key, &Damaged { key: entry.key.clone(), revision, why, sealed })
    }
}

/// Required freshness of a read (upstream: resourceVersion and resourceVersionMatch).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Any cached state (`resourceVersion=0`).
    Any,
    /// This revision or a later one.
    NotOlderThan(Revision),
    /// Exactly this revision.
    Exact(Revision),
    /// Everything acknowledged before the call (`resourceVersion` unset).
    Consistent,
}

/// Error of a read or watch of the cache.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// The requested revision is no longer in the cache or the engine: 410 Gone.
    #[error("too old resource version: {requested} ({oldest})")]
    Expired {
        /// The requested revision.
        requested: Revision,
        /// The oldest known revision.
        oldest: Revision,
    },
    /// The requested revision was not reached in time.
    #[error("Too large resource version: {requested}, current: {current}")]
    TooLarge {
        /// The requested revision.
        requested: Revision,
        /// The cache's revision.
        current: Revision,
    },
    /// The resource could not be loaded yet.
    #[error("storage is (re)initializing: {0}")]
    Initializing(String),
    /// The resource is no longer served, or the server is stopping.
    #[error("the cache is closed")]
    Closed,
    /// The engine failed.
    #[error(transparent)]
    Store(#[from] Error),
}

/// The watch cache of one resource (upstream: Cacher).
pub struct Cache {
    resource: Resource,
    engine: Arc<dyn Engine>,
    /// Key prefix of all resources.
    root: Arc<[u8]>,
    /// Progress of the engine's watch; [`Shown::reached`] tells whether it counts for this cache.
    progress: signal::Receiver<Progress>,
    feed: mpsc::UnboundedSender<Command>,
    troubles: Arc<FeedFailures>,
    damage: Arc<Damage>,
    metrics: CacheMetrics,
    current: ArcSwap<Shown>,
    recent: RwLock<Log>,
    subscribers: Subscribers,
    selections: Selections,
    demand: IndexDemand,
    /// Number of the next event, for waiting watchers; closed with the cache.
    grown: signal::Sender<u64>,
    state: signal::Sender<State>,
    /// The last snapshot that was rebuilt for a past revision: the pages of one list read the same revision. It belongs
    /// to an epoch: in another one, the revision may have another history.
    rebuilt: ArcSwap<Shown>,
    /// Serializes additions to the beginning of the log. The revision up to which the engine had too many events to
    /// add.
    recalling: tokio::sync::Mutex<Revision>,
}

/// Whether a wait for a revision also requires that the cache follows the engine's watch. A cache that is being
/// reloaded shows a past state that the watch no longer confirms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Following {
    Stream,
    OrNot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Loading,
    Live,
    /// Another cache has taken this one's place. Readers that still hold this one read from the engine.
    Replaced,
    Closed,
}

impl State {
    /// Whether the cache gets no further events.
    fn is_over(self) -> bool {
        matches!(self, State::Replaced | State::Closed)
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("prefix", &self.resource.prefix).finish_non_exhaustive()
    }
}

impl Cache {
    fn new(
        resource: Resource,
        engine: Arc<dyn Engine>,
        root: Arc<[u8]>,
        progress: signal::Receiver<Progress>,
        feed: mpsc::UnboundedSender<Command>,
        troubles: Arc<FeedFailures>,
        damage: Arc<Damage>,
    ) -> Self {
        Cache {
            resource,
            engine,
            root,
            progress,
            feed,
            troubles,
            damage,
            metrics: CacheMetrics::default(),
            current: ArcSwap::default(),
            recent: RwLock::default(),
            subscribers: Subscribers::default(),
            selections: Selections::default(),
            demand: IndexDemand::default(),
            grown: signal::Sender::new(0),
            state: signal::Sender::new(State::Loading),
            rebuilt: ArcSwap::default(),
            recalling: tokio::sync::Mutex::default(),
        }
    }

    fn with_metrics(self, metrics: CacheMetrics) -> Self {
        Cache { metrics, ..self }
    }

    /// Whether the resource is loaded.
    pub fn is_loaded(&self) -> bool {
        *self.state.borrow() != State::Loading
    }

    /// Waits until the resource is loaded.
    pub async fn loaded(&self) -> Result<(), CacheError> {
        let mut state = self.state.subscribe();
        let reached = state.wait_for(|state| *state != State::Loading).await;
        match reached.map(|state| *state) {
            Ok(State::Live | State::Replaced) => Ok(()),
            _ => Err(CacheError::Closed),
        }
    }

    /// Waits until the resource is loaded; fails after [`FRESHNESS_WAIT`] if the load or the engine's watch has failed.
    async fn ready(&self) -> Result<(), CacheError> {
        let mut loaded = std::pin::pin!(self.loaded());
        loop {
            if let Ok(result) = tokio::time::timeout(FRESHNESS_WAIT, &mut loaded).await {
                return result;
            }
            if let Some(trouble) = self.troubles.of(self.prefix()) {
                return Err(CacheError::Initializing(trouble));
            }
        }
    }

    /// Key prefix of the resource.
    fn prefix(&self) -> &str {
        &self.resource.prefix
    }

    /// All objects, at the required freshness.
    pub async fn snapshot(&self, at: At) -> Result<Snapshot, CacheError> {
        let read = self.read(at).await;
        if at == At::Consistent {
            let reads = &self.metrics.consistent_reads;
            match &read {
                Ok((_, false)) => reads.cached.increment(),
                Ok((_, true)) => reads.fallback.increment(),
                Err(_) => reads.failed.increment(),
            }
        }
        read.map(|(snapshot, _)| snapshot)
    }

    /// All objects at the required freshness, and whether they were read from the engine instead.
    async fn read(&self, at: At) -> Result<(Snapshot, bool), CacheError> {
        self.ready().await?;
        let cached = self.cached(at).await;
        // After the read: a cache that was replaced meanwhile may have waited in vain.
        match *self.state.borrow() {
            State::Replaced => {}
            _ => return cached,
        }
        self.uncached(at).await.map(|snapshot| (snapshot, true))
    }

    async fn cached(&self, at: At) -> Result<(Snapshot, bool), CacheError> {
        let snapshot = match at {
            At::Any => self.latest(),
            At::Consistent => return self.consistent().await,
            At::NotOlderThan(revision) => {
                self.reach(revision, Following::OrNot).await?;
                self.latest()
            }
            At::Exact(revision) => {
                self.reach(revision, Following::OrNot).await?;
                self.exactly(revision).await?
            }
        };
        Ok((snapshot, false))
    }

    /// Reads the snapshot from the engine.
    async fn uncached(&self, at: At) -> Result<Snapshot, CacheError> {
        if let At::Exact(revision) = at {
            return self.read_past(revision).await;
        }
        let snapshot = self.load(None).await?;
        match at {
            At::NotOlderThan(requested) if requested > snapshot.revision => {
                Err(CacheError::TooLarge { requested, current: snapshot.revision })
            }
            _ => Ok(snapshot),
        }
    }

    /// Snapshot with everything acknowledged before the call.
    async fn consistent(&self) -> Result<(Snapshot, bool), CacheError> {
        let deadline = timer_now() + FRESHNESS_WAIT;
        loop {
            let progress = *self.progress.borrow();
            let shown = self.current.load_full();
            let revision = self.engine.current_revision().await?;
            let reached = shown.reached(progress);
            if reached <= revision {
                let snapshot = self.consistent_at(revision).await?;
                // A cache that was loaded meanwhile may have been loaded before the engine's history was replaced.
                match self.current.load().epoch == shown.epoch {
                    true => return Ok(snapshot),
                    false => continue,
                }
            }
            // The engine's revision goes back only if its history was replaced, as by the restore of a backup: the
            // snapshot is of the old history.
            if let Some(epoch) = shown.epoch {
                let _ = self.feed.send(Command::Rewound { epoch, reached, current: revision });
            }
            let (requested, current) = (reached, revision);
            if timer_now() >= deadline {
                return Err(CacheError::TooLarge { requested, current });
            }
            let mut grown = self.grown.subscribe();
            let _ = tokio::time::timeout(PROGRESS_INTERVAL, grown.changed()).await;
        }
    }

    async fn consistent_at(&self, revision: Revision) -> Result<(Snapshot, bool), CacheError> {
        // Without progress reports only events show that the cache is current. If they do not within an interval, the
        // snapshot is read from the engine.
        if !self.engine.reports_progress() {
            let reached = self.reach(revision, Following::Stream);
            return match tokio::time::timeout(PROGRESS_INTERVAL, reached).await {
                Ok(reached) => reached.map(|()| (self.latest(), false)),
                Err(_) => Ok((self.load(None).await?, true)),
            };
        }
        self.reach(revision, Following::Stream).await?;
        Ok((self.latest(), false))
    }

    /// One object, at the required freshness.
    pub async fn get(&self, key: &str, at: At) -> Result<Option<Arc<Object>>, CacheError> {
        Ok(self.read(at).await?.0.get(key).cloned())
    }

    /// The cache's present snapshot, without waiting.
    pub fn latest(&self) -> Snapshot {
        // Progress first: it is announced after its events are in the caches, so a snapshot that is read afterwards
        // holds everything up to it.
        let progress = *self.progress.borrow();
        let shown = self.current.load();
        shown.snapshot.at(shown.reached(progress))
    }

    /// Number of objects, and their wire bytes together.
    pub fn size(&self) -> (usize, u64) {
        let shown = self.current.load();
        (shown.snapshot.len(), shown.snapshot.bytes())
    }

    /// Metrics of this cache.
    pub fn metrics(&self) -> &CacheMetrics {
        &self.metrics
    }

    /// Number of recent events that the cache has.
    pub fn recent_events(&self) -> usize {
        self.log().len()
    }

    /// The oldest revision that a watch can start after.
    pub fn oldest(&self) -> Revision {
        self.log().complete_after()
    }

    /// Waits until the cache shows everything up to a revision.
    async fn reach(&self, revision: Revision, following: Following) -> Result<(), CacheError> {
        self.reach_by(timer_now() + FRESHNESS_WAIT, revision, following).await
    }

    async fn reach_by(
        &self,
        deadline: Instant,
        revision: Revision,
        following: Following,
    ) -> Result<(), CacheError> {
        let look = || {
            let progress = *self.progress.borrow();
            let shown = self.current.load();
            let counts = following == Following::OrNot || shown.follows(progress);
            (shown.reached(progress), counts)
        };
        if matches!(look(), (reached, true) if reached >= revision) {
            self.metrics.read_wait.observe(0.0);
            return Ok(());
        }
        let _waited = Waited(&self.metrics.read_wait, Stopwatch::start());
        let (mut progress, mut grown) = (self.progress.clone(), self.grown.subscribe());
        loop {
            // Marked as seen before the state is read: a later change wakes the wait.
            progress.borrow_and_update();
            grown.borrow_and_update();
            let (reached, counts) = look();
            if reached >= revision && counts {
                return Ok(());
            }
            if self.state.borrow().is_over() {
                return Err(CacheError::Closed);
            }
            if timer_now() >= deadline {
                return Err(CacheError::TooLarge { requested: revision, current: reached });
            }
            // Engines report writes by themselves; progress without writes has to be requested.
            let _ = self.feed.send(Command::Progress);
            let changed = async {
                tokio::select! {
                    changed = progress.changed() => changed.is_ok(),
                    _ = grown.changed() => true,
                }
            };
            if tokio::time::timeout(PROGRESS_INTERVAL, changed).await == Ok(false) {
                let why = "the watch cache has ended".to_owned();
                return Err(CacheError::Store(Error::Unavailable(why)));
            }
        }
    }

    async fn exactly(&self, revision: Revision) -> Result<Snapshot, CacheError> {
        let epoch = self.current.load().epoch;
        let rebuilt = self.rebuilt.load();
        if epoch.is_some() && rebuilt.epoch == epoch && rebuilt.snapshot.revision == revision {
            return Ok(rebuilt.snapshot.clone());
        }
        // The lock on the log ends before the snapshot is rewound: the feed of all resources writes to the log.
        let (shown, since) = {
            let log = self.log();
            (self.current.load_full(), log.after(revision))
        };
        let snapshot = match since {
            Some(since) => log::rewind(&shown.snapshot, revision, &since),
            None => self.read_past(revision).await?,
        };
        self.rebuilt.store(Arc::new(Shown { snapshot: snapshot.clone(), epoch }));
        Ok(snapshot)
    }

    /// Reads from the engine a revision that the log no longer covers.
    async fn read_past(&self, revision: Revision) -> Result<Snapshot, CacheError> {
        let loaded = self.load(Some(revision)).await;
        loaded.map_err(|error| match error {
            Error::Compacted { requested, compacted } => {
                CacheError::Expired { requested, oldest: compacted }
            }
            error => CacheError::Store(error),
        })
    }

    /// Reads the resource from the engine.
    async fn load(&self, revision: Option<Revision>) -> Result<Snapshot, Error> {
        load(&*self.engine, &self.resource, revision, &self.metrics).await
    }

    fn log(&self) -> std::sync::RwLockReadGuard<'_, Log> {
        self.recent.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A key without its resource's prefix. Kubernetes' keys are text.
fn key_below<'k>(prefix: &str, key: &'k [u8]) -> Option<&'k str> {
    std::str::from_utf8(key.strip_prefix(prefix.as_bytes())?).ok()
}
