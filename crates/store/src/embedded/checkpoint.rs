//! Carries the write-ahead log over into the database file, beside the writer.
//!
//! A thread of its own copies and syncs the bulk while writes go on. The log can only start over
//! once nothing is left in it, so the writer then copies the little that came in meanwhile.

use std::sync::{Condvar, Mutex, PoisonError};

use rusqlite::{Connection, wal::CheckpointMode};

use super::database::{Database, connect, lock};
use crate::Result;

/// Log pages (16 KiB each) at which to begin.
const LOG_PAGES: usize = 1024;

/// The agreement between the writer and the checkpointing thread.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    #[default]
    Idle,
    /// The thread copies the bulk.
    Bulk,
    /// The writer is to copy the rest.
    Rest,
    Closed,
}

impl Checkpoints {
    /// The writer's part, between two batches.
    pub(super) fn after_batch(&self, database: &Database) {
        if database.directory().is_none() {
            return;
        }
        let mut stage = lock(&self.stage);
        match *stage {
            Stage::Idle if database.log_pages() >= LOG_PAGES => {
                *stage = Stage::Bulk;
                self.changed.notify_one();
            }
            Stage::Rest => {
                checkpoint(&database.writer());
                *stage = Stage::Idle;
            }
            _ => {}
        }
    }

    /// The thread's part, until closed.
    pub(super) fn run(&self, database: &Database) -> Result<()> {
        let Some(directory) = database.directory() else { return Ok(()) };
        let connection = connect(&directory.database())?;
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

/// Copies what no reader still needs in the log. A failure leaves the log as it is: it is tried
/// again after the next batch.
fn checkpoint(connection: &Connection) {
    let _ = connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::PASSIVE);
}
