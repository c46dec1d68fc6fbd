//! Where each cache stands in the engine's stream: the state machine of the feed, without its I/O.
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
//! - *Closed.* Nothing is heard and nothing is announced. Caches are frozen: they show what they showed
//!   at the last revision that was announced, and follow no epoch.
//! - *Open.* Everything after `start` is heard, once and in order. `said` is what the stream has
//!   delivered, and it is announced together with the epoch, here alone ([`Followers::announce`]). It
//!   counts for the caches that follow this epoch, which are those that are live.
//! - *Waiting.* There is no stream to load beside.
//! - *Loading.* What the stream says after `from` waits in the backlog. A snapshot counts if it is the
//!   answer to this very load and is not older than `from`: a later one lacks nothing that the backlog
//!   does not have, an older one would. A load of another epoch, or of a cache that was replaced, is
//!   nobody's.
//! - *Live.* The cache shows everything that the stream has said.
//!
//! A cache that is loading holds up nobody but its own readers.

use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

use tokio::sync::watch as signal;

use super::super::epoch::{Epoch, Progress};
use super::super::{Cache, Snapshot};
use crate::{Event, Revision, Unreadable};

/// How much of what the stream says may wait for a cache that is loading. With more it is loaded
/// again: what waits is then part of what is loaded.
#[derive(Clone, Copy, Debug)]
pub(super) struct BacklogLimit {
    pub events: usize,
    /// Of keys and values.
    pub bytes: usize,
}

impl Default for BacklogLimit {
    /// As much as the log of a resource may hold: nobody could read more of it anyway.
    fn default() -> Self {
        BacklogLimit { events: super::super::LOG_MAX_EVENTS, bytes: super::super::LOG_MAX_BYTES }
    }
}

/// Which of all loads one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LoadId(u64);

/// An order to load a cache.
#[derive(Clone, Debug)]
pub(super) struct Load {
    id: LoadId,
    pub cache: Arc<Cache>,
}

/// All caches and the stream they follow.
#[derive(Debug)]
pub(super) struct Followers {
    announced: signal::Sender<Progress>,
    epoch: Epoch,
    /// What the stream has delivered; `None` while it is closed.
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

    /// What the stream has delivered, if it is open: where it can be taken up again.
    pub fn said(&self) -> Option<Revision> {
        self.said
    }

    /// Whether the stream is open in this epoch.
    pub fn is_in(&self, epoch: Epoch) -> bool {
        self.said.is_some() && self.epoch == epoch
    }

    /// Begins an epoch: from here on everything after revision `start` is heard. Everybody is to be
    /// loaded.
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

    /// Ends the epoch: something will be missed.
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

    /// Hands out what the stream has delivered: everything up to `reached`. Returns who has to be
    /// loaded again, and why.
    pub fn hear(&mut self, events: Vec<Event>, reached: Revision) -> Vec<(Load, String)> {
        let Some(said) = self.said else { return Vec::new() };
        let last = events.last().map_or(reached, |event| event.revision.max(reached));
        let mut behind = Vec::new();
        // Each cache gets its part at once: a revision is never seen in halves.
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
            // What is announced from now on does not count for it: it has missed something.
            follower.cache.freeze(progress);
            orders.push((follower.load(&mut self.loads, said), why));
        }
        self.announce();
        orders
    }

    /// Adds a cache, in the place of one of the same prefix. Returns the order to load it, if there is
    /// a stream that it can be loaded beside.
    pub fn add(&mut self, cache: Arc<Cache>) -> Option<Load> {
        let prefix = cache.prefix().to_owned();
        self.remove(&prefix);
        let mut follower = Follower { cache, standing: Standing::Waiting };
        let order = self.said.map(|said| follower.load(&mut self.loads, said));
        self.by_prefix.insert(prefix, follower);
        order
    }

    /// Forgets a cache. It hears nothing more, so what is announced from now on must not count for it.
    pub fn remove(&mut self, prefix: &str) {
        if let Some(follower) = self.by_prefix.remove(prefix) {
            follower.cache.freeze(*self.announced.borrow());
        }
    }

    /// Whether somebody waits for this load.
    pub fn expects(&self, load: &Load) -> bool {
        self.by_prefix.get(load.cache.prefix()).is_some_and(|follower| follower.expects(load))
    }

    /// Takes what was loaded. `false`: it is older than what the cache has to show, which cannot be.
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

    /// The one place where progress is announced. The caches that follow this epoch have seen all of
    /// it; for others it does not count.
    fn announce(&self) {
        let Some(said) = self.said else { return };
        let progress = Progress::new(self.epoch, said);
        self.announced.send_if_modified(|announced| {
            let changed = *announced != progress;
            *announced = progress;
            changed
        });
    }

    /// Events by the cache that they belong to, in order.
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

    /// The prefix of the cache that an event belongs to.
    fn home(&self, event: &Event) -> Option<&str> {
        let key = std::str::from_utf8(&event.key).ok()?;
        let (prefix, _) = self.by_prefix.range::<str, _>((Unbounded, Included(key))).next_back()?;
        key.starts_with(prefix.as_str()).then_some(prefix)
    }
}

impl Follower {
    /// Begins to load: what comes after `from` waits.
    fn load(&mut self, loads: &mut u64, from: Revision) -> Load {
        *loads += 1;
        let id = LoadId(*loads);
        self.standing = Standing::Loading { load: id, from, backlog: Backlog::default() };
        Load { id, cache: self.cache.clone() }
    }

    fn expects(&self, load: &Load) -> bool {
        matches!(self.standing, Standing::Loading { load: id, .. } if id == load.id)
    }

    /// Takes a batch of events, now or later. The error says why it has to be loaded instead: there is
    /// no room to keep them, or one cannot be read now.
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
