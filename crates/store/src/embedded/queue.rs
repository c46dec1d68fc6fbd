//! Queue of requests to the writer.

use std::{
    mem,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::database::lock;
use crate::{Error, Result, Revision};

/// Maximum time that the first write of a batch waits for others to join it.
const GATHERING: Duration = Duration::from_micros(200);

/// A request to the writer.
#[derive(Debug)]
pub(super) enum Request {
    Write(Write),
    Compact {
        revision: Revision,
        reply: oneshot::Sender<Result<()>>,
    },
    /// Health probe: tests whether the writer runs and can write.
    Probe {
        reply: oneshot::Sender<Result<()>>,
    },
    #[cfg(test)]
    Panic,
}

/// A write of one key.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) key: Bytes,
    pub(super) operation: Operation,
    pub(super) reply: oneshot::Sender<Result<Revision>>,
    /// Permit for the write's share of the memory of waiting writes.
    pub(super) _permit: OwnedSemaphorePermit,
}

/// Operation on a key, with its precondition.
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
    /// Whether the writer is to check its chores now.
    woken: bool,
    /// Number of requests at which the writer wants to be woken.
    wanted: usize,
    /// Number of requests in the last batch.
    last: usize,
}

impl Queue {
    pub(super) fn push(&self, request: Request) -> Result<()> {
        let mut waiting = lock(&self.waiting);
        if waiting.closed {
            return Err(Error::closed());
        }
        waiting.requests.push(request);
        let enough = waiting.requests.len() >= waiting.wanted;
        drop(waiting);
        if enough {
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Ends the writer's wait for requests.
    pub(super) fn wake(&self) {
        lock(&self.waiting).woken = true;
        self.arrived.notify_one();
    }

    /// Refuses further requests; waiting ones are still carried out.
    pub(super) fn close(&self) {
        lock(&self.waiting).closed = true;
        self.arrived.notify_one();
    }

    /// Refuses all requests, waiting ones too: the writer has ended.
    pub(super) fn abandon(&self) {
        let mut waiting = lock(&self.waiting);
        waiting.closed = true;
        waiting.requests.clear();
    }

    /// All waiting requests, after waiting at most `patience` for the first. `None` when closed.
    ///
    /// The writers of the last batch are about to write again: waiting a moment for as many requests as it had is
    /// better than a sync for the first one. A lone writer is not delayed.
    pub(super) fn take(&self, patience: Duration) -> Option<Vec<Request>> {
        let mut waiting = self.wait_for(1, patience, lock(&self.waiting));
        if !waiting.requests.is_empty() && waiting.requests.len() < waiting.last {
            let wanted = waiting.last;
            waiting = self.wait_for(wanted, GATHERING, waiting);
        }
        if waiting.requests.is_empty() {
            return (!waiting.closed).then(Vec::new);
        }
        waiting.last = waiting.requests.len();
        Some(mem::take(&mut waiting.requests))
    }

    fn wait_for<'a>(
        &self,
        wanted: usize,
        patience: Duration,
        mut waiting: MutexGuard<'a, Waiting>,
    ) -> MutexGuard<'a, Waiting> {
        waiting.wanted = wanted;
        let missing = |waiting: &mut Waiting| {
            waiting.requests.len() < wanted && !waiting.closed && !waiting.woken
        };
        let (mut waiting, _) = self
            .arrived
            .wait_timeout_while(waiting, patience, missing)
            .unwrap_or_else(PoisonError::into_inner);
        // A writer that is at work needs no wake-up.
        waiting.wanted = usize::MAX;
        waiting.woken = false;
        waiting
    }
}
