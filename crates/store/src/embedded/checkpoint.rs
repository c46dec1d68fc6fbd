//! Checkpoints: copies the write-ahead log into the database file, beside the writer.
//!
//! A thread copies and syncs the bulk while writes go on. The log can only be reset once nothing is left in it, so the
//! writer then copies the little that was added meanwhile.

use std::sync::{
    Condvar, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use kevel_component::metrics::Counter;
use rusqlite::{Connection, wal::CheckpointMode};

use super::database::{Database, checkpointer, lock};
use crate::{Result, failpoint};

/// Log pages (16 KiB each) at which a checkpoint begins.
const LOG_PAGES: usize = 1024;

/// State shared by the writer and the checkpoint thread.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    stage: Mutex<Stage>,
    changed: Condvar,
    /// Log pages at which the next checkpoint begins: more than usual while a reader keeps the log from being reset,
    /// since trying again at once would change nothing.
    begin_at: AtomicUsize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    #[default]
    Idle,
    /// The thread copies the bulk.
    Bulk,
    /// The writer copies the rest.
    Rest,
    Closed,
}

impl Checkpoints {
    /// The writer's part, between two batches.
    pub(super) fn after_batch(&self, database: &Database, checkpoints: &Counter) {
        if database.directory().is_none() {
            return;
        }
        let pages = database.log_pages();
        let mut stage = lock(&self.stage);
        match *stage {
            Stage::Idle if pages < LOG_PAGES => self.begin_at.store(0, Ordering::Relaxed),
            Stage::Idle if pages >= self.begin_at.load(Ordering::Relaxed) => {
                *stage = Stage::Bulk;
                self.changed.notify_one();
            }
            Stage::Rest => {
                checkpoint(&database.writer());
                checkpoints.increment();
                self.begin_at.store(pages + LOG_PAGES, Ordering::Relaxed);
                *stage = Stage::Idle;
            }
            _ => {}
        }
    }

    /// The checkpoint thread's loop, until closed.
    pub(super) fn run(&self, database: &Database) -> Result<()> {
        let Some(directory) = database.directory() else { return Ok(()) };
        let connection = checkpointer(directory)?;
        loop {
            let mut stage = lock(&self.stage);
            while !matches!(*stage, Stage::Bulk | Stage::Closed) {
                stage = self.changed.wait(stage).unwrap_or_else(PoisonError::into_inner);
            }
            if *stage == Stage::Closed {
                return Ok(());
            }
            drop(stage);
            checkpoint(&connection);
            let mut stage = lock(&self.stage);
            if *stage == Stage::Bulk {
                *stage = Stage::Rest;
            }
        }
    }

    pub(super) fn close(&self) {
        *lock(&self.stage) = Stage::Closed;
        self.changed.notify_one();
    }
}

/// Copies the part of the log that no reader still needs. After a failure the log stays as it is, and the next batch
/// tries again.
fn checkpoint(connection: &Connection) {
    failpoint::reach(failpoint::CHECKPOINT);
    let _ = connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::PASSIVE);
}
