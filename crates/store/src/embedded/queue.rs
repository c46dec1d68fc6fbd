//! What waits for the writer.

use std::{
    mem,
    sync::{Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::database::lock;
use crate::{Error, Result, Revision};

/// How often the writer looks whether more writers are about to join a batch.
const GATHERING_LOOKS: usize = 32;

/// A request to the writer.
#[derive(Debug)]
pub(super) enum Request {
    Write(Write),
    Compact { revision: Revision, reply: oneshot::Sender<Result<()>> },
}

/// A write of one key.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) key: Bytes,
    pub(super) operation: Operation,
    pub(super) reply: oneshot::Sender<Result<Revision>>,
    /// The write's share of the memory that waiting writes may take.
    pub(super) _permit: OwnedSemaphorePermit,
}

/// What to do with a key, and in which case.
#[derive(Debug)]
pub(super) enum Operation {
    Create { value: Bytes, ttl: Option<Duration> },
    Update { value: Bytes, ttl: Option<Duration>, expected: Revision },
    Delete { expected: Revision },
}

/// Requests in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    requests: Vec<Request>,
    closed: bool,
}

impl Queue {
    pub(super) fn push(&self, request: Request) -> Result<()> {
        let mut waiting = lock(&self.waiting);
        if waiting.closed {
            return Err(Error::closed());
        }
        waiting.requests.push(request);
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    /// Refuses requests from now on; those that wait are still carried out.
    pub(super) fn close(&self) {
        lock(&self.waiting).closed = true;
        self.arrived.notify_one();
    }

    /// All that waits, after waiting at most `patience` for something. `None` at the end.
    pub(super) fn take(&self, patience: Duration) -> Option<Vec<Request>> {
        let idle = |waiting: &mut Waiting| waiting.requests.is_empty() && !waiting.closed;
        let waiting = lock(&self.waiting);
        let (waiting, _) = self
            .arrived
            .wait_timeout_while(waiting, patience, idle)
            .unwrap_or_else(PoisonError::into_inner);
        if waiting.requests.is_empty() {
            return (!waiting.closed).then(Vec::new);
        }
        let arrived = waiting.requests.len();
        drop(waiting);
        Some(self.gather(arrived))
    }

    /// Those who were just answered are about to write again: as long as more arrive, it is better
    /// to let them run than to sync for one.
    fn gather(&self, mut arrived: usize) -> Vec<Request> {
        for _ in 0..GATHERING_LOOKS {
            thread::yield_now();
            let now = lock(&self.waiting).requests.len();
            if now == arrived {
                break;
            }
            arrived = now;
        }
        mem::take(&mut lock(&self.waiting).requests)
    }
}
