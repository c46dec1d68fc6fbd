//! Changes that the feed makes to a cache.

use std::sync::{Arc, PoisonError};

use kevel_clock::monotonic_now;

use super::epoch::{Epoch, Progress, Shown};
use super::log::Log;
use super::{Cache, Event, Snapshot, State, key_below};
use crate::Revision;

impl Cache {
    /// Installs a loaded snapshot and the events since. On a reload, the events between the old state and the new are
    /// unknown: watchers expire.
    pub(super) fn install(&self, loaded: Snapshot, since: Vec<crate::Event>, epoch: Epoch) {
        if self.state.borrow().is_over() {
            return;
        }
        self.metrics.initializations.increment();
        loaded.damaged().for_each(|object| self.damage.look_at(&self.resource.prefix, object));
        let again = *self.state.borrow() == State::Live;
        let revision = loaded.revision;
        // Numbers jump past the positions of watchers of the old log.
        let number = self.log().end() + u64::from(again);
        let (snapshot, events) = self.advance(loaded, number, since);
        self.write(|log| {
            self.demand.lost();
            // Before the new state is visible: a watcher that finds its queue open has missed nothing.
            self.subscribers.clear();
            log.reset(revision, again);
            let now = monotonic_now();
            events.into_iter().for_each(|event| log.push(event, now));
            self.current.store(Arc::new(Shown { snapshot, epoch: Some(epoch) }));
        });
        self.state.send_if_modified(|state| {
            let first = *state == State::Loading;
            if first {
                *state = State::Live;
            }
            first
        });
    }

    /// Applies changes, all at once.
    pub(super) fn apply(&self, changes: Vec<crate::Event>) {
        self.metrics.storage_events.add(changes.len() as u64);
        let shown = self.current.load_full();
        let number = self.log().end();
        let (snapshot, events) = self.advance(shown.snapshot.clone(), number, changes);
        self.metrics.events_received.add(events.len() as u64);
        if events.is_empty() {
            return;
        }
        self.write(|log| {
            let now = monotonic_now();
            events.iter().for_each(|event| log.push(event.clone(), now));
            self.current.store(Arc::new(Shown { snapshot, epoch: shown.epoch }));
        });
        self.metrics.events_dispatched.add(events.len() as u64);
        self.subscribers.publish(&events, &self.resource);
    }

    /// Stops following the engine's watch: the snapshot stays at the revision reached.
    pub(super) fn freeze(&self, progress: Progress) {
        let shown = self.current.load_full();
        if shown.epoch.is_none() {
            return;
        }
        let snapshot = shown.snapshot.at(shown.reached(progress));
        self.write(|_| self.current.store(Arc::new(Shown { snapshot, epoch: None })));
    }

    /// Ends the cache, its watchers and the reads that wait for it.
    pub(super) fn end(&self, state: State) {
        self.state.send_replace(state);
        self.subscribers.clear();
        self.grown.send_modify(|_| {});
    }

    /// Applies changes to a snapshot, and returns it with the events, numbered from `number`. Changes that the snapshot
    /// has already are left out.
    fn advance(
        &self,
        mut snapshot: Snapshot,
        mut number: u64,
        changes: Vec<crate::Event>,
    ) -> (Snapshot, Vec<Arc<Event>>) {
        let known: Revision = snapshot.revision;
        let mut events = Vec::new();
        for change in changes.into_iter().filter(|change| change.revision > known) {
            let Some(key) = key_below(&self.resource.prefix, &change.key) else { continue };
            let previous = snapshot.get(key).cloned();
            previous.iter().for_each(|previous| previous.supersede());
            let unreadable = change.unreadable;
            let object = |entry| Arc::new(self.resource.changed(key, &entry, unreadable));
            let current = change.current.map(object);
            match &current {
                Some(object) => {
                    self.damage.look_at(&self.resource.prefix, object);
                    snapshot.insert(object.clone());
                }
                None => snapshot.remove(key),
            };
            snapshot.revision = change.revision;
            let event = Event::new(number, change.revision, current, previous);
            events.push(Arc::new(event.reporting(self.resource.decode.reports_damage())));
            number += 1;
        }
        (snapshot, events)
    }

    /// Changes log and snapshot together, and wakes the readers that wait for either.
    pub(super) fn write<T>(&self, change: impl FnOnce(&mut Log) -> T) -> T {
        let mut log = self.recent.write().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut log);
        let end = log.end();
        drop(log);
        self.grown.send_replace(end);
        result
    }
}
