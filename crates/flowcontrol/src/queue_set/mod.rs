//! Queue set of one priority level: fair queuing for server requests (upstream: QueueSet).
//!
//! A state machine without a clock or a lock: each call gets the time, and everything decided in a call counts as of
//! that time.

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

/// Assumed execution time of a request until it has finished. It affects the dynamics, not the steady state; the
/// reference's value.
pub(crate) const ESTIMATED_SERVICE_DURATION: Duration = Duration::from_millis(3);
/// Maximum seats of an estimate, so that sums of seats cannot overflow.
const MAX_SEATS: u32 = 10_000;

/// One seat in this many is reserved for requests of one seat. A list keeps its seats until its client has read it;
/// without the reserve, requests for single objects would wait for that. Small levels have none.
const RESERVE: u32 = 16;

/// Treatment of requests that find no free seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queuing {
    /// Execute all requests.
    Exempt,
    /// Reject them.
    Reject,
    /// Queue them, up to `length_limit` in each queue.
    Queue { dealer: Dealer, length_limit: u32 },
}

impl Queuing {
    /// Number of requests that can be queued.
    pub(crate) fn places(self) -> u64 {
        match self {
            Queuing::Exempt | Queuing::Reject => 0,
            Queuing::Queue { dealer, length_limit } => {
                u64::from(length_limit) * u64::from(dealer.deck())
            }
        }
    }
}

/// Outcome of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    Executing(Slot),
    Waiting(Slot),
    Rejected(RejectReason),
}

/// Counters of a priority level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Queued requests, and their seats.
    pub waiting: u32,
    pub seats_waiting: u32,
    /// Executing requests.
    pub executing: u32,
    /// Seats of executing requests, and lingering seats.
    pub seats_in_use: u32,
    /// The part of `seats_in_use` of requests that came through queues.
    pub queued_seats_in_use: u32,
    /// Totals since the start.
    pub dispatched: u64,
    pub rejected: u64,
    pub timed_out: u64,
    pub cancelled: u64,
}

/// Requests and queues of a priority level.
pub(crate) struct QueueSet {
    queuing: Queuing,
    limit: u32,
    requests: Requests,
    queues: Queues,
    /// Lingering seats of finished requests, by the time of release.
    lingering: BTreeMap<(Instant, u64), Lingering>,
    totals: Totals,
    /// R, the progress meter: virtual service that each active queue was entitled to since the start.
    r: SeatSeconds,
    /// Time up to which the state is advanced.
    updated: Instant,
    served_last: u32,
    /// Number of reserved seats in use.
    reserve_in_use: u32,
    /// Number of requests that arrived at queues, and number that lingered.
    arrivals: u64,
    lingered: u64,
    meters: Meters,
    woken: Vec<Waker>,
}

/// Seats that are held. Has no reference to the flow schema, which would be a cycle: the schema refers to the level,
/// which owns this.
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

    /// Changes the queuing. Queued requests stay where they are: queues beyond the new number drain.
    pub(crate) fn set_queuing(&mut self, now: Instant, queuing: Queuing) {
        self.sync(now);
        self.queuing = queuing;
        self.meters.set_queuing(queuing);
        self.dispatch(now);
    }

    /// Changes the number of seats. Metrics are relative to `denominator`.
    pub(crate) fn set_limit(&mut self, now: Instant, limit: u32, denominator: u32) {
        self.sync(now);
        self.limit = limit;
        self.meters.set_denominator(denominator);
        self.dispatch(now);
    }

    /// Adds a request. `hash` determines the queues that it may use.
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

    /// Finishes a request; its seats are released at once, or after its additional latency.
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
            // Replaces the assumed execution time, counted at dispatch, by the real one.
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

    /// Removes a queued request. Returns `false`, without effect, if it has its seats already.
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

    /// Time of dispatch of a request; otherwise `waker` is woken at its dispatch.
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

    /// Advances to `now` and dispatches.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.sync(now);
        self.dispatch(now);
    }

    /// Releases all lingering seats: the queue set is not used any more.
    pub(crate) fn abandon(&mut self) {
        for held in std::mem::take(&mut self.lingering).into_values() {
            self.release(&held);
        }
        self.note();
    }

    /// Time at which lingering seats are released, if requests are queued: they may be dispatched then.
    pub(crate) fn alarm(&self) -> Option<Instant> {
        let first = self.lingering.first_key_value().filter(|_| self.totals.waiting > 0);
        first.map(|((at, _), _)| *at)
    }

    /// Whether there are no queued or executing requests.
    pub(crate) fn is_idle(&self) -> bool {
        self.totals.waiting == 0 && self.totals.executing == 0
    }

    /// Wakers to wake after the lock is released.
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

    /// Seat demand since the last call.
    pub(crate) fn take_demand(&mut self, now: Instant) -> crate::timing::Moments {
        self.tick(now);
        self.meters.take_demand()
    }
}
