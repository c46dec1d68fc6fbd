//! The requests of a priority level that wait or are executed, each in a slot of its own.

use std::ops::{Index, IndexMut};
use std::sync::Arc;
use std::task::Waker;

use tokio::time::Instant;

use crate::configuration::FlowSchema;
use crate::digest::RequestDetails;
use crate::seat_seconds::SeatSeconds;
use crate::work_estimate::WorkEstimate;

/// Where a request is kept. Whoever is told a slot owns it until the request is taken out.
pub(crate) type Slot = u32;

/// When all requests are gone, room for more than that is given back.
const KEPT: usize = 256;

/// A request that waits or is executed.
pub(crate) struct Request {
    pub flow: Arc<FlowSchema>,
    pub details: RequestDetails,
    pub estimate: WorkEstimate,
    /// What the estimate comes to.
    pub work: SeatSeconds,
    pub arrived: Instant,
    /// R when it arrived.
    pub arrival_r: SeatSeconds,
    /// Its queue, if it came through one.
    pub queue: Option<u32>,
    /// Whether its seat is one of those that are only for requests of one seat.
    pub of_reserve: bool,
    pub state: State,
    /// Its neighbours in the queue, while it waits.
    pub(super) before: Option<Slot>,
    pub(super) after: Option<Slot>,
}

/// How far a request has come.
pub(crate) enum State {
    /// It waits, and this wakes it.
    Waiting(Option<Waker>),
    /// It has its seats since then, and does not know yet.
    Dispatched(Instant),
    /// It has its seats since then.
    Executing(Instant),
}

impl Request {
    /// When it was given its seats.
    pub(crate) fn started(&self) -> Option<Instant> {
        match self.state {
            State::Waiting(_) => None,
            State::Dispatched(at) | State::Executing(at) => Some(at),
        }
    }

    /// Makes what it leaves behind as narrow as the level is, and as much longer.
    pub(super) fn fit(&mut self, limit: u32) {
        let estimate = &mut self.estimate;
        if estimate.final_seats > limit {
            let work = SeatSeconds::of(estimate.final_seats, estimate.additional_latency);
            estimate.additional_latency = work.duration_per_seat(limit);
            estimate.final_seats = limit;
        }
    }
}

/// Requests by their slots.
#[derive(Default)]
pub(crate) struct Requests {
    slots: Vec<Entry>,
    free: Option<Slot>,
    len: usize,
}

enum Entry {
    Used(Request),
    /// Free, as is the other.
    Free(Option<Slot>),
}

impl Requests {
    pub(crate) fn insert(&mut self, request: Request) -> Slot {
        self.len += 1;
        match self.free {
            Some(slot) => {
                let entry = &mut self.slots[slot as usize];
                match std::mem::replace(entry, Entry::Used(request)) {
                    Entry::Free(next) => self.free = next,
                    Entry::Used(_) => unreachable!("a slot of the free list is free"),
                }
                slot
            }
            None => {
                self.slots.push(Entry::Used(request));
                // Each has a client: there are fewer than 2^32.
                (self.slots.len() - 1) as Slot
            }
        }
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Request {
        let free = Entry::Free(self.free.replace(slot));
        self.len -= 1;
        let Entry::Used(request) = std::mem::replace(&mut self.slots[slot as usize], free) else {
            unreachable!("{VACANT}");
        };
        if self.len == 0 && self.slots.capacity() > KEPT {
            *self = Requests::default();
        }
        request
    }

    /// All of them, in no order that means anything.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Request> {
        self.slots.iter().filter_map(|entry| match entry {
            Entry::Used(request) => Some(request),
            Entry::Free(_) => None,
        })
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

const VACANT: &str = "a slot belongs to its request until that is taken out";

impl Index<Slot> for Requests {
    type Output = Request;

    fn index(&self, slot: Slot) -> &Request {
        match &self.slots[slot as usize] {
            Entry::Used(request) => request,
            Entry::Free(_) => unreachable!("{VACANT}"),
        }
    }
}

impl IndexMut<Slot> for Requests {
    fn index_mut(&mut self, slot: Slot) -> &mut Request {
        match &mut self.slots[slot as usize] {
            Entry::Used(request) => request,
            Entry::Free(_) => unreachable!("{VACANT}"),
        }
    }
}
