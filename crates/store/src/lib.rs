//! The store contract: etcd's data model as Kubernetes uses it, and the engines that hold it.
//!
//! A store is an ordered map from keys to values under one revision counter. An empty store is at
//! revision 1; every write transaction adds exactly one and stamps what it touched with the result.
//! Old revisions stay readable until they are compacted, so a list can be continued at the revision
//! it began at and a watch can start in the past.
//!
//! [`Engine`] is the contract (upstream: `storage.Interface` over etcd3); [`embedded::Embedded`] keeps it in a
//! directory or in memory, [`etcd::Etcd`] in an etcd cluster with the reference's keys. [`guaranteed_update`] is the
//! retry loop that all updates of objects go through. [`keys`] gives the key of each resource and object.
//!
//! ```
//! use kevel_store::{Engine, RangeOptions, embedded::{Embedded, Options}};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> kevel_store::Result<()> {
//! let store = Embedded::memory(Options::default())?;
//! let revision = store.create(b"/registry/pods/default/a", "{}".into(), None).await?;
//! let list = store.range(b"/registry/pods/", RangeOptions::default()).await?;
//! assert_eq!(list.entries[0].mod_revision, revision);
//! # Ok(()) }
//! ```
//!
//! # Rules of the engines
//!
//! Engines are `embedded` (SQLite; `memory` is the same code without a disk) and `etcd`. `tests/contract` runs the
//! contract on each of them and on an engine that is written outside this crate; `tests/REFERENCE.md` lists the storage
//! tests of the reference and where each is covered. `migrate` copies everything from one engine to another.
//! `failpoint` (a feature, off by default) names places at which `conformance/robustness` lets the process die.
//!
//! - *A new store is complete or refused.* Restoring a backup and importing write under another name
//!   (`kevel.db.partial`; in etcd, beside a marker key). Servers refuse such a store, and the next run starts over.
//! - *Revisions are never reused.* A restored store skips more revisions than any client can have seen; an imported
//!   store starts above the old store's revision. History before that is compacted: clients get 410 or 409, never
//!   another object under a known revision.
//! - *Expiry time* is the store's own (`embedded/clock.rs`): it starts at the wall time of the server's clock and never
//!   goes back, even if the machine's clock does.
//! - *Growth.* Compacted entries are deleted in small portions between writes, and their pages are reused.
//!
//! # Watch cache
//!
//! ```text
//! engine ── one watch on /registry/ ──▶ feed ──▶ Cache (one per resource)
//!                                                ├─ Snapshot     persistent ordered set of Arc<Object>, swapped whole
//!                                                ├─ Log          recent events, numbered; watchers read at their own pace
//!                                                └─ Subscribers  (field, value) → queues of watchers found by index
//! Object { key, revision, wire bytes, parts: positions of labels, fields and resourceVersion in them }
//! ```
//!
//! - *Wire bytes.* An object is its JSON as sent, without `kind` and `apiVersion` and with `resourceVersion`. With a
//!   prefix these bytes answer a GET; they are also a list item and, between a prefix and a suffix, a watch event.
//!   Values that selectors need are not copied: the object stores their positions in its bytes.
//! - *Decoding.* A resource supplies a `Decode` that makes wire bytes of stored bytes. For stored JSON that is one
//!   shallow scan (`cache/wire.rs`); no tree is built at start or when an object changes.
//! - *One stream.* All caches follow one watch of the engine, so progress is one revision. The resourceVersion of a
//!   list, consistent reads and bookmarks use it. It is read before the snapshot.
//! - *Epochs.* An epoch is an unbroken stretch of that watch. Progress counts only for caches that were loaded in the
//!   same epoch (`cache/epoch.rs`). A follower waits (no stream), loads (events are buffered, stale loads are refused)
//!   or is live; `cache/feed/followers.rs` is the state machine, without I/O. A broken watch resumes at its revision.
//!   If that is impossible (compacted, or the store was restored), the epoch ends: caches stay at their last state,
//!   watchers get 410, and everything is loaded again.
//! - *Recall.* A log starts where its cache was loaded. For a watcher that starts earlier (it comes from another
//!   server, or from before a restart), the events in between are read once from the engine's history and put before
//!   the log (`cache/recall.rs`). Events that the log has dropped or that are compacted give 410.
//! - *Old snapshots.* A list at an older revision is the current snapshot with newer events undone, as far as the log
//!   goes; before that the engine is read, and after compaction the answer is 410.
//! - *Damage.* An object that cannot be read (wrong checksum, undecodable value) gives an error on a GET by name and is
//!   left out of lists. `kube-apiserver store check` finds such records; `--drop` removes them.
//! - *Selectors.* A large selector is indexed by label, so that evaluating it costs no more than the smaller of the
//!   object's labels and the selector's. Watches with the same large selector share one evaluation per event
//!   (`cache/selection.rs`). No selector is evaluated while the log is locked.
//! - *Decoded facts.* Authentication and admission read stored objects with every request. They read a small type of
//!   their own, made once per state of an object and kept beside it (`Storage::decoded`, `controlplane::lister`).
//! - *Watchers* read the shared log and cost nothing while idle; one that falls off its end gets 410. A watcher that
//!   selects on an indexed field (`metadata.name`, `spec.nodeName`) has a bounded queue instead and wakes only for its
//!   value. Readers of the log see a revision completely or not at all.

pub mod cache;
mod deaths;
pub mod embedded;
mod error;
pub mod etcd;
mod failpoint;
pub mod keys;
pub mod migrate;
mod probe;
mod progress;
mod update;

use std::{fmt, future::Future, pin::Pin, time::Duration};

use bytes::Bytes;
use kevel_api::status::{StorageError, StorageErrorCode};

pub use error::{Error, Result};
pub use kevel_pki::private;
pub use probe::Probe;
pub use progress::{MaintenanceProgress, Report, UNREPORTED};
pub use update::{Change, MAX_CONFLICTS, UpdateError, Updated, guaranteed_update};

/// A point in the history of a store: the number of the write transaction that produced it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// Revision of a store without any write.
    pub const INITIAL: Revision = Revision(1);

    /// The revision that the next write transaction produces.
    pub fn next(self) -> Revision {
        Revision(self.0.saturating_add(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A key with the value it had at one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The whole key, prefix included.
    pub key: Bytes,
    /// The bytes as they were written.
    pub value: Bytes,
    /// Revision that created the key, since its last deletion.
    pub create_revision: Revision,
    /// The revision that wrote this value.
    pub mod_revision: Revision,
}

/// One change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The key that changed.
    pub key: Bytes,
    /// The revision of the change.
    pub revision: Revision,
    /// Entry of the key after the change; `None` when the key was deleted.
    pub current: Option<Entry>,
    /// Entry of the key before the change; `None` when the key was created.
    pub previous: Option<Entry>,
    /// Reason that the value of `current` cannot be read. A watch goes on past such a value: it must not keep the
    /// changes of other keys from the watcher.
    pub unreadable: Option<Unreadable>,
}

/// Reason that a value cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// Permanent: the value is not what was written, or its encryption key is gone.
    Damaged(String),
    /// Temporary: the KMS plug-in that holds the encryption key does not answer. Read the value again later.
    Unavailable(String),
}

/// The next step of a [`Watch`]. Never splits a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchResponse {
    /// Changes in order of revision; none when this only reports progress.
    pub events: Vec<Event>,
    /// With this response the watch has delivered everything up to and including this revision.
    pub revision: Revision,
}

/// Result of [`Engine::get`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetResponse {
    /// The entry, if the key existed.
    pub entry: Option<Entry>,
    /// The revision of the store that answered.
    pub revision: Revision,
}

/// Options of [`Engine::range`]: revision and page.
#[derive(Debug, Default, Clone)]
pub struct RangeOptions {
    /// Read the past as it was at this revision; the present when `None`.
    pub revision: Option<Revision>,
    /// Return at most this many entries; 0 means all.
    pub limit: usize,
    /// Return only keys after this one: the last key of the page before.
    pub after: Option<Bytes>,
    /// Count the entries that remain after a limited page.
    pub count: bool,
}

/// A page of entries in order of key, as they were at one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeResponse {
    /// The entries of this page.
    pub entries: Vec<Entry>,
    /// Whether entries follow this page.
    pub more: bool,
    /// Keys of this page whose values cannot be read.
    pub damaged: Vec<Damaged>,
    /// Number of entries after this page; always `Some` if [`RangeOptions::count`] is set.
    pub remaining: Option<u64>,
    /// The revision that was read: pass it with the next page's request.
    pub revision: Revision,
}

/// A key whose value is not what was written, cannot be decoded or cannot be decrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// The whole key; empty if the key is unknown too.
    pub key: Bytes,
    /// The revision that wrote the value.
    pub revision: Revision,
    /// Description of the damage.
    pub why: String,
    /// Whether the value is encrypted and no configured encryption key decrypts it.
    pub sealed: bool,
}

impl fmt::Display for Damaged {
    /// Formats the error with the reference's message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sealed {
            return f.write_str(&self.why);
        }
        let error = StorageError {
            code: StorageErrorCode::CorruptObj,
            key: String::from_utf8_lossy(&self.key).into_owned(),
            resource_version: 0,
            message: Some(self.why.clone()),
        };
        error.fmt(f)
    }
}

/// A boxed future, so that an engine can be used as `Arc<dyn Engine>`.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Storage engine: etcd's operations as Kubernetes uses them (upstream: the etcd3 client behind `storage.Interface`).
///
/// A write is durable before it is acknowledged, and visible to every read that starts afterwards.
/// A write whose future is dropped, or that fails with [`Error::Unavailable`], may or may not have
/// happened.
pub trait Engine: Send + Sync + 'static {
    /// Reads one key, at the present or at a past revision. Fails with [`Error::Damaged`] where its
    /// value cannot be read.
    fn get<'a>(
        &'a self,
        key: &'a [u8],
        revision: Option<Revision>,
    ) -> Pending<'a, Result<GetResponse>>;

    /// Reads the keys that begin with `prefix`. Values that cannot be read are in [`RangeResponse::damaged`]; the other
    /// entries are returned.
    fn range<'a>(
        &'a self,
        prefix: &'a [u8],
        options: RangeOptions,
    ) -> Pending<'a, Result<RangeResponse>>;

    /// Counts the keys that begin with `prefix`, at the present.
    fn count<'a>(&'a self, prefix: &'a [u8]) -> Pending<'a, Result<u64>>;

    /// Writes a key that does not exist, or fails with [`Error::Exists`]. With `ttl` the engine deletes the key once
    /// that time has passed, not earlier.
    fn create<'a>(
        &'a self,
        key: &'a [u8],
        value: Bytes,
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<Revision>>;

    /// Replaces a value written at `expected`, or fails with [`Error::Conflict`] or [`Error::NotFound`]. Replaces the
    /// time to live too: without `ttl` the key does not expire.
    fn update<'a>(
        &'a self,
        key: &'a [u8],
        value: Bytes,
        expected: Revision,
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<Revision>>;

    /// Whether the stored value of a key would be written in another form today (encrypted with another key): then an
    /// update that does not change the object is written nevertheless. The engine looks at the stored value, because a
    /// value that was read earlier may have become stale since.
    fn is_stale<'a>(&'a self, _key: &'a [u8]) -> Pending<'a, Result<bool>> {
        Box::pin(std::future::ready(Ok(false)))
    }

    /// Deletes a value written at `expected`, or fails as [`Engine::update`] does.
    fn delete<'a>(&'a self, key: &'a [u8], expected: Revision) -> Pending<'a, Result<Revision>>;

    /// Watches the keys that begin with `prefix`: every change after revision `after`, once, in order. Fails with
    /// [`Error::Compacted`], here or in the stream, when `after` has been compacted. A revision in the future is waited
    /// for. Progress up to `after` itself is not reported: a watch starts out having come that far.
    fn watch<'a>(&'a self, prefix: &'a [u8], after: Revision) -> Pending<'a, Result<Watch>>;

    /// Revision of the last write acknowledged before this call. Never less than a revision that a read or a watch has
    /// returned before, unless the store was replaced by an older one, as by the restore of a backup.
    fn current_revision(&self) -> Pending<'_, Result<Revision>>;

    /// Whether watches report progress on request (etcd: `WatchProgressRequest`). An etcd that is too old for it is
    /// recognised only once a watch has reached it; consistent reads then go to the engine instead of waiting for the
    /// watch cache.
    fn reports_progress(&self) -> bool {
        true
    }

    /// The newest revision known to be compacted: it can still be read, older ones cannot.
    /// [`Revision::default`] (0) when nothing was compacted.
    fn compacted_revision(&self) -> Revision;

    /// Removes superseded and deleted values up to `revision` from the history.
    fn compact(&self, revision: Revision) -> Pending<'_, Result<()>>;

    /// Whether writes can be expected to succeed; the error gives the reason if not. The check goes to the disk or the
    /// cluster and takes as long as they do: [`Probe`] has a deadline.
    fn health(&self) -> Pending<'_, Result<()>>;

    /// Stops background work and ends watches. Acknowledged writes need no close to be safe.
    fn close(&self) -> Pending<'_, ()>;
}

/// A running watch. Dropping it ends it.
pub struct Watch(Box<dyn WatchSource>);

impl Watch {
    /// Wraps the watch of an engine.
    pub fn new(source: impl WatchSource + 'static) -> Watch {
        Watch(Box::new(source))
    }

    /// Waits for the next step. After an error the watch is over. The future may be dropped at any
    /// await point without losing an event.
    pub async fn next(&mut self) -> Result<WatchResponse> {
        self.0.next().await
    }

    /// Requests a response with the current revision even if nothing changes under the prefix. A hint: repeat it when
    /// no progress comes.
    pub fn request_progress(&mut self) {
        self.0.request_progress();
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

/// The engine's side of a [`Watch`].
pub trait WatchSource: Send {
    /// See [`Watch::next`].
    fn next(&mut self) -> Pending<'_, Result<WatchResponse>>;
    /// See [`Watch::request_progress`].
    fn request_progress(&mut self);
}

/// The first key after all keys that begin with `prefix`; `None` when there is no such key.
pub(crate) fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut end = prefix.get(..=last)?.to_vec();
    if let Some(byte) = end.last_mut() {
        *byte += 1;
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_end_is_the_first_key_outside() {
        for (prefix, end) in [
            (&b"/registry/pods/"[..], Some(&b"/registry/pods0"[..])),
            (b"a\xff", Some(b"b")),
            (b"\xff\xff", None),
            (b"", None),
        ] {
            assert_eq!(prefix_end(prefix).as_deref(), end, "{prefix:?}");
        }
    }
}
