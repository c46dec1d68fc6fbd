//! The embedded engine: a store in a directory or in memory, without a server.
//!
//! Writes go to one thread, which commits all that wait as one transaction with one sync and then
//! acknowledges them. Reads run beside it on connections of their own. Watches are fed by the writer
//! and fall back to the history on disk, so that no watcher grows memory or holds up another.

mod batch;
mod check;
mod checkpoint;
mod clock;
mod contents;
mod database;
mod directory;
mod index;
mod maintenance;
mod metrics;
mod new_store;
mod queue;
mod read;
mod record;
#[cfg(test)]
mod tests;
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
use kevel_clock::Clock;
use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};

pub use check::{CheckReport, Judge, check, check_values, drop_damaged};
pub use maintenance::{REVISIONS_SKIPPED, backup_directory, defragment, restore};
pub use metrics::{BATCH_WRITES, COMMIT_SECONDS, StoreMetrics};
pub(crate) use {directory::is_store, new_store::NewStore};

use self::{
    checkpoint::Checkpoints,
    clock::StoreClock,
    database::{Database, Meta, READERS, lock, sqlite},
    directory::DATABASE_FILE,
    index::Recent,
    queue::{Operation, Queue, Request, Write},
    read::{Reader, each_record},
    watch::{EmbeddedWatch, Hub},
    writer::Writer,
};
use crate::{
    Engine, Error, GetResponse, Pending, RangeOptions, RangeResponse, Result, Revision, Watch,
    deaths::Deaths,
};

/// Memory of writes that wait for the writer, in KiB.
const WAITING_KIB: u32 = 64 * 1024;

/// Options of an embedded store.
#[derive(Debug, Clone)]
pub struct Options {
    /// Compaction interval; compacts to the revision that was current one interval before. `None`: never.
    pub compaction_interval: Option<Duration>,
    /// Maximum size of key and value together, in bytes.
    pub max_entry_bytes: usize,
    /// Clock by which keys expire.
    pub clock: Clock,
    /// Durability of acknowledged writes.
    pub durability: Durability,
    /// Metrics.
    pub metrics: StoreMetrics,
}

/// Event that acknowledged writes survive.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Power loss: every write is synced before it is acknowledged.
    #[default]
    Disk,
    /// Only the end of the process: nothing is synced. For data of tests.
    Process,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            compaction_interval: Some(Duration::from_secs(5 * 60)),
            max_entry_bytes: 4 << 20,
            clock: Clock::system(),
            durability: Durability::Disk,
            metrics: StoreMetrics::default(),
        }
    }
}

/// A store in a directory or in memory.
pub struct Embedded {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Embedded {
    /// Opens the store in `directory`, or creates one.
    ///
    /// Fails with [`Error::Locked`] when another process has it open, and with [`Error::Corrupt`] when acknowledged
    /// writes are missing.
    pub fn open(directory: &Path, options: Options) -> Result<Embedded> {
        let opened = Database::open(directory, options.durability)
            .and_then(|data| Embedded::start(data, options));
        opened.map_err(|error| refusal(directory, error))
    }

    /// Whether there is a store in `directory`.
    pub fn exists(directory: &Path) -> bool {
        directory::is_store(directory)
    }

    /// Fails if another process has the store in `directory` open.
    pub fn ensure_free(directory: &Path) -> Result<()> {
        directory::Directory::ensure_free(directory)
    }

    /// A new, empty store that is gone when it is dropped.
    pub fn memory(options: Options) -> Result<Embedded> {
        Embedded::start(Database::memory()?, options)
    }

    /// Writes a copy of the present store to the new file `target`; writes go on meanwhile.
    pub fn backup(&self, target: &Path) -> Result<Revision> {
        maintenance::backup(&self.shared.database, target)
    }

    fn start(database: Database, options: Options) -> Result<Embedded> {
        let (recent, compacted) = recover(&database)?;
        let noted = database.read(|connection| Meta::Clock.read(connection))?;
        let shared = Arc::new(Shared {
            current: AtomicU64::new(recent.last),
            compacted: AtomicU64::new(compacted),
            hub: Hub::new(recent.last),
            recent: RwLock::new(recent),
            database,
            clock: StoreClock::begin(&options.clock, noted),
            options,
            queue: Queue::default(),
            checkpoints: Checkpoints::default(),
            health: Mutex::default(),
            deaths: Deaths::default(),
            write_budget: Arc::new(Semaphore::new(WAITING_KIB as usize)),
            readers: Semaphore::new(READERS),
        });
        let embedded = Embedded { shared: shared.clone(), threads: Mutex::default() };
        let writer = Writer::new(shared.clone())?;
        embedded.spawn("store-writer", {
            let shared = shared.clone();
            move || {
                if !shared.deaths.run("the store's writer", || writer.run()) {
                    shared.queue.abandon();
                    shared.hub.close();
                }
            }
        })?;
        if shared.database.directory().is_some() {
            embedded.spawn("store-checkpoint", move || {
                shared.deaths.run("the store's checkpointer", || {
                    // Without checkpoints the log grows, but the store works.
                    if let Err(error) = shared.checkpoints.run(&shared.database) {
                        tracing::error!(%error, "the store's log cannot be carried over");
                    }
                });
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
            return Err(Error::too_large());
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
        kevel_trace::event("TransformToStorage succeeded");
        Box::pin(self.write(key, Operation::Create { value, ttl }))
    }

    fn update<'a>(
        &'a self,
        key: &'a [u8],
        value: Bytes,
        expected: Revision,
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<Revision>> {
        kevel_trace::event("TransformToStorage succeeded");
        kevel_trace::event("Transaction prepared");
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
        Box::pin(async {
            self.shared.deaths.report()?;
            let (reply, answer) = oneshot::channel();
            self.shared.queue.push(Request::Probe { reply })?;
            answer.await.unwrap_or_else(|_| Err(Error::closed()))
        })
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

/// State shared by the engine, its threads and its watches.
struct Shared {
    database: Database,
    options: Options,
    clock: StoreClock,
    recent: RwLock<Recent>,
    hub: Hub,
    queue: Queue,
    checkpoints: Checkpoints,
    current: AtomicU64,
    compacted: AtomicU64,
    /// Error of the last write, if it failed.
    health: Mutex<Option<Error>>,
    /// Threads that have ended unexpectedly.
    deaths: Deaths,
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

    fn health(&self) -> Option<Error> {
        lock(&self.health).clone()
    }

    fn set_health(&self, error: Option<Error>) {
        *lock(&self.health) = error;
    }

    fn reader(&self) -> Reader<'_> {
        Reader { database: &self.database, recent: &self.recent }
    }

    /// Runs a read on the blocking pool, since it may wait for the disk.
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

/// Adds to the error of a damaged store its path and the possible remedies.
fn refusal(directory: &Path, error: Error) -> Error {
    let (folder, file) = (directory.display(), directory.join(DATABASE_FILE));
    let file = file.display();
    match error {
        Error::Corrupt(why) => Error::Corrupt(format!(
            "{file}: {why}. `kube-apiserver store check {folder}` tells what else is wrong, `kube-apiserver store check \
             --drop {folder}` drops it, and `kube-apiserver store restore BACKUP NEW-FOLDER` makes a store out of a \
             backup",
        )),
        Error::Unavailable(why) => Error::Unavailable(format!("{file}: {why}")),
        error => error,
    }
}

/// Recovers the state of the store: the versions that the index lacks, and the compacted revision.
fn recover(database: &Database) -> Result<(Recent, u64)> {
    database.read(|connection| {
        // A damaged record that is not indexed is fatal: its key is unknown.
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

/// The store's revision and the versions that the index lacks.
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
