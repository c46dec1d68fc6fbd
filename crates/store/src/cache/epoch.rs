//! How far a cache has come, and what may be believed of it.
//!
//! An [`Epoch`] is one unbroken stretch of the engine's watch. [`Progress`] is what the stream has said
//! in it. It counts for a cache only if that cache was loaded in the same epoch: [`Shown::reached`] is
//! the one place where the two meet, so what the stream says can never be taken for a cache that has
//! not heard it.

use super::Snapshot;
use crate::Revision;

/// One unbroken stretch of the engine's watch: everything between its first and last event was heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Epoch(u64);

impl Epoch {
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

/// The stream has delivered everything up to a revision, in an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    epoch: Epoch,
    revision: Revision,
}

impl Progress {
    pub fn new(epoch: Epoch, revision: Revision) -> Progress {
        Progress { epoch, revision }
    }

    /// The revision alone: of the stream, not of any cache.
    pub fn of_stream(self) -> Revision {
        self.revision
    }
}

/// What a cache shows, and the epoch in which it follows the stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    /// Everything up to the snapshot's own revision, whatever the stream says.
    pub snapshot: Snapshot,
    /// `None` while it does not follow: before it is loaded, and while it is loaded anew.
    pub epoch: Option<Epoch>,
}

impl Shown {
    /// The revision up to which this is everything. `progress` must have been read before this was:
    /// events are in the caches before progress is announced.
    pub fn reached(&self, progress: Progress) -> Revision {
        match self.follows(progress) {
            true => self.snapshot.revision.max(progress.revision),
            false => self.snapshot.revision,
        }
    }

    /// Whether it follows the stream that made this progress.
    pub fn follows(&self, progress: Progress) -> bool {
        self.epoch == Some(progress.epoch)
    }
}
