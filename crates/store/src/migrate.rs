//! Migration of all keys from an embedded store into etcd, or from etcd into an embedded store.
//!
//! Copied: every key below the prefix with its value as it is stored (encrypted values stay encrypted: the new server
//! needs the same encryption configuration), and the rest of its time to live. Either server reads either form of
//! values.
//!
//! Not copied: revisions and history. Every key is written under a new revision that is above all revisions of the old
//! store, and the history before it is compacted. So no client takes a `resourceVersion` of the old store for one of
//! the new: a watch or list at an old revision gets 410 Gone and starts over, a write gets 409 Conflict and is retried
//! on a fresh read.
//!
//! The target must be empty. The target of an interrupted run is recognised: servers refuse to open it, and the next
//! run clears it and starts over. Memory is bounded by one page.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;

use crate::embedded::{self, Embedded, NewStore};
use crate::progress::{MaintenanceProgress, Report};
use crate::{Engine as _, Error, Result, Revision, etcd, keys};

/// Bytes after which a page is full. A value that is larger is a page by itself.
pub(crate) const PAGE_BYTES: usize = 4 << 20;
/// Keys after which a page is full.
pub(crate) const PAGE_KEYS: usize = 1024;

/// A key that is copied from one store to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) key: Bytes,
    pub(crate) value: Bytes,
    /// Remaining time to live; `None`: the key does not expire.
    pub(crate) ttl: Option<Duration>,
}

/// Result of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// Number of copied keys.
    pub keys: u64,
    /// Revision of the old store.
    pub from: Revision,
    /// Revision of the new store; greater than `from`.
    pub to: Revision,
}

/// Copies the store in `directory`, which no server has open, into an etcd that is empty below its prefix.
pub async fn export(
    directory: &Path,
    target: etcd::Options,
    report: Report<'_>,
) -> Result<Migrated> {
    if !embedded::is_store(directory) {
        return Err(Error::Invalid(format!("there is no store in {directory:?}")));
    }
    let options = embedded::Options { compaction_interval: None, ..Default::default() };
    let source = Embedded::open(directory, options)?;
    let copied = copy_out(&source, &target, report).await;
    source.close().await;
    copied
}

async fn copy_out(
    source: &Embedded,
    target: &etcd::Options,
    report: Report<'_>,
) -> Result<Migrated> {
    let root = keys::root(&target.prefix);
    let (all, below) = (source.count(b"").await?, source.count(root.as_bytes()).await?);
    if all != below {
        let others = all - below;
        return Err(Error::Invalid(format!(
            "{others} of the store's {all} keys do not begin with {root}: is --etcd-prefix what the server had?"
        )));
    }
    let from = source.current_revision().await?;
    let mut into = etcd::Import::begin(target, from, report).await?;
    let (mut keys, mut after) = (0, None);
    loop {
        let page = source.page(from, after).await.map_err(|error| match error {
            Error::Damaged(damaged) => Error::Corrupt(format!(
                "{damaged}; `kube-apiserver store check` tells what else is wrong, and drops it with --drop"
            )),
            error => error,
        })?;
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        keys += page.len() as u64;
        into.put(page).await?;
        report(copied(keys, all));
    }
    Ok(Migrated { keys, from, to: into.finish().await? })
}

/// Makes a store in `directory`, which is empty or does not exist, of the keys that an etcd holds below its prefix.
pub async fn import(
    source: etcd::Options,
    directory: &Path,
    report: Report<'_>,
) -> Result<Migrated> {
    let mut source = etcd::Contents::open(&source).await?;
    let from = source.revision();
    let mut into = NewStore::begin(directory, from)?;
    report(MaintenanceProgress::Note(format!("reading revision {from} of etcd")));
    let mut keys = 0;
    while let Some(page) = source.page().await? {
        keys += page.len() as u64;
        into.put(&page)?;
        report(copied(keys, source.count()));
    }
    if source.is_written_to().await? {
        return Err(Error::Invalid(
            "etcd was written to meanwhile: stop its API servers, and run this again".into(),
        ));
    }
    Ok(Migrated { keys, from, to: into.finish()? })
}

fn copied(done: u64, total: u64) -> MaintenanceProgress {
    MaintenanceProgress::Counted { verb: "copied", units: "keys", done, total }
}
