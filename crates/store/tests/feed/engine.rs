//! An in-memory engine that fails on command, at every possible point.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use kevel_store::{
    Engine, Entry, Error, Event, GetResponse, Pending, RangeOptions, RangeResponse, Result,
    Revision, Watch, WatchResponse, WatchSource,
};
use tokio::sync::watch as signal;

/// Present faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Watches cannot be opened.
    pub open: bool,
    /// Lists fail.
    pub list: bool,
    /// Lists read, and answer once this is reset.
    pub hold_lists: bool,
    /// Watches deliver nothing.
    pub hold_stream: bool,
    /// Watches deliver events, but report no progress.
    pub hold_progress: bool,
    /// Watches deliver everything at once that there is.
    pub batches: bool,
    /// The current revision cannot be read.
    pub current: bool,
}

#[derive(Debug, Default)]
struct State {
    history: Vec<Event>,
    compacted: u64,
    faults: Faults,
    /// Error with which the open watch ends.
    end_watch: Option<Error>,
    watches: u64,
}

/// The engine; clones share one state.
#[derive(Clone, Debug)]
pub struct Model {
    state: Arc<Mutex<State>>,
    changed: signal::Sender<()>,
}

fn unavailable(what: &str) -> Error {
    Error::Unavailable(format!("{what} is told to fail"))
}

impl Model {
    pub fn empty() -> Model {
        Model { state: Arc::default(), changed: signal::Sender::new(()) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.send_replace(());
        result
    }

    pub fn faults(&self, set: impl FnOnce(&mut Faults)) {
        self.change(|state| set(&mut state.faults));
    }

    /// Ends the open watch.
    pub fn end_watch(&self, error: Error) {
        self.change(|state| state.end_watch = Some(error));
    }

    /// Compacts everything up to now, so that a held watch cannot go on.
    pub fn compact_all(&self) {
        self.change(|state| state.compacted = state.revision());
    }

    /// Restores a backup from `writes` ago.
    pub fn restore(&self, writes: usize) {
        self.change(|state| {
            let left = state.history.len().saturating_sub(writes);
            state.history.truncate(left);
            state.compacted = state.compacted.min(state.revision());
        });
    }

    pub fn revision(&self) -> u64 {
        self.lock().revision()
    }

    /// Number of watches opened so far.
    pub fn watches(&self) -> u64 {
        self.lock().watches
    }

    pub fn put(&self, key: &str, value: &str) -> u64 {
        self.change(|state| {
            let revision = Revision(state.revision() + 1);
            let previous = state.at(u64::MAX).remove(key.as_bytes());
            let current = Entry {
                key: key.to_owned().into(),
                value: value.to_owned().into(),
                create_revision: previous.as_ref().map_or(revision, |e| e.create_revision),
                mod_revision: revision,
            };
            state.push(key, revision, Some(current), previous)
        })
    }

    /// Creates keys, which must be new.
    pub fn create_all(&self, keys: impl Iterator<Item = String>, value: &str) {
        self.change(|state| {
            for key in keys {
                let revision = Revision(state.revision() + 1);
                let current = Entry {
                    key: key.clone().into(),
                    value: value.to_owned().into(),
                    create_revision: revision,
                    mod_revision: revision,
                };
                state.push(&key, revision, Some(current), None);
            }
        });
    }

    pub fn remove(&self, key: &str) -> u64 {
        self.change(|state| {
            let revision = Revision(state.revision() + 1);
            let previous = state.at(u64::MAX).remove(key.as_bytes());
            state.push(key, revision, None, previous)
        })
    }

    /// Revision of each key below a prefix, at a revision.
    pub fn state_at(&self, prefix: &str, revision: u64) -> BTreeMap<String, u64> {
        let entries = self.lock().at(revision);
        let below = entries.into_iter().filter_map(|(key, entry)| {
            let key = String::from_utf8(key.to_vec()).unwrap();
            Some((key.strip_prefix(prefix)?.to_owned(), entry.mod_revision.0))
        });
        below.collect()
    }

    /// The revisions of all changes below a prefix.
    pub fn changes(&self, prefix: &str) -> Vec<u64> {
        let state = self.lock();
        let below = state.history.iter().filter(|e| e.key.starts_with(prefix.as_bytes()));
        below.map(|event| event.revision.0).collect()
    }

    /// Waits until `look` finds a result.
    async fn wait<T>(&self, mut look: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            if let Some(found) = look(&mut self.lock()) {
                return found;
            }
            let _ = changed.changed().await;
        }
    }
}

impl State {
    fn revision(&self) -> u64 {
        1 + self.history.len() as u64
    }

    fn push(
        &mut self,
        key: &str,
        revision: Revision,
        current: Option<Entry>,
        previous: Option<Entry>,
    ) -> u64 {
        let key = key.to_owned().into();
        self.history.push(Event { key, revision, current, previous, unreadable: None });
        revision.0
    }

    fn at(&self, revision: u64) -> BTreeMap<Bytes, Entry> {
        let mut entries = BTreeMap::new();
        for event in self.history.iter().take_while(|event| event.revision.0 <= revision) {
            match &event.current {
                Some(entry) => entries.insert(event.key.clone(), entry.clone()),
                None => entries.remove(&event.key),
            };
        }
        entries
    }

    fn require(&self, revision: u64) -> Result<()> {
        let (requested, current) = (Revision(revision), Revision(self.revision()));
        if requested > current {
            return Err(Error::FutureRevision { requested, current });
        }
        if revision < self.compacted {
            return Err(Error::Compacted { requested, compacted: Revision(self.compacted) });
        }
        Ok(())
    }
}

impl Engine for Model {
    fn get<'a>(&'a self, key: &'a [u8], at: Option<Revision>) -> Pending<'a, Result<GetResponse>> {
        Box::pin(async move {
            let state = self.lock();
            let revision = at.map_or(state.revision(), |revision| revision.0);
            state.require(revision)?;
            let entry = state.at(revision).remove(key);
            Ok(GetResponse { entry, revision: Revision(state.revision()) })
        })
    }

    fn range<'a>(
        &'a self,
        prefix: &'a [u8],
        options: RangeOptions,
    ) -> Pending<'a, Result<RangeResponse>> {
        Box::pin(async move {
            let response = {
                let state = self.lock();
                if state.faults.list {
                    return Err(unavailable("listing"));
                }
                let revision = options.revision.map_or(state.revision(), |revision| revision.0);
                state.require(revision)?;
                let wanted = |entry: &Entry| {
                    entry.key.starts_with(prefix)
                        && options.after.as_ref().is_none_or(|after| entry.key > *after)
                };
                let mut entries: Vec<_> = state.at(revision).into_values().filter(wanted).collect();
                let limit = if options.limit == 0 { usize::MAX } else { options.limit };
                let more = entries.len() > limit;
                let remaining = Some(entries.len().saturating_sub(limit) as u64);
                entries.truncate(limit);
                let damaged = Vec::new();
                RangeResponse { entries, more, damaged, remaining, revision: Revision(revision) }
            };
            self.wait(|state| (!state.faults.hold_lists).then_some(())).await;
            Ok(response)
        })
    }

    fn count<'a>(&'a self, prefix: &'a [u8]) -> Pending<'a, Result<u64>> {
        Box::pin(async move {
            let entries = self.lock().at(u64::MAX);
            Ok(entries.keys().filter(|key| key.starts_with(prefix)).count() as u64)
        })
    }

    fn create<'a>(
        &'a self,
        key: &'a [u8],
        value: Bytes,
        _: Option<Duration>,
    ) -> Pending<'a, Result<Revision>> {
        let (key, value) = (str::from_utf8(key).unwrap(), str::from_utf8(&value).unwrap());
        let written = Revision(self.put(key, value));
        Box::pin(async move { Ok(written) })
    }

    fn update<'a>(
        &'a self,
        key: &'a [u8],
        value: Bytes,
        _: Revision,
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<Revision>> {
        self.create(key, value, ttl)
    }

    fn delete<'a>(&'a self, key: &'a [u8], _: Revision) -> Pending<'a, Result<Revision>> {
        let written = Revision(self.remove(str::from_utf8(key).unwrap()));
        Box::pin(async move { Ok(written) })
    }

    fn watch<'a>(&'a self, prefix: &'a [u8], after: Revision) -> Pending<'a, Result<Watch>> {
        let opened = self.change(|state| {
            if state.faults.open {
                return Err(unavailable("watching"));
            }
            state.watches += 1;
            state.end_watch = None;
            match state.require(after.0) {
                Err(error @ Error::Compacted { .. }) => Err(error),
                // A revision in the future is waited for.
                _ => Ok(()),
            }
        });
        let (model, prefix) = (self.clone(), Bytes::copy_from_slice(prefix));
        let source = Source { model, prefix, after: after.0, asked: false };
        Box::pin(async move { opened.map(|()| Watch::new(source)) })
    }

    fn current_revision(&self) -> Pending<'_, Result<Revision>> {
        Box::pin(async {
            let state = self.lock();
            match state.faults.current {
                true => Err(unavailable("the current revision")),
                false => Ok(Revision(state.revision())),
            }
        })
    }

    fn compacted_revision(&self) -> Revision {
        Revision(self.lock().compacted)
    }

    fn compact(&self, revision: Revision) -> Pending<'_, Result<()>> {
        self.change(|state| state.compacted = revision.0);
        Box::pin(async { Ok(()) })
    }

    fn health(&self) -> Pending<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn close(&self) -> Pending<'_, ()> {
        Box::pin(async {})
    }
}

struct Source {
    model: Model,
    prefix: Bytes,
    after: u64,
    asked: bool,
}

impl WatchSource for Source {
    fn next(&mut self) -> Pending<'_, Result<WatchResponse>> {
        Box::pin(async {
            let model = self.model.clone();
            model.wait(|state| self.look(state)).await
        })
    }

    fn request_progress(&mut self) {
        self.asked = true;
        self.model.changed.send_replace(());
    }
}

impl Source {
    fn look(&mut self, state: &mut State) -> Option<Result<WatchResponse>> {
        if let Some(error) = state.end_watch.take() {
            return Some(Err(error));
        }
        if state.faults.hold_stream {
            return None;
        }
        if self.after < state.compacted {
            let (requested, compacted) = (Revision(self.after), Revision(state.compacted));
            return Some(Err(Error::Compacted { requested, compacted }));
        }
        let next = state.history.get(self.after as usize - 1..).unwrap_or_default();
        let next = next.iter().filter(|event| event.key.starts_with(&self.prefix));
        let most = if state.faults.batches { usize::MAX } else { 1 };
        let events: Vec<Event> = next.take(most).cloned().collect();
        if let Some(last) = events.last() {
            let revision = last.revision;
            self.after = revision.0;
            return Some(Ok(WatchResponse { events, revision }));
        }
        if self.asked && !state.faults.hold_progress && state.revision() >= self.after {
            self.asked = false;
            self.after = state.revision();
            return Some(Ok(WatchResponse { events: vec![], revision: Revision(self.after) }));
        }
        None
    }
}
