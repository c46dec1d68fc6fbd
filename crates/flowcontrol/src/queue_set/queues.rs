//! Queues with requests, and the choice of the next one.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use super::requests::{Requests, Slot};
use crate::seat_seconds::SeatSeconds;

/// A queue: queued requests, and counters of the executing requests that came through it.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    oldest: Option<Slot>,
    newest: Option<Slot>,
    /// Number of queued requests, and the sums of their seats and work.
    pub waiting: u32,
    pub initial_seats: u32,
    pub max_seats: u32,
    pub work: SeatSeconds,
    /// Number of executing requests.
    pub executing: u32,
    /// Seats of the executing requests, and lingering seats.
    pub seats_in_use: u32,
    /// R at which the next request would be dispatched in virtual time.
    pub next_dispatch_r: SeatSeconds,
    /// R at which the oldest queued request would finish: the sort key of the queue.
    finish_r: Option<SeatSeconds>,
}

impl Queue {
    /// Whether the queue has queued or executing requests.
    pub(crate) fn is_active(&self) -> bool {
        self.waiting > 0 || self.executing > 0
    }

    /// The request that has been queued longest.
    pub(crate) fn oldest(&self) -> Option<Slot> {
        self.oldest
    }

    /// Appends a request.
    pub(crate) fn push(&mut self, requests: &mut Requests, slot: Slot) {
        let last = self.newest.replace(slot);
        match last {
            Some(last) => requests[last].after = Some(slot),
            None => self.oldest = Some(slot),
        }
        let request = &mut requests[slot];
        (request.before, request.after) = (last, None);
        self.waiting += 1;
        self.initial_seats += request.estimate.initial_seats;
        self.max_seats += request.estimate.max_seats();
        self.work += request.work;
    }

    /// Removes a request from any position.
    pub(crate) fn unlink(&mut self, requests: &mut Requests, slot: Slot) {
        let request = &mut requests[slot];
        let (before, after) = (request.before.take(), request.after.take());
        self.waiting -= 1;
        self.initial_seats -= request.estimate.initial_seats;
        self.max_seats -= request.estimate.max_seats();
        self.work -= request.work;
        match before {
            Some(before) => requests[before].after = after,
            None => self.oldest = after,
        }
        match after {
            Some(after) => requests[after].before = before,
            None => self.newest = before,
        }
    }

    /// Queued requests, the oldest first.
    pub(crate) fn iter<'a>(&self, requests: &'a Requests) -> impl Iterator<Item = Slot> + 'a {
        std::iter::successors(self.oldest, |&slot| requests[slot].after)
    }
}

/// Queues with state, by index. A queue without requests and lingering seats has none.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    queues: HashMap<u32, Queue, BuildHasherDefault<IndexHasher>>,
    /// Queues with queued requests, by the virtual finish time of their oldest.
    ready: BTreeSet<(SeatSeconds, u32)>,
    /// Number of active queues.
    active: u32,
}

impl Queues {
    /// Changes a queue and restores the invariants: no request is dispatched before its arrival in virtual time,
    /// `ready` has the queue's sort key, and a queue without state is removed.
    pub(crate) fn change(
        &mut self,
        index: u32,
        requests: &mut Requests,
        change: impl FnOnce(&mut Queue, &mut Requests),
    ) {
        let queue = self.queues.entry(index).or_default();
        let was_active = queue.is_active();
        change(queue, requests);
        let finish_r = queue.oldest.map(|slot| {
            let oldest = &requests[slot];
            // A queue must not save up service that it could not use.
            queue.next_dispatch_r = queue.next_dispatch_r.max(oldest.arrival_r);
            queue.next_dispatch_r + oldest.work
        });
        let is_active = queue.is_active();
        let is_gone = !is_active && queue.seats_in_use == 0;
        let before = std::mem::replace(&mut queue.finish_r, finish_r);
        if before != finish_r {
            before.map(|r| self.ready.remove(&(r, index)));
            finish_r.map(|r| self.ready.insert((r, index)));
        }
        self.active = self.active + u32::from(is_active) - u32::from(was_active);
        if is_gone {
            self.queues.remove(&index);
        }
    }

    /// The queue whose oldest request has the earliest virtual finish time; of several the next one after the queue
    /// that was served last.
    pub(crate) fn next(&self, served_last: u32) -> Option<u32> {
        let &(finish_r, first) = self.ready.first()?;
        let behind = self.ready.range((finish_r, served_last.saturating_add(1))..).next();
        Some(behind.filter(|(r, _)| *r == finish_r).map_or(first, |(_, index)| *index))
    }

    /// The oldest request of each queue with queued requests, and the queue's index, in order of virtual finish time.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = (u32, Slot)> {
        let oldest = |&(_, index): &(SeatSeconds, u32)| Some((index, self.get(index)?.oldest()?));
        self.ready.iter().filter_map(oldest)
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Queue> {
        self.queues.get(&index)
    }

    /// Number of active queues.
    pub(crate) fn active(&self) -> u32 {
        self.active
    }

    /// Queues with state, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Queue)> + Clone {
        self.queues.iter().map(|(index, queue)| (*index, queue))
    }

    #[cfg(test)]
    pub(crate) fn check(&self, requests: &Requests) {
        let mut ready = BTreeSet::new();
        for (index, queue) in self.iter() {
            assert!(queue.is_active() || queue.seats_in_use > 0);
            let waiting: Vec<_> = queue.iter(requests).map(|slot| &requests[slot]).collect();
            assert_eq!(waiting.len(), queue.waiting as usize);
            let sum = |seats: fn(&super::Request) -> u32| waiting.iter().map(|r| seats(r)).sum();
            assert_eq!(queue.initial_seats, sum(|r| r.estimate.initial_seats));
            assert_eq!(queue.max_seats, sum(|r| r.estimate.max_seats()));
            let work = waiting.iter().fold(SeatSeconds::ZERO, |all, r| all + r.work);
            assert_eq!(queue.work, work);
            if let Some(oldest) = waiting.first() {
                assert!(queue.next_dispatch_r >= oldest.arrival_r);
                ready.insert((queue.next_dispatch_r + oldest.work, index));
            }
        }
        assert_eq!(self.ready, ready);
        assert_eq!(self.active as usize, self.iter().filter(|(_, q)| q.is_active()).count());
    }
}

/// Hasher of indexes. Clients cannot choose them: they come from a keyed hash.
#[derive(Debug, Default)]
pub(crate) struct IndexHasher(u64);

impl Hasher for IndexHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, index: u32) {
        /// 2^64 divided by the golden ratio.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        self.0 = (self.0 ^ u64::from(index)).wrapping_mul(SPREAD);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
