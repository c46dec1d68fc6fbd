//! Queued and executing requests of a priority level, each in a slot.

use std::ops::{Index, IndexMut};
use std::sync::Arc;
use std::task::Waker;

use tokio::time::Instant;

use crate::configuration::FlowSchema;
use crate::digest::RequestDetails;
use crate::seat_seconds::SeatSeconds;
use crate::work_estimate::WorkEstimate;

/// Slot of a request. The holder owns it until the request is removed.
pub(crate) type Slot = u32;

/// Capacity that is kept when all requests are gone.
const KEPT: usize = 256;

/// A queued or executing request.
pub(crate) struct Request {
    pub flow: Arc<FlowSchema>,
    pub details: RequestDetails,
    pub estimate: WorkEstimate,
    /// Work of the estimate.
    pub work: SeatSeconds,
    pub arrived: Instant,
    /// R at the arrival.
    pub arrival_r: SeatSeconds,
    /// Index of its queue, if it came through one.
    pub queue: Option<u32>,
    /// Whether its seat is one of the reserve.
    pub of_reserve: bool,
    pub state: State,
    /// Neighbours in the queue, while it is queued.
    pub(super) before: Option<Slot>,
    pub(super) after: Option<Slot>,
}

/// State of a request.
pub(crate) enum State {
    /// Queued; the waker is woken at its dispatch.
    Waiting(Option<Waker>),
    /// Dispatched at this time, but not polled since.
    Dispatched(Instant),
    /// Executing since this time.
    Executing(Instant),
}

impl Request {
    /// Time of dispatch.
    pub(crate) fn started(&self) -> Option<Instant> {
        match self.state {
            State::Waiting(_) => None,
            State::Dispatched(at) | State::Executing(at) => Some(at),
        }
    }

    /// Narrows the final seats to the level's limit and lengthens the additional latency in proportion.
    pub(super) fn fit(&mut self, limit: u32) {
        let estimate = &mut self.estimate;
        if estimate.final_seats > limit {
            let work = SeatSeconds::of(estimate.final_seats, estimate.additional_latency);
            estimate.additional_latency = work.duration_per_seat(limit);
            estimate.final_seats = limit;
        }
    }
}

/// Requests by slot.
#[derive(Default)]
pub(crate) struct Requests {
    slots: Vec<Entry>,
    free: Option<Slot>,
    len: usize,
}

enum Entry {
    Used(Request),
    /// Free slot, with the next one in the free list.
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
                // Each request has a client connection: there are fewer than 2^32.
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

    /// All requests, in no order.
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
