//! Epochs of the engine's watch, and the progress that counts for a cache.
//!
//! An [`Epoch`] is one unbroken stretch of the engine's watch. [`Progress`] is the revision that the watch has
//! delivered in it. It counts for a cache only if that cache was loaded in the same epoch: [`Shown::reached`] is the
//! only place that compares the two, so progress is never applied to a cache that has not received the events.

use super::Snapshot;
use crate::Revision;

/// One unbroken stretch of the engine's watch: every event between its first and last was received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Epoch(u64);

impl Epoch {
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

/// Revision up to which the watch has delivered every event, in an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    epoch: Epoch,
    revision: Revision,
}

impl Progress {
    pub fn new(epoch: Epoch, revision: Revision) -> Progress {
        Progress { epoch, revision }
    }

    /// Revision of the engine's watch, not of any cache.
    pub fn of_stream(self) -> Revision {
        self.revision
    }
}

/// A cache's snapshot, and the epoch in which the cache follows the engine's watch.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    /// Complete up to the snapshot's own revision, whatever the progress.
    pub snapshot: Snapshot,
    /// `None` while the cache does not follow the watch: before its first load and while it is reloaded.
    pub epoch: Option<Epoch>,
}

impl Shown {
    /// Revision up to which the cache is complete. `progress` must have been read before `self`: events are in the
    /// caches before progress is announced.
    pub fn reached(&self, progress: Progress) -> Revision {
        match self.follows(progress) {
            true => self.snapshot.revision.max(progress.revision),
            false => self.snapshot.revision,
        }
    }

    /// Whether the cache follows the watch that made this progress.
    pub fn follows(&self, progress: Progress) -> bool {
        self.epoch == Some(progress.epoch)
    }
}
