//! A priority level at run time: its queue set behind one mutex.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::configuration::FlowSchema;
use crate::digest::RequestDetails;
use crate::observer::RejectReason;
use crate::queue_set::{Arrival, QueueSet, Queuing, Slot};
use crate::retry_after::DroppedRequests;
use crate::timing::Moments;
use crate::work_estimate::WorkEstimate;

/// A priority level (upstream: priorityLevelState).
pub struct PriorityLevel {
    name: Box<str>,
    exempt: bool,
    began: Instant,
    state: Mutex<LevelState>,
    dropped: Mutex<DroppedRequests>,
    signal: Arc<Signal>,
}

struct LevelState {
    queues: QueueSet,
    /// Whether the level was removed and drains.
    quiescing: bool,
    /// Whether the level is out of use: requests that still arrive must be classified again.
    retired: bool,
    /// Whether the controller knows that the level has drained.
    reported: bool,
    /// Time at which the controller will call `tick`.
    alarm: Option<Instant>,
}

/// Wakes the controller.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    pub notify: Notify,
    reap: AtomicBool,
}

impl Signal {
    /// Whether a level has drained since the last call.
    pub(crate) fn take_reap(&self) -> bool {
        self.reap.swap(false, AcqRel)
    }

    pub(crate) fn reap(&self) {
        self.reap.store(true, Release);
        self.notify.notify_one();
    }
}

impl PriorityLevel {
    pub(crate) fn new(name: &str, queuing: Queuing, now: Instant, signal: Arc<Signal>) -> Self {
        let state = LevelState {
            queues: QueueSet::new(now, queuing),
            quiescing: false,
            retired: false,
            reported: false,
            alarm: None,
        };
        PriorityLevel {
            name: name.into(),
            exempt: queuing == Queuing::Exempt,
            began: now,
            state: Mutex::new(state),
            dropped: Mutex::default(),
            signal,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_exempt(&self) -> bool {
        self.exempt
    }

    /// Adds a request; `None` if the level has retired.
    pub(crate) fn arrive(
        &self,
        now: Instant,
        flow: &Arc<FlowSchema>,
        details: RequestDetails,
        estimate: WorkEstimate,
        hash: u64,
    ) -> Option<Arrival> {
        self.with(|state| match state.retired {
            true => None,
            false => Some(state.queues.arrive(now, flow, details, estimate, hash)),
        })
    }

    /// Releases the seats of a request.
    pub(crate) fn finish(&self, now: Instant, slot: Slot) {
        self.with(|state| state.queues.finish(now, slot));
    }

    /// Ends the wait of a request. Returns whether it was still queued.
    pub(crate) fn leave(&self, now: Instant, slot: Slot, reason: RejectReason) -> bool {
        self.with(|state| state.queues.leave(now, slot, reason))
    }

    /// Time since which a request has its seats; otherwise `waker` is woken at its dispatch.
    pub(crate) fn poll(&self, slot: Slot, waker: &Waker) -> Option<Instant> {
        self.with(|state| state.queues.poll(slot, waker))
    }

    pub(crate) fn set_queuing(&self, now: Instant, queuing: Queuing) {
        self.with(|state| {
            if state.queues.queuing() != queuing {
                state.queues.set_queuing(now, queuing);
            }
        });
    }

    pub(crate) fn set_limit(&self, now: Instant, limit: u32, denominator: u32) {
        self.with(|state| state.queues.set_limit(now, limit, denominator));
    }

    /// Seat demand since the last call.
    pub(crate) fn take_demand(&self, now: Instant) -> Moments {
        self.with(|state| state.queues.take_demand(now))
    }

    /// Sets whether the level drains. A level that has drained already signals it.
    pub(crate) fn set_quiescing(&self, quiescing: bool) {
        self.with(|state| state.quiescing = quiescing);
    }

    /// Whether the level has no queued or executing requests.
    pub(crate) fn is_idle(&self) -> bool {
        self.with(|state| state.queues.is_idle())
    }

    /// Retires the level if it is idle. Returns whether it did.
    pub(crate) fn retire(&self) -> bool {
        self.with(|state| {
            state.retired = state.queues.is_idle();
            if state.retired {
                state.queues.abandon();
            }
            state.retired
        })
    }

    /// Releases lingering seats that are due. Returns the time of the next call.
    pub(crate) fn tick(&self, now: Instant) -> Option<Instant> {
        self.with(|state| {
            state.queues.tick(now);
            state.alarm = state.queues.alarm();
            state.alarm
        })
    }

    /// Counts a rejected request. Returns the seconds for its `Retry-After`.
    pub(crate) fn record_dropped(&self, now: Instant) -> u64 {
        let second = now.saturating_duration_since(self.began).as_secs();
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).record(second)
    }

    /// Calls `read` with the queue set and whether the level is quiescing.
    pub(crate) fn read<T>(&self, now: Instant, read: impl FnOnce(&QueueSet, bool) -> T) -> T {
        self.with(|state| {
            state.queues.tick(now);
            read(&state.queues, state.quiescing)
        })
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        self.with(|state| state.queues.check());
    }

    fn with<T>(&self, change: impl FnOnce(&mut LevelState) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut state);
        let drained = state.has_just_drained();
        let alarmed = state.is_alarm_new();
        let woken = state.queues.take_woken();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        if drained {
            self.signal.reap();
        } else if alarmed {
            self.signal.notify.notify_one();
        }
        result
    }
}

impl LevelState {
    fn has_just_drained(&mut self) -> bool {
        let drained = self.quiescing && !self.retired && self.queues.is_idle();
        !std::mem::replace(&mut self.reported, drained) && drained
    }

    /// Whether the controller must call `tick` earlier than planned.
    fn is_alarm_new(&mut self) -> bool {
        let alarm = self.queues.alarm();
        let new = alarm.is_some_and(|at| self.alarm.is_none_or(|known| at < known));
        if new {
            self.alarm = alarm;
        }
        new
    }
}

impl fmt::Debug for PriorityLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PriorityLevel {}", self.name)
    }
}
