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
//! revision, every cache that follows it shows everything up to it. Consistent reads, bookmarks and a
//! list's resourceVersion all come from that. Which caches follow at which moment, and what is true of
//! those that do not, is said in `feed/followers.rs`.

mod apply;
mod damage;
mod epoch;
mod feed;
mod log;
mod object;
mod recall;
mod selection;
mod snapshot;
mod watch;
mod wire;

use std::sync::{Arc, RwLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use kevel_clock::timer_now;
use tokio::sync::{mpsc, watch as signal};
use tokio::time::Instant;

pub use self::feed::Caches;
pub use self::log::{
    Change, EncoderId, Event, LOG_AGE, LOG_MAX_BYTES, LOG_MAX_EVENTS, LOG_MIN_EVENTS,
};
pub use self::object::{Object, Span, Wire};
pub use self::selection::Selection;
pub use self::snapshot::Snapshot;
pub use self::watch::{AHEAD_WAIT, Delivery, WATCHER_QUEUE, WATCHER_QUEUE_BYTES, Watcher};
pub use self::wire::{FieldPath, JsonDecode, KeyOrder};

use self::damage::Damage;
use self::epoch::{Progress, Shown};
use self::feed::{Command, Troubles};
use self::log::Log;
use self::selection::Selections;
use self::watch::Subscribers;
use crate::{Damaged, Engine, Entry, Error, RangeOptions, Revision, Unreadable, failpoint};

/// How long a read waits for the cache to reach the revision it asks for.
pub const FRESHNESS_WAIT: Duration = Duration::from_secs(3);
/// How often a read that waits asks the engine how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Turns what the engine stores into what clients read.
pub trait Decode: Send + Sync + 'static {
    /// The wire bytes of what is stored.
    fn decode(&self, stored: &Bytes, revision: Revision) -> Result<Wire, String>;
}

/// What a resource's cache needs to know.
pub struct Resource {
    /// Where its objects are stored: `/registry/pods/`.
    pub prefix: String,
    /// How its objects are read.
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

impl Resource {
    /// The object of an entry; of one that cannot be read, what is wrong with it.
    fn object(&self, key: &str, entry: &Entry) -> Object {
        let wire = self.decode.decode(&entry.value, entry.mod_revision).map_err(|why| {
            let (key, revision) = (entry.key.clone(), entry.mod_revision);
            Damaged { key, revision, why, sealed: false }.to_string()
        });
        Object::new(key, entry.mod_revision, wire)
    }

    /// The object of an entry that an event tells of.
    fn changed(&self, key: &str, entry: &Entry, unreadable: Option<Unreadable>) -> Object {
        let Some(Unreadable::Damaged(why) | Unreadable::Unavailable(why)) = unreadable else {
            return self.object(key, entry);
        };
        let (revision, sealed) = (entry.mod_revision, true);
        Object::damaged(key, &Damaged { key: entry.key.clone(), revision, why, sealed })
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
    Expired {
        /// The revision asked for.
        requested: Revision,
        /// The oldest that is known.
        oldest: Revision,
    },
    /// The revision asked for was not reached in time.
    #[error("Too large resource version: {requested}, current: {current}")]
    TooLarge {
        /// The revision asked for.
        requested: Revision,
        /// How far the cache has come.
        current: Revision,
    },
    /// What is stored could not be loaded yet.
    #[error("storage is (re)initializing: {0}")]
    Initializing(String),
    /// The resource is gone, or the server is stopping.
    #[error("the cache is closed")]
    Closed,
    /// The store could not be asked.
    #[error(transparent)]
    Store(#[from] Error),
}

/// The cache of one resource.
pub struct Cache {
    resource: Resource,
    engine: Arc<dyn Engine>,
    /// What all resources are below.
    root: Arc<[u8]>,
    /// What the stream has said; [`Shown::reached`] tells what that means here.
    progress: signal::Receiver<Progress>,
    feed: mpsc::UnboundedSender<Command>,
    troubles: Arc<Troubles>,
    damage: Arc<Damage>,
    current: ArcSwap<Shown>,
    recent: RwLock<Log>,
    subscribers: Subscribers,
    selections: Selections,
    /// The number of the next event, for those who wait for it; closed with the cache.
    grown: signal::Sender<u64>,
    state: signal::Sender<State>,
    /// The last snapshot that was rebuilt for a revision: the pages of a list ask for one again and
    /// again. It belongs to an epoch: in another one, the revision may have another past.
    rebuilt: ArcSwap<Shown>,
    /// Held by who adds to the beginning of the log: the revision from which on there was too much to add.
    recalling: tokio::sync::Mutex<Revision>,
}

/// Whether a cache that was reached has to follow the stream as well. One that is loaded anew shows
/// the past, which nobody vouches for any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Following {
    Stream,
    OrNot,
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
        root: Arc<[u8]>,
        progress: signal::Receiver<Progress>,
        feed: mpsc::UnboundedSender<Command>,
        troubles: Arc<Troubles>,
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
            current: ArcSwap::default(),
            recent: RwLock::default(),
            subscribers: Subscribers::default(),
            selections: Selections::default(),
            grown: signal::Sender::new(0),
            state: signal::Sender::new(State::Loading),
            rebuilt: ArcSwap::default(),
            recalling: tokio::sync::Mutex::default(),
        }
    }

    /// Whether everything that was stored is loaded.
    pub fn is_loaded(&self) -> bool {
        *self.state.borrow() != State::Loading
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

    /// The same, for somebody who wants to know when that does not work.
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

    /// Where the resource's objects are stored.
    fn prefix(&self) -> &str {
        &self.resource.prefix
    }

    /// All objects, as fresh as asked for.
    pub async fn snapshot(&self, at: At) -> Result<Snapshot, CacheError> {
        self.ready().await?;
        let cached = self.cached(at).await;
        // Looked at afterwards: a cache that was replaced meanwhile may have waited in vain.
        match *self.state.borrow() {
            State::Replaced => {}
            _ => return cached,
        }
        self.uncached(at).await
    }

    async fn cached(&self, at: At) -> Result<Snapshot, CacheError> {
        match at {
            At::Any => Ok(self.latest()),
            At::Consistent => self.consistent().await,
            At::NotOlderThan(revision) => {
                self.reach(revision, Following::OrNot).await?;
                Ok(self.latest())
            }
            At::Exact(revision) => {
                self.reach(revision, Following::OrNot).await?;
                self.exactly(revision).await
            }
        }
    }

    /// What the engine has.
    async fn uncached(&self, at: At) -> Result<Snapshot, CacheError> {
        if let At::Exact(revision) = at {
            return self.read_past(revision).await;
        }
        let snapshot = load(&*self.engine, &self.resource, None).await?;
        match at {
            At::NotOlderThan(requested) if requested > snapshot.revision => {
                Err(CacheError::TooLarge { requested, current: snapshot.revision })
            }
            _ => Ok(snapshot),
        }
    }

    /// Everything acknowledged before the call.
    async fn consistent(&self) -> Result<Snapshot, CacheError> {
        let deadline = timer_now() + FRESHNESS_WAIT;
        loop {
            let progress = *self.progress.borrow();
            let shown = self.current.load_full();
            let revision = self.engine.current_revision().await?;
            let reached = shown.reached(progress);
            if reached <= revision {
                return self.consistent_at(revision).await;
            }
            // Nothing goes back but an engine whose history was exchanged, as by the restore of a
            // backup: what is shown is of the other one.
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

    async fn consistent_at(&self, revision: Revision) -> Result<Snapshot, CacheError> {
        // An engine whose word on progress cannot be trusted is heard by its events alone. Where
        // those do not tell soon, the answer comes from the engine itself.
        if !self.engine.reports_progress() {
            let reached = self.reach(revision, Following::Stream);
            return match tokio::time::timeout(PROGRESS_INTERVAL, reached).await {
                Ok(reached) => reached.map(|()| self.latest()),
                Err(_) => Ok(load(&*self.engine, &self.resource, None).await?),
            };
        }
        self.reach(revision, Following::Stream).await?;
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
        let shown = self.current.load();
        shown.snapshot.at(shown.reached(progress))
    }

    /// How many objects there are, and how many wire bytes they are together.
    pub fn size(&self) -> (usize, u64) {
        let shown = self.current.load();
        (shown.snapshot.len(), shown.snapshot.bytes())
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
            return Ok(());
        }
        let (mut progress, mut grown) = (self.progress.clone(), self.grown.subscribe());
        loop {
            // Marked as seen before they are looked at: what changes afterwards is not missed.
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
            // Engines tell about writes by themselves, but not about the lack of them.
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
        // The log is free again before the snapshot is rewound: the feed of all resources writes to it.
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
    let mut snapshot = Snapshot::default();
    let mut page = engine.range(prefix, options.clone()).await?;
    loop {
        failpoint::reach(failpoint::LOADING);
        options.revision = Some(page.revision);
        let read = page.entries.last().map(|entry| &entry.key);
        let damaged = page.damaged.last().map(|damaged| &damaged.key);
        options.after = read.max(damaged).cloned();
        // The next page is read while this one is taken in.
        let (entries, damaged) = (page.entries, page.damaged);
        let next = async {
            if page.more { Some(engine.range(prefix, options.clone()).await) } else { None }
        };
        let take_in = async {
            tokio::task::yield_now().await;
            for entry in entries {
                kevel_compute::charge(4);
                let Some(key) = key_below(&resource.prefix, &entry.key) else { continue };
                snapshot.insert(Arc::new(resource.object(key, &entry)));
            }
            for damaged in damaged {
                let Some(key) = key_below(&resource.prefix, &damaged.key) else { continue };
                snapshot.insert(Arc::new(Object::damaged(key, &damaged)));
            }
        };
        match tokio::join!(next, take_in).0 {
            Some(read) => page = read?,
            None => return Ok(snapshot.at(page.revision)),
        }
    }
}

/// A key without its resource's prefix. Kubernetes' keys are text.
fn key_below<'k>(prefix: &str, key: &'k [u8]) -> Option<&'k str> {
    std::str::from_utf8(key.strip_prefix(prefix.as_bytes())?).ok()
}
