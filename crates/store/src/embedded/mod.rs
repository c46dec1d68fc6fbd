//! The embedded engine: a store in a directory or in memory, without a server.
//!
//! Writes go to one thread, which commits all that wait as one transaction with one sync and then
//! acknowledges them. Reads run beside it on connections of their own. Watches are fed by the writer
//! and fall back to the history on disk, so that no watcher grows memory or holds up another.

mod batch;
mod checkpoint;
mod database;
mod index;
mod maintenance;
mod queue;
mod read;
mod record;
mod watch;
mod writer;

use std::{
    fmt,
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use bytes::Bytes;
use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};

pub use maintenance::{CheckReport, backup_directory, check, restore};

use self::{
    checkpoint::Checkpoints,
    database::{Database, Meta, READERS, lock, sqlite},
    index::Recent,
    queue::{Operation, Queue, Request, Write},
    read::{Reader, each_record},
    watch::{EmbeddedWatch, Hub},
    writer::Writer,
};
use crate::{
    Engine, Error, GetResponse, Pending, RangeOptions, RangeResponse, Result, Revision, Watch,
};

/// Memory that writes may take while they wait for the writer, in KiB.
const WAITING_KIB: u32 = 64 * 1024;

/// How an embedded store behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// History is compacted this often, to what was current one interval before; `None` for never.
    pub compaction_interval: Option<Duration>,
    /// The largest key and value together, in bytes.
    pub max_entry_bytes: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { compaction_interval: Some(Duration::from_secs(5 * 60)), max_entry_bytes: 4 << 20 }
    }
}

/// A store in a directory or in memory.
pub struct Embedded {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Embedded {
    /// Opens the store in `directory`, or makes one there.
    ///
    /// Fails with [`Error::Locked`] when another process has it, and with [`Error::Corrupt`] when
    /// acknowledged writes are missing from it.
    pub fn open(directory: &Path, options: Options) -> Result<Embedded> {
        Embedded::start(Database::open(directory)?, options)
    }

    /// A new, empty store that is gone when it is dropped.
    pub fn memory(options: Options) -> Result<Embedded> {
        Embedded::start(Database::memory()?, options)
    }

    /// Writes a copy of the store as it is now to the new file `target`, while it goes on working.
    pub fn backup(&self, target: &Path) -> Result<Revision> {
        maintenance::backup(&self.shared.database, target)
    }

    fn start(database: Database, options: Options) -> Result<Embedded> {
        let (recent, compacted) = recover(&database)?;
        let shared = Arc::new(Shared {
            current: AtomicU64::new(recent.last),
            compacted: AtomicU64::new(compacted),
            hub: Hub::new(recent.last),
            recent: RwLock::new(recent),
            database,
            options,
            queue: Queue::default(),
            checkpoints: Checkpoints::default(),
            health: Mutex::default(),
            write_budget: Arc::new(Semaphore::new(WAITING_KIB as usize)),
            readers: Semaphore::new(READERS),
        });
        let embedded = Embedded { shared: shared.clone(), threads: Mutex::default() };
        let writer = Writer::new(shared.clone())?;
        embedded.spawn("store-writer", move || writer.run())?;
        if shared.database.directory().is_some() {
            embedded.spawn("store-checkpoint", move || {
                // Without checkpoints the log grows, and the store works.
                let _ = shared.checkpoints.run(&shared.database);
            })?;
        }
        Ok(embedded)
    }

    fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let handle = thread::Builder::new()
            .name(name.into())
            .spawn(work)
            .map_err(|e| Error::Unavailable(format!("cannot start thread {name}: {e}")))?;
        lock(&self.threads).push(handle);
        Ok(())
    }

    async fn write(&self, key: &[u8], operation: Operation) -> Result<Revision> {
        let value_len = match &operation {
            Operation::Create { value, .. } | Operation::Update { value, .. } => value.len(),
            Operation::Delete { .. } => 0,
        };
        let (size, limit) = (key.len() + value_len, self.shared.options.max_entry_bytes);
        if size > limit {
            return Err(Error::TooLarge { size, limit });
        }
        let share = u32::try_from(size / 1024 + 1).unwrap_or(WAITING_KIB).min(WAITING_KIB);
        let budget = self.shared.write_budget.clone();
        let permit = budget.acquire_many_owned(share).await.map_err(|_| Error::closed())?;
        let (reply, answer) = oneshot::channel();
        let key = Bytes::copy_from_slice(key);
        self.shared.queue.push(Request::Write(Write { key, operation, reply, _permit: permit }))?;
        answer.await.unwrap_or_else(|_| Err(Error::closed()))
    }
}

impl Engine for Embedded {
    fn get<'a>(
        &'a self,
        key: &'a [u8],
        revision: Option<Revision>,
    ) -> Pending<'a, Result<GetResponse>> {
        let key = Bytes::copy_from_slice(key);
        let shared = self.shared.clone();
        Box::pin(shared.blocking(move |shared| shared.reader().get(&key, revision)))
    }

    fn range<'a>(
        &'a self,
        prefix: &'a [u8],
        options: RangeOptions,
    ) -> Pending<'a, Result<RangeResponse>> {
        let prefix = Bytes::copy_from_slice(prefix);
        let shared = self.shared.clone();
        Box::pin(shared.blocking(move |shared| shared.reader().range(&prefix, &options)))
    }

    fn count<'a>(&'a self, prefix: &'a [u8]) -> Pending<'a, Result<u64>> {
        let prefix = Bytes::copy_from_slice(prefix);
        Box::pin(self.shared.clone().blocking(move |shared| shared.reader().count(&prefix)))
    }

    fn create<'a>(
        &'a self,
        key: &'a [u8],
        value: Bytes,
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<Revision>> {
        Box::pin(self.write(key, Operation::Create { value, ttl }))
    }

    fn update<'a>(
        &'a self,
        key: &'a [u8],
        value: Bytes,
        expected: Revision,
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<Revision>> {
        Box::pin(self.write(key, Operation::Update { value, ttl, expected }))
    }

    fn delete<'a>(&'a self, key: &'a [u8], expected: Revision) -> Pending<'a, Result<Revision>> {
        Box::pin(self.write(key, Operation::Delete { expected }))
    }

    fn watch<'a>(&'a self, prefix: &'a [u8], after: Revision) -> Pending<'a, Result<Watch>> {
        let prefix = Bytes::copy_from_slice(prefix);
        let watch = EmbeddedWatch::start(self.shared.clone(), prefix, after.0);
        Box::pin(async { watch.map(Watch::new) })
    }

    fn current_revision(&self) -> Pending<'_, Result<Revision>> {
        Box::pin(async { Ok(Revision(self.shared.current())) })
    }

    fn compacted_revision(&self) -> Revision {
        self.shared.compacted()
    }

    fn compact(&self, revision: Revision) -> Pending<'_, Result<()>> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            self.shared.queue.push(Request::Compact { revision, reply })?;
            answer.await.unwrap_or_else(|_| Err(Error::closed()))
        })
    }

    fn health(&self) -> Pending<'_, Result<()>> {
        let health = lock(&self.shared.health).clone();
        Box::pin(async { health.map_or(Ok(()), Err) })
    }

    fn close(&self) -> Pending<'_, ()> {
        self.shared.shut_down();
        let threads = std::mem::take(&mut *lock(&self.threads));
        let shared = self.shared.clone();
        Box::pin(async move {
            let joined = tokio::task::spawn_blocking(move || {
                for thread in threads {
                    let _ = thread.join();
                }
                shared.database.close();
            });
            let _ = joined.await;
        })
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.shared.shut_down();
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").field("revision", &self.shared.current()).finish_non_exhaustive()
    }
}

/// What the engine, its threads and its watches share.
struct Shared {
    database: Database,
    options: Options,
    recent: RwLock<Recent>,
    hub: Hub,
    queue: Queue,
    checkpoints: Checkpoints,
    current: AtomicU64,
    compacted: AtomicU64,
    /// Why the last write failed, if it did.
    health: Mutex<Option<Error>>,
    write_budget: Arc<Semaphore>,
    readers: Semaphore,
}

impl Shared {
    fn current(&self) -> u64 {
        self.current.load(Ordering::Acquire)
    }

    fn set_current(&self, revision: u64) {
        self.current.store(revision, Ordering::Release);
    }

    fn compacted(&self) -> Revision {
        Revision(self.compacted.load(Ordering::Acquire))
    }

    fn set_compacted(&self, revision: Revision) {
        self.compacted.store(revision.0, Ordering::Release);
    }

    fn set_health(&self, error: Option<Error>) {
        *lock(&self.health) = error;
    }

    fn reader(&self) -> Reader<'_> {
        Reader { database: &self.database, recent: &self.recent }
    }

    /// Runs a read where it may wait for the disk.
    async fn blocking<T: Send + 'static>(
        self: Arc<Shared>,
        read: impl FnOnce(&Shared) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let _permit = self.readers.acquire().await.map_err(|_| Error::closed())?;
        let shared = self.clone();
        let read = tokio::task::spawn_blocking(move || read(&shared));
        read.await.unwrap_or_else(|e| Err(Error::Unavailable(format!("read failed: {e}"))))
    }

    fn shut_down(&self) {
        self.queue.close();
        self.hub.close();
        self.checkpoints.close();
    }
}

/// Finds out where the store was left: the versions that the index lacks, and the revision that it
/// was compacted to.
fn recover(database: &Database) -> Result<(Recent, u64)> {
    database.read(|connection| {
        let recent = unindexed(connection)?;
        if let Some(directory) = database.directory()
            && directory.noted_head() > recent.last
        {
            return Err(Error::Corrupt(format!(
                "revisions {} to {} were acknowledged and are missing; restore a backup, or remove \
                 {:?} to go on without them",
                recent.last + 1,
                directory.noted_head(),
                directory.head_path(),
            )));
        }
        Ok((recent, Meta::Compacted.read(connection)?))
    })
}

/// The revision of the store and the versions that the index lacks.
fn unindexed(connection: &Connection) -> Result<Recent> {
    let newest: Option<i64> = connection
        .query_row("SELECT max(revision) FROM history", [], |row| row.get(0))
        .map_err(sqlite)?;
    let last = newest.map_or(0, i64::cast_unsigned).max(Revision::INITIAL.0);
    let mut recent = Recent::new(last);
    each_record(connection, Meta::Indexed.read(connection)?, last, |record| {
        recent.insert(&record);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(recent)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_full_disk_fails_writes_and_passes() {
        let directory = tempfile::tempdir().unwrap();
        let store = Embedded::open(directory.path(), Options::default()).unwrap();
        store.create(b"/a", "1".into(), None).await.unwrap();
        let limit = |pages: u32| {
            let writer = store.shared.database.writer();
            writer.pragma_update(None, "max_page_count", pages).unwrap();
        };
        // Never below what is in use: this leaves no room at all.
        limit(1);
        let mut written = 0;
        let error = loop {
            match store.create(format!("/{written}").as_bytes(), vec![0; 9000].into(), None).await {
                Ok(_) => written += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(&error, Error::Unavailable(why) if why.contains("full")), "{error:?}");
        assert_eq!(store.health().await, Err(error));
        assert_eq!(store.count(b"/").await.unwrap(), 1 + written, "reads go on");
        limit(1 << 20);
        let recovered = async { while store.health().await.is_err() {} };
        tokio::time::timeout(PATIENCE, recovered).await.expect("it tries again by itself");
        let revision = store.create(b"/b", "1".into(), None).await.unwrap();
        assert_eq!(revision, Revision(3 + written), "a failed write takes no revision");
        store.close().await;
        check(directory.path()).unwrap();
    }

    #[tokio::test]
    async fn what_was_compacted_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let store = Embedded::open(directory.path(), Options::default()).unwrap();
        let mut last = store.create(b"/kept", "0".into(), None).await.unwrap();
        let gone = store.create(b"/gone", "0".into(), None).await.unwrap();
        store.delete(b"/gone", gone).await.unwrap();
        for turn in 0..100 {
            last = store.update(b"/kept", format!("{turn}").into(), last, None).await.unwrap();
        }
        store.compact(last).await.unwrap();
        let records = || -> i64 {
            let count = |c: &Connection| {
                c.query_row("SELECT count(*) FROM history", [], |row| row.get(0)).map_err(sqlite)
            };
            store.shared.database.read(count).unwrap()
        };
        // The newest record and the one it superseded: the store's revision must not be forgotten.
        let swept = async {
            while records() > 2 {
                tokio::task::yield_now().await
            }
        };
        tokio::time::timeout(PATIENCE, swept).await.expect("sweeping goes on by itself");
        assert_eq!(store.get(b"/kept", None).await.unwrap().entry.unwrap().value, "99");
        store.close().await;
        let report = check(directory.path()).unwrap();
        assert_eq!((report.revision, report.compacted, report.keys), (last, last, 1));
    }

    #[tokio::test]
    async fn what_expires_while_closed_is_deleted_after_opening() {
        let directory = tempfile::tempdir().unwrap();
        let store = Embedded::open(directory.path(), Options::default()).unwrap();
        let ttl = Some(Duration::from_millis(1));
        store.create(b"/immortal", "1".into(), None).await.unwrap();
        store.close().await;
        let store = Embedded::open(directory.path(), Options::default()).unwrap();
        let mut watch = store.watch(b"/mortal", Revision(2)).await.unwrap();
        store.create(b"/mortal", "1".into(), ttl).await.unwrap();
        store.close().await;
        drop(watch);
        let store = Embedded::open(directory.path(), Options::default()).unwrap();
        watch = store.watch(b"/mortal", Revision(3)).await.unwrap();
        let deleted = tokio::time::timeout(PATIENCE, watch.next()).await.unwrap().unwrap();
        assert!(deleted.events[0].current.is_none());
        store.close().await;
    }

    #[tokio::test]
    async fn more_versions_than_a_generation_are_found_again() {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(Embedded::open(directory.path(), Options::default()).unwrap());
        let writers = (0..64u32).map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for turn in 0..200u32 {
                    let key = format!("/{:x}", (turn * 64 + writer).wrapping_mul(0x9e37_79b9));
                    store.create(key.as_bytes(), key.clone().into(), None).await.unwrap();
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
        let expect_all = |list: RangeResponse| {
            assert_eq!(list.entries.len(), 12_800);
            assert!(list.entries.iter().all(|entry| entry.key == entry.value));
            assert!(list.entries.is_sorted_by(|a, b| a.key < b.key));
        };
        expect_all(store.range(b"/", RangeOptions::default()).await.unwrap());
        store.close().await;
        let store = Embedded::open(directory.path(), Options::default()).unwrap();
        expect_all(store.range(b"/", RangeOptions::default()).await.unwrap());
        store.close().await;
        assert_eq!(check(directory.path()).unwrap().keys, 12_800);
    }
}
