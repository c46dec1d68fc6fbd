//! An engine as written outside of the crate: all events in a vector. It uses only the crate's public API, and has to
//! hold the whole contract.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use kevel_store::{
    Engine, Entry, Error, Event, GetResponse, Pending, RangeOptions, RangeResponse, Result,
    Revision, Watch, WatchResponse, WatchSource,
};
use tokio::sync::watch;

/// Maximum size of a key and its value.
const MAX_SIZE: usize = 2 << 20;

/// An in-memory history.
pub struct Outside {
    history: Arc<Mutex<History>>,
    /// Signals every change that watches react to.
    ticks: Arc<watch::Sender<()>>,
}

#[derive(Default)]
struct History {
    /// One event for each revision after the first.
    events: Vec<Event>,
    present: BTreeMap<Bytes, Entry>,
    compacted: Revision,
    closed: bool,
    /// Keys whose stored values count as stale until they are written again.
    stale: BTreeSet<Bytes>,
}

impl Outside {
    pub fn new() -> Self {
        Outside { history: Arc::default(), ticks: Arc::new(watch::Sender::new(())) }
    }

    fn lock(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap()
    }

    /// Makes the stored value of a key stale, as a new encryption key does.
    pub fn make_stale(&self, key: &'static [u8]) {
        self.lock().stale.insert(Bytes::from_static(key));
    }

    /// Writes a key that was written at `expected`, or that does not exist.
    fn write(
        &self,
        key: &[u8],
        value: Option<Bytes>,
        expected: Option<Revision>,
        ttl: Option<Duration>,
    ) -> Result<Revision> {
        let written = self.lock().write(key, value, expected)?;
        self.ticks.send_replace(());
        if let Some(ttl) = ttl {
            let (history, ticks) = (self.history.clone(), self.ticks.clone());
            let key = key.to_vec();
            tokio::spawn(async move {
                tokio::time::sleep(ttl).await;
                // A later write of the key has its own time to live.
                if history.lock().unwrap().write(&key, None, Some(written)).is_ok() {
                    ticks.send_replace(());
                }
            });
        }
        Ok(written)
    }
}

impl History {
    fn revision(&self) -> Revision {
        Revision(Revision::INITIAL.0 + self.events.len() as u64)
    }

    fn write(
        &mut self,
        key: &[u8],
        value: Option<Bytes>,
        expected: Option<Revision>,
    ) -> Result<Revision> {
        let size = key.len() + value.as_ref().map_or(0, Bytes::len);
        if size > MAX_SIZE {
            return Err(Error::too_large());
        }
        let previous = self.present.get(key).cloned();
        match (&previous, expected) {
            (Some(there), None) => return Err(Error::Exists(Box::new(there.clone()))),
            (Some(there), Some(expected)) if there.mod_revision != expected => {
                return Err(Error::Conflict(Box::new(there.clone())));
            }
            (None, Some(_)) => return Err(Error::NotFound),
            _ => {}
        }
        self.stale.remove(key);
        let (key, revision) = (Bytes::copy_from_slice(key), self.revision().next());
        let create_revision = previous.as_ref().map_or(revision, |there| there.create_revision);
        let current = value.map(|value| Entry {
            key: key.clone(),
            value,
            create_revision,
            mod_revision: revision,
        });
        match current.clone() {
            Some(entry) => self.present.insert(key.clone(), entry),
            None => self.present.remove(&key),
        };
        self.events.push(Event { key, revision, current, previous, unreadable: None });
        Ok(revision)
    }

    /// Entries at a revision.
    fn at(&self, revision: Option<Revision>) -> Result<BTreeMap<Bytes, Entry>> {
        let Some(requested) = revision else { return Ok(self.present.clone()) };
        self.check_kept(requested)?;
        let mut past = BTreeMap::new();
        for event in self.events.iter().take_while(|event| event.revision <= requested) {
            match event.current.clone() {
                Some(entry) => past.insert(event.key.clone(), entry),
                None => past.remove(&event.key),
            };
        }
        Ok(past)
    }

    fn check_kept(&self, requested: Revision) -> Result<()> {
        let (compacted, current) = (self.compacted, self.revision());
        match requested {
            _ if requested < compacted => Err(Error::Compacted { requested, compacted }),
            _ if requested > current => Err(Error::FutureRevision { requested, current }),
            _ => Ok(()),
        }
    }
}

impl Engine for Outside {
    fn get<'a>(
        &'a self,
        key: &'a [u8],
        revision: Option<Revision>,
    ) -> Pending<'a, Result<GetResponse>> {
        let history = self.lock();
        let entry = history.at(revision).map(|all| all.get(key).cloned());
        let revision = history.revision();
        Box::pin(ready(entry.map(|entry| GetResponse { entry, revision })))
    }

    fn range<'a>(
        &'a self,
        prefix: &'a [u8],
        options: RangeOptions,
    ) -> Pending<'a, Result<RangeResponse>> {
        let history = self.lock();
        let revision = options.revision.unwrap_or(history.revision());
        let after = options.after.unwrap_or_default();
        Box::pin(ready(history.at(options.revision).map(|all| {
            let found = all.into_values().filter(|entry| entry.key.starts_with(prefix));
            let mut entries: Vec<_> = found.filter(|entry| entry.key > after).collect();
            let limit = if options.limit == 0 { entries.len() } else { options.limit };
            let rest = entries.split_off(limit.min(entries.len()));
            let remaining = options.count.then_some(rest.len() as u64);
            let (more, damaged) = (!rest.is_empty(), Vec::new());
            RangeResponse { entries, more, damaged, remaining, revision }
        })))
    }

    fn count<'a>(&'a self, prefix: &'a [u8]) -> Pending<'a, Result<u64>> {
        let count = self.lock().present.keys().filter(|key| key.starts_with(prefix)).count();
        Box::pin(ready(Ok(count as u64)))
    }

    fn create<'a>(
        &'a self,
        key: &'a [u8],
        value: Bytes,
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<Revision>> {
        Box::pin(async move { self.write(key, Some(value), None, ttl) })
    }

    fn update<'a>(
        &'a self,
        key: &'a [u8],
        value: Bytes,
        expected: Revision,
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<Revision>> {
        Box::pin(async move { self.write(key, Some(value), Some(expected), ttl) })
    }

    fn is_stale<'a>(&'a self, key: &'a [u8]) -> Pending<'a, Result<bool>> {
        Box::pin(ready(Ok(self.lock().stale.contains(key))))
    }

    fn delete<'a>(&'a self, key: &'a [u8], expected: Revision) -> Pending<'a, Result<Revision>> {
        Box::pin(async move { self.write(key, None, Some(expected), None) })
    }

    fn watch<'a>(&'a self, prefix: &'a [u8], after: Revision) -> Pending<'a, Result<Watch>> {
        let follower = Follower {
            history: self.history.clone(),
            ticks: self.ticks.subscribe(),
            prefix: prefix.to_vec(),
            told: after,
            asked: false,
        };
        let compacted = self.lock().compacted;
        Box::pin(ready(match after < compacted {
            true => Err(Error::Compacted { requested: after, compacted }),
            false => Ok(Watch::new(follower)),
        }))
    }

    fn current_revision(&self) -> Pending<'_, Result<Revision>> {
        Box::pin(ready(Ok(self.lock().revision())))
    }

    fn compacted_revision(&self) -> Revision {
        self.lock().compacted
    }

    fn compact(&self, revision: Revision) -> Pending<'_, Result<()>> {
        let mut history = self.lock();
        let compacted = history.compacted;
        let done = match revision == compacted {
            true => Err(Error::Compacted { requested: revision, compacted }),
            false => history.check_kept(revision).map(|()| history.compacted = revision),
        };
        Box::pin(ready(done))
    }

    fn health(&self) -> Pending<'_, Result<()>> {
        Box::pin(ready(Ok(())))
    }

    fn close(&self) -> Pending<'_, ()> {
        self.lock().closed = true;
        self.ticks.send_replace(());
        Box::pin(ready(()))
    }
}

/// A watch of the history.
struct Follower {
    history: Arc<Mutex<History>>,
    ticks: watch::Receiver<()>,
    prefix: Vec<u8>,
    told: Revision,
    /// Whether progress was requested.
    asked: bool,
}

impl Follower {
    /// The next response, if there is one.
    fn step(&mut self) -> Result<Option<WatchResponse>> {
        let history = self.history.lock().unwrap();
        let revision = history.revision();
        if history.closed {
            return Err(Error::Unavailable("closed".into()));
        }
        if revision < self.told || (revision == self.told && !self.asked) {
            return Ok(None);
        }
        let new = history.events.iter().filter(|event| event.revision > self.told);
        let events = new.filter(|event| event.key.starts_with(&self.prefix)).cloned().collect();
        (self.told, self.asked) = (revision, false);
        Ok(Some(WatchResponse { events, revision }))
    }
}

impl WatchSource for Follower {
    fn next(&mut self) -> Pending<'_, Result<WatchResponse>> {
        Box::pin(async move {
            loop {
                // A caller that requests progress in a loop lets other tasks run.
                tokio::task::consume_budget().await;
                self.ticks.mark_unchanged();
                if let Some(response) = self.step()? {
                    return Ok(response);
                }
                let gone = |_| Error::Unavailable("the engine is gone".into());
                self.ticks.changed().await.map_err(gone)?;
            }
        })
    }

    fn request_progress(&mut self) {
        self.asked = true;
    }
}
