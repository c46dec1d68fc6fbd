//! The queues of one priority level: who is served, by fair queuing for server requests.
//!
//! A state machine without a clock or a lock: it is told the time with each event. All that is
//! decided at one event counts as of that time.

mod dealer;
mod dispatch;
mod meters;
mod queues;
mod requests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

pub(crate) use dealer::Dealer;
pub(crate) use meters::Meters;
pub(crate) use queues::{Queue, Queues};
pub(crate) use requests::{Request, Requests, Slot, State};

use crate::configuration::FlowSchema;
use crate::digest::RequestDetails;
use crate::observer::{FlowObserver, RejectReason};
use crate::seat_seconds::SeatSeconds;
use crate::work_estimate::WorkEstimate;

/// How long a request is thought to take until it is known. It changes how things move, not
/// where they settle; the reference's number.
pub(crate) const ESTIMATED_SERVICE_DURATION: Duration = Duration::from_millis(3);
/// More seats than that are no estimate: sums of seats must not run over.
const MAX_SEATS: u32 = 10_000;

/// One seat in so many is kept for requests that take no more than one. A list has its seats until its client
/// has read it; without these seats whoever asks for one object would wait for that. Small levels have none.
const RESERVE: u32 = 16;

/// What is done with requests that find no seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queuing {
    /// All are given seats.
    Exempt,
    /// They are refused.
    Reject,
    /// They wait in queues, so many in each.
    Queue { dealer: Dealer, length_limit: u32 },
}

impl Queuing {
    /// How many requests can wait.
    pub(crate) fn places(self) -> u64 {
        match self {
            Queuing::Exempt | Queuing::Reject => 0,
            Queuing::Queue { dealer, length_limit } => {
                u64::from(length_limit) * u64::from(dealer.deck())
            }
        }
    }
}

/// What becomes of a request that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    Executing(Slot),
    Waiting(Slot),
    Rejected(RejectReason),
}

/// Counts of a priority level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Requests that wait, and their seats.
    pub waiting: u32,
    pub seats_waiting: u32,
    /// Requests that are executed.
    pub executing: u32,
    /// Their seats, and those that linger.
    pub seats_in_use: u32,
    /// Those of them that were taken by requests of queues.
    pub queued_seats_in_use: u32,
    /// What has been since the start.
    pub dispatched: u64,
    pub rejected: u64,
    pub timed_out: u64,
    pub cancelled: u64,
}

/// The requests and queues of a priority level.
pub(crate) struct QueueSet {
    queuing: Queuing,
    limit: u32,
    requests: Requests,
    queues: Queues,
    /// Seats that are still held for requests that have been answered, by when they are given back.
    lingering: BTreeMap<(Instant, u64), Lingering>,
    totals: Totals,
    /// R, the progress meter: what each active queue has been allotted since the start.
    r: SeatSeconds,
    /// Up to when all of this is counted.
    updated: Instant,
    served_last: u32,
    /// How many of the reserve's seats are in use.
    reserve_in_use: u32,
    /// How many have arrived at queues, and have lingered.
    arrivals: u64,
    lingered: u64,
    meters: Meters,
    woken: Vec<Waker>,
}

/// Seats that are held. It does not know the flow schema, which knows the level, which has this.
struct Lingering {
    seats: u32,
    queue: Option<u32>,
    of_reserve: bool,
    observer: Arc<dyn FlowObserver>,
}

impl QueueSet {
    pub(crate) fn new(now: Instant, queuing: Queuing) -> Self {
        let mut new = QueueSet {
            queuing,
            limit: 0,
            requests: Requests::default(),
            queues: Queues::default(),
            lingering: BTreeMap::new(),
            totals: Totals::default(),
            r: SeatSeconds::ZERO,
            updated: now,
            served_last: 0,
            reserve_in_use: 0,
            arrivals: 0,
            lingered: 0,
            meters: Meters::default(),
            woken: Vec::new(),
        };
        new.meters.set_queuing(queuing);
        new
    }

    /// Changes how requests wait. Those that do stay where they are: queues beyond the new number
    /// drain.
    pub(crate) fn set_queuing(&mut self, now: Instant, queuing: Queuing) {
        self.sync(now);
        self.queuing = queuing;
        self.meters.set_queuing(queuing);
        self.dispatch(now);
    }

    /// Changes how many seats there are. Metrics are relative to `denominator`.
    pub(crate) fn set_limit(&mut self, now: Instant, limit: u32, denominator: u32) {
        self.sync(now);
        self.limit = limit;
        self.meters.set_denominator(denominator);
        self.dispatch(now);
    }

    /// A request arrives. `hash` says which queues it may use.
    pub(crate) fn arrive(
        &mut self,
        now: Instant,
        flow: &Arc<FlowSchema>,
        details: RequestDetails,
        estimate: WorkEstimate,
        hash: u64,
    ) -> Arrival {
        self.sync(now);
        let estimate = WorkEstimate {
            initial_seats: estimate.initial_seats.clamp(1, MAX_SEATS),
            final_seats: estimate.final_seats.min(MAX_SEATS),
            ..estimate
        };
        let request = Request {
            flow: flow.clone(),
            details,
            estimate,
            work: SeatSeconds::of(estimate.initial_seats, ESTIMATED_SERVICE_DURATION)
                + SeatSeconds::of(estimate.final_seats, estimate.additional_latency),
            arrived: now,
            arrival_r: self.r,
            queue: None,
            of_reserve: false,
            state: State::Waiting(None),
            before: None,
            after: None,
        };
        let arrival = match self.queuing {
            Queuing::Exempt => self.execute_at_once(now, request),
            Queuing::Reject if !self.can_accommodate(estimate.max_seats()) => {
                self.reject(flow, RejectReason::ConcurrencyLimit)
            }
            Queuing::Reject => self.execute_at_once(now, request),
            Queuing::Queue { dealer, length_limit } => {
                let queue = self.choose_queue(dealer, hash);
                self.arrive_at(now, Request { queue: Some(queue), ..request }, queue, length_limit)
            }
        };
        self.note();
        arrival
    }

    /// A request is through; its seats are free at once, or when they have lingered.
    pub(crate) fn finish(&mut self, now: Instant, slot: Slot) {
        self.sync(now);
        let Request { flow, estimate, queue, of_reserve, state, .. } = self.requests.remove(slot);
        let (State::Dispatched(started) | State::Executing(started)) = state else {
            unreachable!("who waits has not started");
        };
        let seats = estimate.max_seats();
        self.totals.executing -= 1;
        flow.observer().executing(-1, 0);
        if let Some(queue) = queue {
            // The guess was made when it was dispatched: now it is known.
            let guessed = SeatSeconds::of(estimate.initial_seats, ESTIMATED_SERVICE_DURATION);
            let took = now.saturating_duration_since(started);
            let took = SeatSeconds::of(estimate.initial_seats, took);
            self.queues.change(queue, &mut self.requests, |queue, _| {
                queue.executing -= 1;
                queue.next_dispatch_r += took - guessed;
            });
        }
        let lingering = Lingering { seats, queue, of_reserve, observer: flow.observer.clone() };
        if estimate.additional_latency.is_zero() {
            self.release(&lingering);
        } else {
            self.lingered += 1;
            let until = (now + estimate.additional_latency, self.lingered);
            self.lingering.insert(until, lingering);
        }
        self.dispatch(now);
    }

    /// A request does not want to wait any longer. If it has its seats already nothing is done, and
    /// the answer is no.
    pub(crate) fn leave(&mut self, now: Instant, slot: Slot, reason: RejectReason) -> bool {
        if self.requests[slot].started().is_some() {
            return false;
        }
        self.sync(now);
        self.take_from_queue(slot);
        let flow = self.requests.remove(slot).flow;
        self.reject(&flow, reason);
        self.dispatch(now);
        true
    }

    /// Looks whether a request has its seats by now; it is woken otherwise when it has. The answer
    /// is since when.
    pub(crate) fn poll(&mut self, slot: Slot, waker: &Waker) -> Option<Instant> {
        let state = &mut self.requests[slot].state;
        match state {
            State::Waiting(Some(known)) if known.will_wake(waker) => None,
            State::Waiting(known) => {
                *known = Some(waker.clone());
                None
            }
            State::Dispatched(at) | State::Executing(at) => {
                let at = *at;
                *state = State::Executing(at);
                Some(at)
            }
        }
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.sync(now);
        self.dispatch(now);
    }

    /// Gives back all seats that linger, for nobody will come back to this.
    pub(crate) fn abandon(&mut self) {
        for held in std::mem::take(&mut self.lingering).into_values() {
            self.release(&held);
        }
        self.note();
    }

    /// When somebody who waits may be dispatched though nothing happens until then.
    pub(crate) fn alarm(&self) -> Option<Instant> {
        let first = self.lingering.first_key_value().filter(|_| self.totals.waiting > 0);
        first.map(|((at, _), _)| *at)
    }

    /// Whether nobody waits or is executed.
    pub(crate) fn is_idle(&self) -> bool {
        self.totals.waiting == 0 && self.totals.executing == 0
    }

    /// Who is to be woken, when the lock is free.
    pub(crate) fn take_woken(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.woken)
    }

    pub(crate) fn queuing(&self) -> Queuing {
        self.queuing
    }

    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }

    pub(crate) fn queues(&self) -> &Queues {
        &self.queues
    }

    pub(crate) fn r(&self) -> SeatSeconds {
        self.r
    }

    pub(crate) fn meters(&self) -> &Meters {
        &self.meters
    }

    /// The demand for seats since this was asked last.
    pub(crate) fn take_demand(&mut self, now: Instant) -> crate::timing::Moments {
        self.tick(now);
        self.meters.take_demand()
    }
}
