//! Virtual time, and dispatch of queued requests to free seats.

use tokio::time::Instant;

use super::{Arrival, Dealer, Lingering, QueueSet, Queuing, RESERVE, Request, Slot, State};
use crate::configuration::FlowSchema;
use crate::observer::RejectReason;
use crate::seat_seconds::SeatSeconds;

impl QueueSet {
    /// Advances to `now`. Lingering seats that are due are released on the way, each at its time.
    pub(super) fn sync(&mut self, now: Instant) {
        while let Some(first) = self.lingering.first_entry().filter(|first| first.key().0 <= now) {
            let ((at, _), lingering) = first.remove_entry();
            self.advance(at);
            self.release(&lingering);
            self.note();
        }
        self.advance(now);
    }

    fn advance(&mut self, to: Instant) {
        let time = to.saturating_duration_since(self.updated);
        if time.is_zero() {
            return;
        }
        self.updated = to;
        let asked = self.totals.queued_seats_in_use + self.totals.seats_waiting;
        self.r += SeatSeconds::share(asked.min(self.limit), self.queues.active(), time);
        self.meters.advance(time);
    }

    /// Updates the time-weighted metrics.
    pub(super) fn note(&mut self) {
        self.meters.note(&self.totals);
    }

    /// Releases seats.
    pub(super) fn release(&mut self, held: &Lingering) {
        self.totals.seats_in_use -= held.seats;
        self.reserve_in_use -= u32::from(held.of_reserve);
        held.observer.executing(0, -i64::from(held.seats));
        if let Some(queue) = held.queue {
            self.totals.queued_seats_in_use -= held.seats;
            self.queues.change(queue, &mut self.requests, |queue, _| {
                queue.seats_in_use -= held.seats;
            });
        }
    }

    /// Whether a request of this width can have its seats. A request wider than the level runs alone.
    pub(super) fn can_accommodate(&self, seats: u32) -> bool {
        let reserve = if seats > 1 { self.reserve() } else { 0 };
        let limit = self.limit - reserve;
        match self.queuing {
            Queuing::Exempt => true,
            _ if seats > limit => self.totals.executing == 0,
            _ => self.totals.seats_in_use - self.reserve_in_use.min(reserve) + seats <= limit,
        }
    }

    /// Number of seats reserved for requests of one seat.
    fn reserve(&self) -> u32 {
        self.limit / RESERVE
    }

    pub(super) fn reject(&mut self, flow: &FlowSchema, reason: RejectReason) -> Arrival {
        self.totals.rejected += 1;
        match reason {
            RejectReason::TimeOut => self.totals.timed_out += 1,
            RejectReason::Cancelled => self.totals.cancelled += 1,
            RejectReason::QueueFull | RejectReason::ConcurrencyLimit => {}
        }
        flow.observer().rejected(reason);
        Arrival::Rejected(reason)
    }

    /// Chooses, of the queues that a flow may use, the one with the least queued work.
    pub(super) fn choose_queue(&mut self, dealer: Dealer, hash: u64) -> u32 {
        let hand = dealer.deal(hash);
        let mut queues = hand.rotated(self.arrivals);
        self.arrivals += 1;
        let chosen = match self.totals.waiting {
            0 => queues.next(),
            _ => queues.min_by_key(|&index| {
                self.queues.get(index).map_or(SeatSeconds::ZERO, |queue| queue.work)
            }),
        };
        chosen.unwrap_or(0)
    }

    pub(super) fn execute_at_once(&mut self, now: Instant, request: Request) -> Arrival {
        let slot = self.requests.insert(Request { state: State::Executing(now), ..request });
        self.occupy(slot);
        Arrival::Executing(slot)
    }

    /// Enqueues a request, or executes it at once if it can be.
    pub(super) fn arrive_at(
        &mut self,
        now: Instant,
        request: Request,
        queue: u32,
        length_limit: u32,
    ) -> Arrival {
        let waiting = self.queues.get(queue).map_or(0, |queue| queue.waiting);
        if self.totals.seats_in_use >= self.limit && waiting >= length_limit {
            return self.reject(&request.flow, RejectReason::QueueFull);
        }
        request.flow.observer().queue_length(waiting as usize + 1);
        let seats_free = self.totals.seats_in_use < self.limit;
        let seats = request.estimate.max_seats();
        if self.totals.waiting == 0 && seats_free && self.can_accommodate(seats) {
            return self.pass_through(now, request, queue);
        }
        let slot = self.requests.insert(request);
        self.enqueue(queue, slot);
        self.dispatch(now);
        match self.requests[slot].state {
            State::Dispatched(at) => {
                self.requests[slot].state = State::Executing(at);
                Arrival::Executing(slot)
            }
            _ => Arrival::Waiting(slot),
        }
    }

    fn enqueue(&mut self, queue: u32, slot: Slot) {
        let r = self.r;
        self.queues.change(queue, &mut self.requests, |queue, requests| {
            if !queue.is_active() {
                queue.next_dispatch_r = r;
            }
            queue.push(requests, slot);
        });
        let request = &self.requests[slot];
        let seats = request.estimate.max_seats();
        self.totals.waiting += 1;
        self.totals.seats_waiting += seats;
        request.flow.observer().in_queue(1, i64::from(seats));
    }

    /// Executes a request at once; equivalent to enqueuing it alone and dispatching it.
    fn pass_through(&mut self, now: Instant, mut request: Request, queue: u32) -> Arrival {
        request.fit(self.limit);
        let (seats, work, r) = (request.estimate.max_seats(), request.work, self.r);
        let mut next_dispatch_r = r;
        self.queues.change(queue, &mut self.requests, |queue, _| {
            if queue.is_active() {
                next_dispatch_r = queue.next_dispatch_r.max(r);
            }
            queue.next_dispatch_r = next_dispatch_r + work;
            queue.executing += 1;
            queue.seats_in_use += seats;
        });
        self.served(queue, next_dispatch_r);
        self.execute_at_once(now, request)
    }

    /// Dispatches queued requests to free seats, in order of virtual finish time. If the next request needs more seats
    /// than are free, the others wait for it; only requests of one seat may use the reserve meanwhile.
    pub(super) fn dispatch(&mut self, now: Instant) {
        while self.totals.waiting > 0 && self.totals.seats_in_use < self.limit {
            let Some(queue) = self.queues.next(self.served_last) else { break };
            let Some(slot) = self.queues.get(queue).and_then(super::Queue::oldest) else { break };
            let request = &self.requests[slot];
            if !self.can_accommodate(request.estimate.max_seats()) {
                request.flow.observer().no_accommodation();
                self.dispatch_to_reserve(now);
                break;
            }
            self.dispatch_one(now, queue, slot);
        }
        self.note();
    }

    fn dispatch_to_reserve(&mut self, now: Instant) {
        while self.reserve_in_use < self.reserve() && self.totals.seats_in_use < self.limit {
            let needs_one =
                |&(_, slot): &(u32, Slot)| self.requests[slot].estimate.max_seats() == 1;
            let next = self.queues.in_order().find(needs_one);
            let Some((queue, slot)) = next else { break };
            self.dispatch_one(now, queue, slot);
        }
    }

    fn dispatch_one(&mut self, now: Instant, queue: u32, slot: Slot) {
        let limit = self.limit;
        let mut next_dispatch_r = self.r;
        self.count_out(slot);
        self.queues.change(queue, &mut self.requests, |queue, requests| {
            queue.unlink(requests, slot);
            let request = &mut requests[slot];
            request.fit(limit);
            next_dispatch_r = queue.next_dispatch_r;
            queue.next_dispatch_r += request.work;
            queue.executing += 1;
            queue.seats_in_use += request.estimate.max_seats();
        });
        self.occupy(slot);
        let state = &mut self.requests[slot].state;
        if let State::Waiting(Some(waker)) = std::mem::replace(state, State::Dispatched(now)) {
            self.woken.push(waker);
        }
        self.served(queue, next_dispatch_r);
    }

    fn served(&mut self, queue: u32, next_dispatch_r: SeatSeconds) {
        self.served_last = queue;
        self.meters.dispatched(self.r, next_dispatch_r);
    }

    /// Counts the seats of a request as in use.
    fn occupy(&mut self, slot: Slot) {
        let of_reserve = self.reserve_in_use < self.reserve();
        let request = &mut self.requests[slot];
        let seats = request.estimate.max_seats();
        request.of_reserve = seats == 1 && of_reserve;
        self.reserve_in_use += u32::from(request.of_reserve);
        self.totals.executing += 1;
        self.totals.seats_in_use += seats;
        if request.queue.is_some() {
            self.totals.queued_seats_in_use += seats;
        }
        self.totals.dispatched += 1;
        request.flow.observer().executing(1, i64::from(seats));
    }

    /// Removes a request that gives up waiting from its queue.
    pub(super) fn take_from_queue(&mut self, slot: Slot) {
        self.count_out(slot);
        if let Some(queue) = self.requests[slot].queue {
            self.queues.change(queue, &mut self.requests, |queue, requests| {
                queue.unlink(requests, slot);
            });
        }
    }

    /// Counts a request as no longer queued.
    fn count_out(&mut self, slot: Slot) {
        let request = &self.requests[slot];
        let seats = request.estimate.max_seats();
        self.totals.waiting -= 1;
        self.totals.seats_waiting -= seats;
        request.flow.observer().in_queue(-1, -i64::from(seats));
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        self.queues.check(&self.requests);
        let totals = self.totals;
        let held = |of: fn(&Lingering) -> u32| self.lingering.values().map(of).sum::<u32>();
        let lingering = held(|held| held.seats);
        let (mut waiting, mut executing) = ((0, 0), (0, lingering));
        let mut queued = held(|held| if held.queue.is_some() { held.seats } else { 0 });
        for request in self.requests.iter() {
            let seats = request.estimate.max_seats();
            match request.started() {
                None => waiting = (waiting.0 + 1, waiting.1 + seats),
                Some(_) => {
                    executing = (executing.0 + 1, executing.1 + seats);
                    queued += if request.queue.is_some() { seats } else { 0 };
                }
            }
        }
        assert_eq!((totals.waiting, totals.seats_waiting), waiting);
        assert_eq!((totals.executing, totals.seats_in_use), executing);
        assert_eq!(totals.queued_seats_in_use, queued);
        let of_reserve = self.requests.iter().filter(|request| request.of_reserve).count() as u32;
        assert_eq!(self.reserve_in_use, of_reserve + held(|held| u32::from(held.of_reserve)));
        assert_eq!(self.requests.len() as u32, waiting.0 + executing.0);
        let of_queues = self.queues.iter().fold((0, 0, 0), |(w, e, s), (_, queue)| {
            (w + queue.waiting, e + queue.executing, s + queue.seats_in_use)
        });
        let in_queues =
            self.requests.iter().filter(|r| r.started().is_some() && r.queue.is_some()).count();
        assert_eq!(of_queues, (waiting.0, in_queues as u32, queued));
    }
}
