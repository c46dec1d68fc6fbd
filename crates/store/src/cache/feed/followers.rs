//! State machine of the feed, without I/O: the position of each cache in the engine's watch.
//!
//! ```text
//! stream     Closed ── begin(start) ──▶ Open { epoch, said } ── end ──▶ Closed
//!                                        hear: said grows
//! follower   Waiting ── begin ──▶ Loading { load, from, backlog } ── loaded ──▶ Live
//!               ▲                    ▲        │ backlog full              │
//!               │                    └────────┴── an event unavailable ◀──┤
//!               └───────────────────── end ◀──────────────────────────────┘
//! ```
//!
//! - *Closed.* No event is received and no progress announced. Caches are frozen: they show the state at the last
//!   announced revision, and follow no epoch.
//! - *Open.* Every event after `start` is received, once and in order. `said` is the revision that the watch has
//!   delivered, and it is announced together with the epoch, only by [`Followers::announce`]. It counts for the caches
//!   that follow this epoch, which are the live ones.
//! - *Waiting.* There is no open watch to load beside.
//! - *Loading.* Events after `from` wait in the backlog. A snapshot is accepted if it is the result of this very load
//!   and not older than `from`: a later snapshot lacks nothing that the backlog does not have, an older one would. The
//!   result of a load of another epoch, or of a replaced cache, is dropped.
//! - *Live.* The cache shows every event that the watch has delivered.
//!
//! A cache that is loading delays only its own readers.

use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

use tokio::sync::watch as signal;

use super::super::epoch::{Epoch, Progress};
use super::super::{Cache, Snapshot};
use crate::{Event, Revision, Unreadable};

/// Maximum backlog of a cache that is loading. With more the load starts over: the new snapshot includes the backlog.
#[derive(Clone, Copy, Debug)]
pub(super) struct BacklogLimit {
    pub events: usize,
    /// Bytes of keys and values.
    pub bytes: usize,
}

impl Default for BacklogLimit {
    /// As much as the log of a resource may hold: watchers could not read more of it anyway.
    fn default() -> Self {
        BacklogLimit { events: super::super::LOG_MAX_EVENTS, bytes: super::super::LOG_MAX_BYTES }
    }
}

/// Number of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LoadId(u64);

/// Order to load a cache.
#[derive(Clone, Debug)]
pub(super) struct Load {
    id: LoadId,
    pub cache: Arc<Cache>,
}

/// All caches, and the state of the engine's watch.
#[derive(Debug)]
pub(super) struct Followers {
    announced: signal::Sender<Progress>,
    epoch: Epoch,
    /// Revision that the watch has delivered; `None` while it is closed.
    said: Option<Revision>,
    by_prefix: BTreeMap<String, Follower>,
    limit: BacklogLimit,
    loads: u64,
}

#[derive(Debug)]
struct Follower {
    cache: Arc<Cache>,
    standing: Standing,
}

#[derive(Debug)]
enum Standing {
    Waiting,
    Loading { load: LoadId, from: Revision, backlog: Backlog },
    Live,
}

#[derive(Debug, Default)]
struct Backlog {
    events: Vec<Event>,
    bytes: usize,
}

impl Followers {
    pub fn new(announced: signal::Sender<Progress>, limit: BacklogLimit) -> Self {
        let (epoch, by_prefix) = Default::default();
        Followers { announced, epoch, said: None, by_prefix, limit, loads: 0 }
    }

    pub fn caches(&self) -> impl Iterator<Item = &Arc<Cache>> {
        self.by_prefix.values().map(|follower| &follower.cache)
    }

    /// Revision that the watch has delivered, if it is open: it can be resumed there.
    pub fn said(&self) -> Option<Revision> {
        self.said
    }

    /// Whether the watch is open in this epoch.
    pub fn is_in(&self, epoch: Epoch) -> bool {
        self.said.is_some() && self.epoch == epoch
    }

    /// Begins an epoch: from here on every event after revision `start` is received. Returns an order to load each
    /// cache.
    pub fn begin(&mut self, start: Revision) -> Vec<Load> {
        self.end();
        self.epoch = self.epoch.next();
        self.said = Some(start);
        let loads = &mut self.loads;
        let orders = self.by_prefix.values_mut().map(|follower| follower.load(loads, start));
        let orders = orders.collect();
        self.announce();
        orders
    }

    /// Ends the epoch: events will be missed.
    pub fn end(&mut self) {
        if self.said.take().is_none() {
            return;
        }
        let progress = *self.announced.borrow();
        for follower in self.by_prefix.values_mut() {
            follower.cache.freeze(progress);
            follower.standing = Standing::Waiting;
        }
    }

    /// Passes the watch's events, complete up to `reached`, to the caches. Returns the caches that have to be loaded
    /// again, with the reasons.
    pub fn hear(&mut self, events: Vec<Event>, reached: Revision) -> Vec<(Load, String)> {
        let Some(said) = self.said else { return Vec::new() };
        let last = events.last().map_or(reached, |event| event.revision.max(reached));
        let mut behind = Vec::new();
        // Each cache gets its part at once: readers never see half a revision.
        for (prefix, batch) in self.sort(events) {
            let Some(follower) = self.by_prefix.get_mut(&prefix) else { continue };
            if let Err(why) = follower.take(batch, self.limit) {
                behind.push((prefix, why));
            }
        }
        let progress = *self.announced.borrow();
        let said = said.max(last);
        self.said = Some(said);
        let mut orders = Vec::new();
        for (prefix, why) in behind {
            let Some(follower) = self.by_prefix.get_mut(&prefix) else { continue };
            // Later progress does not count for this cache: it has missed events.
            follower.cache.freeze(progress);
            orders.push((follower.load(&mut self.loads, said), why));
        }
        self.announce();
        orders
    }

    /// Adds a cache, replacing one of the same prefix. Returns the order to load it, if the watch is open.
    pub fn add(&mut self, cache: Arc<Cache>) -> Option<Load> {
        let prefix = cache.prefix().to_owned();
        self.remove(&prefix);
        let mut follower = Follower { cache, standing: Standing::Waiting };
        let order = self.said.map(|said| follower.load(&mut self.loads, said));
        self.by_prefix.insert(prefix, follower);
        order
    }

    /// Removes a cache. It gets no further events, so later progress must not count for it.
    pub fn remove(&mut self, prefix: &str) {
        if let Some(follower) = self.by_prefix.remove(prefix) {
            follower.cache.freeze(*self.announced.borrow());
        }
    }

    /// Whether a cache waits for this load.
    pub fn expects(&self, load: &Load) -> bool {
        self.by_prefix.get(load.cache.prefix()).is_some_and(|follower| follower.expects(load))
    }

    /// Installs a loaded snapshot. `false`: the engine returned one older than the load's start, which it should not.
    pub fn loaded(&mut self, load: &Load, snapshot: Snapshot) -> bool {
        let follower = self.by_prefix.get_mut(load.cache.prefix());
        let Some(follower) = follower.filter(|f| f.expects(load)) else { return true };
        let Standing::Loading { from, backlog, .. } = &mut follower.standing else { return true };
        if snapshot.revision < *from {
            return false;
        }
        follower.cache.install(snapshot, std::mem::take(&mut backlog.events), self.epoch);
        follower.standing = Standing::Live;
        true
    }

    /// The only place that announces progress. The caches that follow this epoch have every event up to it; for others
    /// it does not count.
    fn announce(&self) {
        let Some(said) = self.said else { return };
        let progress = Progress::new(self.epoch, said);
        self.announced.send_if_modified(|announced| {
            let changed = *announced != progress;
            *announced = progress;
            changed
        });
    }

    /// Events by the prefix of their cache, in order.
    fn sort(&self, events: Vec<Event>) -> Vec<(String, Vec<Event>)> {
        let mut sorted: Vec<(String, Vec<Event>)> = Vec::new();
        for event in events {
            let Some(prefix) = self.home(&event) else { continue };
            match sorted.iter_mut().find(|(known, _)| known == prefix) {
                Some((_, batch)) => batch.push(event),
                None => sorted.push((prefix.to_owned(), vec![event])),
            }
        }
        sorted
    }

    /// Prefix of the cache that an event belongs to.
    fn home(&self, event: &Event) -> Option<&str> {
        let key = std::str::from_utf8(&event.key).ok()?;
        let (prefix, _) = self.by_prefix.range::<str, _>((Unbounded, Included(key))).next_back()?;
        key.starts_with(prefix.as_str()).then_some(prefix)
    }
}

impl Follower {
    /// Begins a load: events after `from` go to the backlog.
    fn load(&mut self, loads: &mut u64, from: Revision) -> Load {
        *loads += 1;
        let id = LoadId(*loads);
        self.standing = Standing::Loading { load: id, from, backlog: Backlog::default() };
        Load { id, cache: self.cache.clone() }
    }

    fn expects(&self, load: &Load) -> bool {
        matches!(self.standing, Standing::Loading { load: id, .. } if id == load.id)
    }

    /// Applies a batch of events or adds it to the backlog. The error says why the cache has to be loaded instead: the
    /// backlog is full, or a value cannot be read now.
    fn take(&mut self, events: Vec<Event>, limit: BacklogLimit) -> Result<(), String> {
        let unavailable = events.iter().find_map(|event| match &event.unreadable {
            Some(Unreadable::Unavailable(why)) => Some(why.clone()),
            _ => None,
        });
        match (&mut self.standing, unavailable) {
            (Standing::Waiting, _) => Ok(()),
            (_, Some(why)) => Err(why),
            (Standing::Live, None) => {
                self.cache.apply(events);
                Ok(())
            }
            (Standing::Loading { backlog, .. }, None) => {
                backlog.bytes += events.iter().map(size).sum::<usize>();
                backlog.events.extend(events);
                match backlog.events.len() <= limit.events && backlog.bytes <= limit.bytes {
                    true => Ok(()),
                    false => Err("too much was written meanwhile".to_owned()),
                }
            }
        }
    }
}

fn size(event: &Event) -> usize {
    let value = |entry: &Option<crate::Entry>| entry.as_ref().map_or(0, |entry| entry.value.len());
    event.key.len() + value(&event.current) + value(&event.previous)
}
