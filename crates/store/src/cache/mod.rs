//! The watch cache: every object of a resource as the bytes that clients read, and its recent past.
//!
//! One [`Caches`] follows the engine with a single watch and hands each event to the [`Cache`] of
//! the resource it belongs to. A cache holds
//! - a [`Snapshot`]: a persistent ordered set of [`Object`]s, replaced whole on every change, so that
//!   readers take it without a lock and keep it as long as they like;
//! - a log of recent [`Event`]s. Watchers read it at their own pace; one that falls off its end is
//!   told so ([`CacheError::Expired`]), and costs nobody memory or time.
//!
//! Since all caches follow one stream, they share one notion of progress: when it has reached a
//! revision, every cache shows everything up to it. Consistent reads, bookmarks and a list's
//! resourceVersion all come from that.

mod feed;
mod log;
mod object;
mod snapshot;
mod watch;
mod wire;

use std::sync::{Arc, RwLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use imbl::OrdSet;
use tokio::sync::{mpsc, watch as signal};

pub use self::feed::Caches;
pub use self::log::{Change, Event, LOG_AGE, LOG_MAX_BYTES, LOG_MAX_EVENTS, LOG_MIN_EVENTS};
pub use self::object::{Object, Part, Wire};
pub use self::snapshot::Snapshot;
pub use self::watch::{Delivery, Selection, WATCHER_QUEUE, WATCHER_QUEUE_BYTES, Watcher};
pub use self::wire::{FieldPath, JsonDecode, KeyOrder};

use self::feed::Command;
use self::log::Log;
use self::snapshot::Placed;
use self::watch::Subscribers;
use crate::{Engine, Error, RangeOptions, Revision};

/// How long a read waits for the cache to reach the revision it asks for.
pub const FRESHNESS_WAIT: Duration = Duration::from_secs(3);
/// How often a read that waits asks the engine how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Turns what the engine stores into what clients read.
pub trait Decode: Send + Sync + 'static {
    fn decode(&self, stored: &Bytes, revision: Revision) -> Result<Wire, String>;
}

/// What a resource's cache needs to know.
pub struct Resource {
    /// Where its objects are stored: `/registry/pods/`.
    pub prefix: String,
    pub decode: Arc<dyn Decode>,
    /// What selectors may ask for, besides name and namespace.
    pub fields: Arc<[FieldPath]>,
    /// Which of those, by position, watchers are found by.
    pub indexed: Vec<usize>,
}

impl std::fmt::Debug for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resource").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// How old an answer may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Whatever the cache has.
    Any,
    /// This revision or a later one.
    NotOlderThan(Revision),
    /// Exactly this revision.
    Exact(Revision),
    /// Everything acknowledged before the call.
    Consistent,
}

/// Why the cache cannot answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// The revision asked for is no longer known: 410 Gone.
    #[error("too old resource version: {requested} ({oldest})")]
    Expired { requested: Revision, oldest: Revision },
    /// The revision asked for was not reached in time.
    #[error("Too large resource version: {requested}, current: {current}")]
    TooLarge { requested: Revision, current: Revision },
    /// The resource is gone, or the server is stopping.
    #[error("the cache is closed")]
    Closed,
    #[error(transparent)]
    Store(#[from] Error),
}

/// The cache of one resource.
pub struct Cache {
    resource: Resource,
    engine: Arc<dyn Engine>,
    /// Everything up to this revision is in the caches.
    progress: signal::Receiver<Revision>,
    feed: mpsc::UnboundedSender<Command>,
    current: ArcSwap<Snapshot>,
    recent: RwLock<Log>,
    subscribers: Subscribers,
    /// The number of the next event, for those who wait for it; closed with the cache.
    grown: signal::Sender<u64>,
    state: signal::Sender<State>,
    /// The last snapshot that was rebuilt for a revision: the pages of a list ask for one again and
    /// again.
    rebuilt: ArcSwap<Snapshot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Loading,
    Live,
    /// Another cache has taken its place. Who still has this one reads from the engine.
    Replaced,
    Closed,
}

impl State {
    /// Whether nothing new is heard any more.
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
        progress: signal::Receiver<Revision>,
        feed: mpsc::UnboundedSender<Command>,
    ) -> Self {
        Cache {
            resource,
            engine,
            progress,
            feed,
            current: ArcSwap::default(),
            recent: RwLock::default(),
            subscribers: Subscribers::default(),
            grown: signal::Sender::new(0),
            state: signal::Sender::new(State::Loading),
            rebuilt: ArcSwap::default(),
        }
    }

    /// Waits until everything that was stored is loaded.
    pub async fn loaded(&self) -> Result<(), CacheError> {
        let mut state = self.state.subscribe();
        let reached = state.wait_for(|state| *state != State::Loading).await;
        match reached.map(|state| *state) {
            Ok(State::Live | State::Replaced) => Ok(()),
            _ => Err(CacheError::Closed),
        }
    }

    /// All objects, as fresh as asked for.
    pub async fn snapshot(&self, at: At) -> Result<Snapshot, CacheError> {
        self.loaded().await?;
        if *self.state.borrow() == State::Replaced {
            return match at {
                At::Exact(revision) => self.read_past(revision).await,
                _ => Ok(load(&*self.engine, &self.resource, None).await?),
            };
        }
        match at {
            At::Any => Ok(self.latest()),
            At::Consistent => self.consistent().await,
            At::NotOlderThan(revision) => {
                self.reach(revision).await?;
                Ok(self.latest())
            }
            At::Exact(revision) => {
                self.reach(revision).await?;
                self.exactly(revision).await
            }
        }
    }

    /// Everything acknowledged before the call.
    async fn consistent(&self) -> Result<Snapshot, CacheError> {
        let revision = self.engine.current_revision().await?;
        // An engine whose word on progress cannot be trusted is heard by its events alone. Where
        // those do not tell soon, the answer comes from the engine itself.
        if !self.engine.reports_progress() {
            let mut progress = self.progress.clone();
            let reached = progress.wait_for(|progress| *progress >= revision);
            if tokio::time::timeout(PROGRESS_INTERVAL, reached).await.is_err() {
                return Ok(load(&*self.engine, &self.resource, None).await?);
            }
        }
        self.reach(revision).await?;
        Ok(self.latest())
    }

    /// One object, as fresh as asked for.
    pub async fn get(&self, key: &str, at: At) -> Result<Option<Arc<Object>>, CacheError> {
        Ok(self.snapshot(at).await?.get(key).cloned())
    }

    /// What the cache shows now, without waiting for anything.
    pub fn latest(&self) -> Snapshot {
        // Progress first: the caches have caught up with it before it is announced, so what is read
        // afterwards holds everything up to it.
        let progress = *self.progress.borrow();
        let mut snapshot = Snapshot::clone(&self.current.load());
        snapshot.revision = snapshot.revision.max(progress);
        snapshot
    }

    /// The oldest revision that a watch can start after.
    pub fn oldest(&self) -> Revision {
        self.log().complete_after()
    }

    /// Waits until the cache shows everything up to a revision.
    async fn reach(&self, revision: Revision) -> Result<(), CacheError> {
        let current = || self.current.load().revision.max(*self.progress.borrow());
        if current() >= revision {
            return Ok(());
        }
        let mut progress = self.progress.clone();
        let deadline = tokio::time::Instant::now() + FRESHNESS_WAIT;
        while tokio::time::Instant::now() < deadline {
            // Engines tell about writes by themselves, but not about the lack of them.
            let _ = self.feed.send(Command::Progress);
            let reached = progress.wait_for(|progress| *progress >= revision);
            match tokio::time::timeout(PROGRESS_INTERVAL, reached).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(_)) => return Err(CacheError::Closed),
                Err(_) => {}
            }
        }
        Err(CacheError::TooLarge { requested: revision, current: current() })
    }

    async fn exactly(&self, revision: Revision) -> Result<Snapshot, CacheError> {
        let rebuilt = self.rebuilt.load();
        if rebuilt.revision == revision && revision != Revision::default() {
            return Ok(Snapshot::clone(&rebuilt));
        }
        let rewound = {
            let log = self.log();
            let current = self.current.load();
            log.rewind(&current, revision)
        };
        let snapshot = match rewound {
            Some(snapshot) => snapshot,
            None => self.read_past(revision).await?,
        };
        self.rebuilt.store(Arc::new(snapshot.clone()));
        Ok(snapshot)
    }

    /// Reads from the engine what the log no longer knows.
    async fn read_past(&self, revision: Revision) -> Result<Snapshot, CacheError> {
        let loaded = load(&*self.engine, &self.resource, Some(revision)).await;
        loaded.map_err(|error| match error {
            Error::Compacted { requested, compacted } => {
                CacheError::Expired { requested, oldest: compacted }
            }
            error => CacheError::Store(error),
        })
    }

    fn log(&self) -> std::sync::RwLockReadGuard<'_, Log> {
        self.recent.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// How many objects are read at a time.
const LOAD_PAGE: usize = 1000;

/// Reads a resource from the engine, page by page at one revision.
async fn load(
    engine: &dyn Engine,
    resource: &Resource,
    revision: Option<Revision>,
) -> Result<Snapshot, Error> {
    let prefix = resource.prefix.as_bytes();
    let mut options = RangeOptions { revision, limit: LOAD_PAGE, ..RangeOptions::default() };
    let mut objects = OrdSet::new();
    let mut page = engine.range(prefix, options.clone()).await?;
    loop {
        options.revision = Some(page.revision);
        options.after = page.entries.last().map(|entry| entry.key.clone());
        // The next page is read while this one is taken in.
        let entries = page.entries;
        let next = async {
            if page.more { Some(engine.range(prefix, options.clone()).await) } else { None }
        };
        let take_in = async {
            tokio::task::yield_now().await;
            for entry in entries {
                let Some(key) = key_below(&resource.prefix, &entry.key) else { continue };
                let wire = resource.decode.decode(&entry.value, entry.mod_revision);
                objects.insert(Placed(Arc::new(Object::new(key, entry.mod_revision, wire))));
            }
        };
        match tokio::join!(next, take_in).0 {
            Some(read) => page = read?,
            None => return Ok(Snapshot { objects, revision: page.revision }),
        }
    }
}

/// A key without its resource's prefix. Kubernetes' keys are text.
fn key_below<'k>(prefix: &str, key: &'k [u8]) -> Option<&'k str> {
    std::str::from_utf8(key.strip_prefix(prefix.as_bytes())?).ok()
}
