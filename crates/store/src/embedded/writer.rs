//! The writer thread: commits all waiting writes together, then informs readers, watches and writers.
//!
//! The chores (folding the index, sweeping compacted records, deleting expired keys) are done in small portions with
//! each batch, and alone when the writer is idle.

use std::{
    sync::{Arc, PoisonError, Weak},
    task::{Wake, Waker},
    time::{Duration, Instant},
};

use bytes::Bytes;
use kevel_clock::{Stopwatch, monotonic_now};
use rusqlite::Connection;

use super::{
    Shared,
    batch::Batch,
    database::{Meta, require_transaction, sqlite},
    index::{self, Version},
    queue::{Request, Write},
    read::each_record,
};
use crate::{Error, Event, Result, Revision, failpoint};

/// Versions folded and records swept with each batch, on top of twice its size: enough to keep ahead of any load.
const PORTION: usize = 64;
/// Portion when no write waits.
const IDLE_PORTION: usize = 1024;
/// Time without writes after which the index is brought up to date.
const IDLE: Duration = Duration::from_secs(1);
/// Interval at which a store that could not write tries again by itself.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of expired keys deleted at once.
const EXPIRY_PORTION: usize = 256;

/// State of the writer.
pub(super) struct Writer {
    shared: Arc<Shared>,
    /// The last committed revision.
    last: u64,
    /// Revision up to which `keys` has the history's records.
    indexed: u64,
    /// Revision up to which compacted records have been removed.
    swept: u64,
    fold: Option<Fold>,
    /// Expiry of the next key, by the store's clock.
    next_expiry: u64,
    /// Time of the next compaction, and the last revision one interval before it.
    next_compaction: Option<(Instant, u64)>,
    next_probe: Option<Instant>,
    alarm: Waker,
}

/// Ends the writer's wait when a test moves the clock to the next expiry.
struct ExpiryAlarm(Weak<Shared>);

impl Wake for ExpiryAlarm {
    fn wake(self: Arc<Self>) {
        if let Some(shared) = self.0.upgrade() {
            shared.queue.wake();
        }
    }
}

/// A generation of the index that is being folded into the table.
struct Fold {
    versions: Vec<(Bytes, Version)>,
    done: usize,
    /// The last revision of the generation.
    until: u64,
}

impl Writer {
    /// Restores the writer's state from the database.
    pub(super) fn new(shared: Arc<Shared>) -> Result<Writer> {
        let (last, interval) = (shared.current(), shared.options.compaction_interval);
        let connection = shared.database.writer();
        let (indexed, swept) = (Meta::Indexed.read(&connection)?, Meta::Swept.read(&connection)?);
        let next_expiry = earliest_expiry(&connection).map_err(sqlite)?;
        drop(connection);
        let next_compaction = interval.map(|interval| (monotonic_now() + interval, 0));
        let alarm = Waker::from(Arc::new(ExpiryAlarm(Arc::downgrade(&shared))));
        let (fold, next_probe) = (None, None);
        Ok(Writer {
            shared,
            last,
            indexed,
            swept,
            fold,
            next_expiry,
            next_compaction,
            next_probe,
            alarm,
        })
    }

    /// Runs until the queue is closed.
    pub(super) fn run(mut self) {
        while let Some(requests) = self.shared.queue.take(self.patience()) {
            let mut writes = Vec::with_capacity(requests.len());
            let mut probes = Vec::new();
            for request in requests {
                match request {
                    Request::Write(write) => writes.push(write),
                    Request::Compact { revision, reply } => {
                        let _ = reply.send(self.compact(revision));
                    }
                    Request::Probe { reply } => probes.push(reply),
                    #[cfg(test)]
                    Request::Panic => panic!("told to"),
                }
            }
            let idle = writes.is_empty();
            if !idle {
                self.write(writes);
            }
            if !probes.is_empty() {
                let outcome = self.probe();
                for reply in probes {
                    let _ = reply.send(outcome.clone());
                }
            }
            self.do_chores(idle);
            let checkpoints = &self.shared.options.metrics.checkpoints;
            self.shared.checkpoints.after_batch(&self.shared.database, checkpoints);
        }
        // Folded versions need not be read when the store is opened.
        while self.begin_fold(0) && self.commit_chores(IDLE_PORTION).is_ok() {}
    }

    /// Maximum wait for requests before a chore is due.
    fn patience(&self) -> Duration {
        let now = monotonic_now();
        let until = |at: Instant| at.saturating_duration_since(now);
        if let Some(at) = self.next_probe {
            // While the store cannot write, chores would fail as well.
            return until(at);
        }
        if self.sweep_limit() > self.swept {
            return Duration::ZERO;
        }
        if self.next_expiry != u64::MAX {
            self.shared.clock.wake_at(self.next_expiry, &self.alarm);
        }
        let until_expiry = self.next_expiry.saturating_sub(self.shared.clock.now());
        [
            self.next_compaction.map(|(at, _)| until(at)),
            (self.next_expiry != u64::MAX).then(|| Duration::from_millis(until_expiry)),
        ]
        .into_iter()
        .flatten()
        .fold(IDLE, Duration::min)
    }

    fn write(&mut self, writes: Vec<Write>) {
        let portion = PORTION + 2 * writes.len();
        self.shared.options.metrics.batch_writes.observe(writes.len() as f64);
        self.begin_fold(usize::MAX);
        let outcome = self.commit(portion, |batch| {
            writes.iter().map(|write| batch.apply(&write.key, &write.operation)).collect()
        });
        failpoint::reach(failpoint::BEFORE_ANSWER);
        match outcome {
            Ok(results) => {
                for (write, result) in writes.into_iter().zip::<Vec<_>>(results) {
                    let _ = write.reply.send(result);
                }
            }
            Err(error) => {
                for write in writes {
                    let _ = write.reply.send(Err(error.clone()));
                }
            }
        }
    }

    /// Whether writes work: the result of the last write, a test that the database can be locked for writing, and a
    /// write to the disk. Takes as long as they do.
    fn probe(&self) -> Result<()> {
        if let Some(error) = self.shared.health() {
            return Err(error);
        }
        let connection = self.shared.database.writer();
        connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK").map_err(sqlite)?;
        drop(connection);
        match self.shared.database.directory() {
            Some(directory) => directory.probe(self.last),
            None => Ok(()),
        }
    }

    fn do_chores(&mut self, idle: bool) {
        if let Some(at) = self.next_probe
            && at <= monotonic_now()
        {
            self.next_probe = Some(monotonic_now() + PROBE_INTERVAL);
            let connection = self.shared.database.writer();
            let probed = Meta::Probe.write(&connection, self.last).map_err(sqlite);
            drop(connection);
            self.report_health(&probed);
        }
        if self.next_probe.is_some() {
            return;
        }
        let now = self.shared.clock.now();
        if self.next_expiry <= now {
            // An error is in the health report; keys that could not be deleted are due again later.
            let _ = self.commit(0, |batch| batch.expire(now, EXPIRY_PORTION));
        }
        if let (Some((at, mark)), Some(interval)) =
            (self.next_compaction, self.shared.options.compaction_interval)
            && at <= monotonic_now()
        {
            self.next_compaction = Some((monotonic_now() + interval, self.last));
            if mark > self.shared.compacted().0 {
                let _ = self.compact(Revision(mark));
            }
        }
        if idle && (self.begin_fold(0) || self.sweep_limit() > self.swept) {
            let _ = self.commit_chores(IDLE_PORTION);
        }
    }

    /// Makes `revision` the oldest that can be read. Sweeping removes the records before it later.
    fn compact(&mut self, revision: Revision) -> Result<()> {
        let compacted = self.shared.compacted();
        if revision <= compacted {
            return Err(Error::Compacted { requested: revision, compacted });
        }
        if revision.0 > self.last {
            return Err(Error::FutureRevision {
                requested: revision,
                current: Revision(self.last),
            });
        }
        let connection = self.shared.database.writer();
        let written = Meta::Compacted.write(&connection, revision.0).map_err(sqlite);
        drop(connection);
        self.report_health(&written);
        written?;
        failpoint::reach(failpoint::COMPACTING);
        self.shared.set_compacted(revision);
        self.shared.options.metrics.compactions.increment();
        Ok(())
    }

    fn commit_chores(&mut self, portion: usize) -> Result<()> {
        self.commit(portion, |_| Ok(()))
    }

    /// Runs `work` and a portion of chores as one transaction. If it commits, publishes the result to readers, then to
    /// watches. The caller answers the writers.
    fn commit<T>(
        &mut self,
        portion: usize,
        work: impl FnOnce(&mut Batch<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let committed = self.transact(portion, work).map_err(sqlite);
        self.report_health(&committed);
        let Committed { value, records, events, progress, next_expiry } = committed?;
        failpoint::reach(failpoint::AFTER_COMMIT);
        self.next_expiry = next_expiry;
        self.swept = progress.swept;
        if let Some(last) = records.last() {
            self.last = last.revision;
            if let Some(directory) = self.shared.database.directory() {
                directory.note_head(self.last);
            }
        }
        let mut recent = self.shared.recent.write().unwrap_or_else(PoisonError::into_inner);
        for record in &records {
            recent.insert(record);
        }
        if let Some(fold) = &mut self.fold {
            fold.done = progress.folded;
            if fold.done == fold.versions.len() {
                self.indexed = fold.until;
                self.fold = None;
                recent.forget();
            }
        }
        // Before readers can see the records: no response is ahead of the current revision.
        self.shared.set_current(self.last);
        drop(recent);
        if !records.is_empty() {
            failpoint::reach(failpoint::BEFORE_PUBLISH);
            self.shared.hub.publish(&events, self.last);
        }
        Ok(value)
    }

    fn transact<T>(
        &self,
        portion: usize,
        work: impl FnOnce(&mut Batch<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Committed<T>> {
        let metrics = &self.shared.options.metrics;
        let started = Stopwatch::start();
        let connection = self.shared.database.writer();
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let result = self.work(&connection, portion, work).and_then(|committed| {
            failpoint::reach(failpoint::BEFORE_COMMIT);
            connection.execute_batch("COMMIT")?;
            Ok(committed)
        });
        match &result {
            Ok(_) => metrics.commit_seconds.observe_seconds(started.elapsed()),
            Err(_) => metrics.commit_errors.increment(),
        }
        if result.is_err() && !connection.is_autocommit() {
            connection.execute_batch("ROLLBACK")?;
        }
        result
    }

    fn work<T>(
        &self,
        connection: &Connection,
        portion: usize,
        work: impl FnOnce(&mut Batch<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Committed<T>> {
        let mut batch = Batch::new(connection, &self.shared.recent, &self.shared.clock, self.last);
        let value = work(&mut batch)?;
        let next_expiry = match batch.earliest_expiry() {
            Some(None) => earliest_expiry(connection)?,
            Some(Some(earliest)) => self.next_expiry.min(earliest),
            None => self.next_expiry,
        };
        let (records, events) = batch.finish()?;
        let folded = self.fold_portion(connection, portion)?;
        let swept = self.sweep_portion(connection, portion)?;
        Ok(Committed { value, records, events, progress: Progress { folded, swept }, next_expiry })
    }

    /// Begins a fold if there is a full generation, or more than `enough` versions. Returns whether a fold is under
    /// way.
    fn begin_fold(&mut self, enough: usize) -> bool {
        if self.fold.is_some() {
            return true;
        }
        let mut recent = self.shared.recent.write().unwrap_or_else(PoisonError::into_inner);
        if !recent.is_generation() && recent.gathered() <= enough {
            return false;
        }
        let until = recent.last;
        let generation = recent.freeze();
        let versions = generation
            .iter()
            .map(|((key, revision), created)| {
                (key.clone(), Version { revision: *revision, created: *created })
            })
            .collect();
        self.fold = Some(Fold { versions, done: 0, until });
        true
    }

    fn fold_portion(&self, connection: &Connection, portion: usize) -> rusqlite::Result<usize> {
        let Some(fold) = &self.fold else { return Ok(0) };
        let end = fold.versions.len().min(fold.done + portion);
        for (key, version) in fold.versions.get(fold.done..end).unwrap_or_default() {
            index::fold(connection, key, *version)?;
        }
        if end == fold.versions.len() {
            Meta::Indexed.write(connection, fold.until)?;
        }
        Ok(end)
    }

    /// Revision up to which superseded records can be removed. The newest record always stays: it holds the store's
    /// revision.
    fn sweep_limit(&self) -> u64 {
        self.shared.compacted().0.min(self.indexed).min(self.last.saturating_sub(1))
    }

    /// Removes the records that the next records superseded. A record names its predecessor, so this reads each record
    /// once without a search.
    fn sweep_portion(&self, connection: &Connection, portion: usize) -> rusqlite::Result<u64> {
        let until = self.sweep_limit().min(self.swept + portion as u64);
        if until <= self.swept {
            return Ok(self.swept);
        }
        let mut doomed = Vec::new();
        let read = each_record(connection, self.swept, until, |record| {
            if record.previous != 0 {
                doomed.push((record.key.clone(), record.previous));
            }
            if record.value.is_none() {
                doomed.push((record.key, record.revision));
            }
            Ok(std::ops::ControlFlow::Continue(()))
        });
        if let Err(error) = read {
            require_transaction(connection, &error)?;
            // Nothing is removed because of damaged records; `check` and readers report them.
            doomed.clear();
        }
        let mut delete = connection.prepare_cached("DELETE FROM history WHERE revision = ?1")?;
        for (key, revision) in doomed {
            index::remove(connection, &key, revision)?;
            delete.execute([revision.cast_signed()])?;
        }
        failpoint::reach(failpoint::SWEEPING);
        Meta::Swept.write(connection, until)?;
        Ok(until)
    }

    fn report_health<T>(&mut self, outcome: &Result<T>) {
        let error = outcome.as_ref().err().cloned();
        self.next_probe = error.as_ref().map(|_| monotonic_now() + PROBE_INTERVAL);
        self.shared.set_health(error);
    }
}

struct Committed<T> {
    value: T,
    records: Vec<super::record::Record>,
    events: Vec<Event>,
    progress: Progress,
    next_expiry: u64,
}

struct Progress {
    folded: usize,
    swept: u64,
}

fn earliest_expiry(connection: &Connection) -> rusqlite::Result<u64> {
    let earliest: Option<i64> = connection
        .prepare_cached("SELECT min(expires) FROM expiring")?
        .query_row([], |row| row.get(0))?;
    Ok(earliest.map_or(u64::MAX, |millis| u64::try_from(millis).unwrap_or(0)))
}
