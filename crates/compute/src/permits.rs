//! Permits to compute beside the workers, shared fairly by flows.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use kevel_clock::{Stopwatch, monotonic_now};

use crate::meter::ComputeFlow;

/// Flows remembered before idle ones are forgotten. A flow that is forgotten loses its account of past use only.
const MAX_FLOWS: usize = 4096;

/// The permits of the process: as many as there are processors, which the system divides among them and the workers.
static PERMITS: Permits = Permits(LazyLock::new(one_a_processor));

/// Permits of turns that have waited for [`MAX_WAIT`](crate::MAX_WAIT) in their middle: one of them may hold a lock that
/// turns with a permit need. As many again, so that a crowd of them does not take the processors from the workers.
static LATE_PERMITS: Permits = Permits(LazyLock::new(one_a_processor));

/// Number of turns that wait for a permit.
pub fn waiting() -> usize {
    let all = [&PERMITS, &LATE_PERMITS].map(|permits| {
        let queue = permits.lock();
        queue.flows.values().map(|flow| flow.waiting.len()).sum::<usize>()
    });
    all.into_iter().sum()
}

fn one_a_processor() -> Mutex<FairQueue> {
    Mutex::new(FairQueue::new(std::thread::available_parallelism().map_or(1, usize::from)))
}

#[derive(Debug)]
struct Permits(LazyLock<Mutex<FairQueue>>);

impl Permits {
    fn lock(&self) -> MutexGuard<'_, FairQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Number of a place in the queue of a flow.
type Ticket = u64;

/// Start-time fair queue of flows: the flow that has been served least is next. Without I/O or clock: time served comes
/// in with each release.
#[derive(Debug)]
struct FairQueue {
    free: usize,
    /// Time served of the flow that was chosen last, when it was chosen. A flow that was idle begins there: it gets no
    /// credit for its idle time.
    virtual_time: Duration,
    flows: HashMap<ComputeFlow, FlowUse>,
    granted: HashSet<Ticket>,
    next_ticket: Ticket,
}

#[derive(Debug, Default)]
struct FlowUse {
    served: Duration,
    running: usize,
    waiting: VecDeque<(Ticket, Waker)>,
}

impl FairQueue {
    fn new(permits: usize) -> Self {
        FairQueue {
            free: permits,
            virtual_time: Duration::ZERO,
            flows: HashMap::new(),
            granted: HashSet::new(),
            next_ticket: 0,
        }
    }

    /// Queues up in a flow. One that goes on comes before those of its flow that begin: it may hold what they wait for.
    fn enqueue(&mut self, flow: ComputeFlow, goes_on: bool, waker: &Waker) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let virtual_time = self.virtual_time;
        if self.flows.len() >= MAX_FLOWS {
            self.flows.retain(|_, flow| flow.running > 0 || !flow.waiting.is_empty());
        }
        let flow = self.flows.entry(flow).or_default();
        if flow.running == 0 && flow.waiting.is_empty() {
            flow.served = flow.served.max(virtual_time);
        }
        if goes_on {
            flow.waiting.push_front((ticket, waker.clone()));
        } else {
            flow.waiting.push_back((ticket, waker.clone()));
        }
        self.grant();
        ticket
    }

    /// Takes the permit granted to a ticket, or keeps waiting.
    fn poll(&mut self, flow: ComputeFlow, ticket: Ticket, waker: &Waker) -> Poll<()> {
        if self.granted.remove(&ticket) {
            return Poll::Ready(());
        }
        let waiting = self.flows.get_mut(&flow).map(|flow| &mut flow.waiting);
        let place = waiting.and_then(|waiting| waiting.iter_mut().find(|(id, _)| *id == ticket));
        if let Some((_, place)) = place {
            place.clone_from(waker);
        }
        Poll::Pending
    }

    /// Leaves the queue.
    fn cancel(&mut self, flow: ComputeFlow, ticket: Ticket) {
        if self.granted.remove(&ticket) {
            self.release(flow, Duration::ZERO);
        } else if let Entry::Occupied(mut entry) = self.flows.entry(flow) {
            entry.get_mut().waiting.retain(|(id, _)| *id != ticket);
        }
    }

    fn release(&mut self, flow: ComputeFlow, served: Duration) {
        self.free += 1;
        if let Entry::Occupied(mut entry) = self.flows.entry(flow) {
            let flow = entry.get_mut();
            flow.served += served;
            flow.running = flow.running.saturating_sub(1);
            if flow.running == 0 && flow.waiting.is_empty() && flow.served <= self.virtual_time {
                entry.remove();
            }
        }
        self.grant();
    }

    fn grant(&mut self) {
        while self.free > 0 {
            let waiting = self.flows.values_mut().filter(|flow| !flow.waiting.is_empty());
            let Some(flow) = waiting.min_by_key(|flow| flow.served) else { return };
            let Some((ticket, waker)) = flow.waiting.pop_front() else { return };
            flow.running += 1;
            self.virtual_time = self.virtual_time.max(flow.served);
            self.free -= 1;
            self.granted.insert(ticket);
            waker.wake();
        }
    }

    /// Whether another flow is due before one that has just been served for a time.
    fn is_another_due(&self, flow: ComputeFlow, just_served: Duration) -> bool {
        let served = self.flows.get(&flow).map_or(Duration::ZERO, |flow| flow.served) + just_served;
        let mut others = self.flows.iter().filter(|(other, _)| **other != flow);
        others.any(|(_, other)| !other.waiting.is_empty() && other.served < served)
    }
}

/// Wait for a permit, as a future is polled.
#[derive(Debug)]
pub struct Acquire {
    permits: &'static Permits,
    flow: ComputeFlow,
    goes_on: bool,
    ticket: Option<Ticket>,
}

impl Acquire {
    /// A wait in a flow's queue. `goes_on`: an earlier turn of the same request had a permit.
    pub fn new(flow: ComputeFlow, goes_on: bool) -> Self {
        Acquire { permits: &PERMITS, flow, goes_on, ticket: None }
    }

    /// A wait in the middle of a turn, after one that took too long.
    pub(crate) fn late(flow: ComputeFlow) -> Self {
        Acquire { permits: &LATE_PERMITS, flow, goes_on: true, ticket: None }
    }

    /// Waits for the permit.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Permit> {
        self.poll_by(context.waker())
    }

    fn poll_by(&mut self, waker: &Waker) -> Poll<Permit> {
        let mut permits = self.permits.lock();
        let ticket = match self.ticket {
            Some(ticket) => ticket,
            None => *self.ticket.insert(permits.enqueue(self.flow, self.goes_on, waker)),
        };
        permits.poll(self.flow, ticket, waker).map(|()| {
            self.ticket = None;
            Permit { permits: self.permits, flow: self.flow, since: Stopwatch::start() }
        })
    }

    /// Waits for the permit on this thread, until a time.
    pub(crate) fn wait_until(mut self, end: Instant) -> Option<Permit> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        loop {
            if let Poll::Ready(permit) = self.poll_by(&waker) {
                return Some(permit);
            }
            let left = end.checked_duration_since(monotonic_now())?;
            std::thread::park_timeout(left);
        }
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.permits.lock().cancel(self.flow, ticket);
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Permit to compute beside the workers; given back when it is dropped.
#[derive(Debug)]
pub struct Permit {
    permits: &'static Permits,
    flow: ComputeFlow,
    since: Stopwatch,
}

impl Permit {
    /// Whether the permit was held for a quantum and another flow is due.
    pub(crate) fn should_be_handed_on(&self) -> bool {
        let held = self.since.elapsed();
        held >= crate::QUANTUM && self.permits.lock().is_another_due(self.flow, held)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.lock().release(self.flow, self.since.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn enqueue(queue: &mut FairQueue, flow: u8) -> (ComputeFlow, Ticket) {
        let flow = ComputeFlow::of(&flow.to_string());
        (flow, queue.enqueue(flow, false, Waker::noop()))
    }

    fn is_granted(queue: &mut FairQueue, (flow, ticket): (ComputeFlow, Ticket)) -> bool {
        queue.poll(flow, ticket, Waker::noop()).is_ready()
    }

    #[test]
    fn queue_serves_least_served_flow_first() {
        let mut queue = FairQueue::new(1);
        let first = enqueue(&mut queue, 1);
        let rest: Vec<_> = (0..3).map(|_| enqueue(&mut queue, 1)).collect();
        assert!(is_granted(&mut queue, first));
        let other = enqueue(&mut queue, 2);
        assert!(!is_granted(&mut queue, other), "no permit is free");
        assert!(queue.is_another_due(first.0, MS));
        queue.release(first.0, 50 * MS);
        assert!(is_granted(&mut queue, other), "served least");
        queue.release(other.0, MS);
        assert!(is_granted(&mut queue, rest[0]));
        assert!(!is_granted(&mut queue, rest[1]));
    }

    #[test]
    fn idle_flow_gets_no_credit() {
        let mut queue = FairQueue::new(1);
        for _ in 0..10 {
            let turn = enqueue(&mut queue, 1);
            assert!(is_granted(&mut queue, turn));
            queue.release(turn.0, 100 * MS);
        }
        let (one, other) = (enqueue(&mut queue, 1), enqueue(&mut queue, 2));
        assert!(is_granted(&mut queue, one));
        queue.release(one.0, 10 * MS);
        assert!(is_granted(&mut queue, other));
        queue.release(other.0, 200 * MS);
        let (one, other) = (enqueue(&mut queue, 1), enqueue(&mut queue, 2));
        assert!(is_granted(&mut queue, one), "the other was served for longer since");
        assert!(!is_granted(&mut queue, other));
    }

    #[test]
    fn cancelled_ticket_passes_its_permit_on() {
        let mut queue = FairQueue::new(1);
        let (granted, waiting, next) =
            (enqueue(&mut queue, 1), enqueue(&mut queue, 1), enqueue(&mut queue, 2));
        queue.cancel(waiting.0, waiting.1);
        queue.cancel(granted.0, granted.1);
        assert!(is_granted(&mut queue, next));
        queue.release(next.0, MS);
        assert_eq!(queue.free, 1);
        assert!(queue.granted.is_empty());
    }

    /// Random arrivals of three flows with turns of different lengths: each gets a third of the time while all wait.
    #[test]
    fn queue_divides_time_equally_between_busy_flows() {
        let mut queue = FairQueue::new(1);
        let lengths = [1u32, 7, 40];
        let mut served = [Duration::ZERO; 3];
        let mut waiting: Vec<Vec<(ComputeFlow, Ticket)>> =
            (0..3).map(|flow| (0..4).map(|_| enqueue(&mut queue, flow)).collect()).collect();
        for _ in 0..10_000 {
            let running = (0..3).find_map(|flow| {
                let place = waiting[flow].iter().position(|turn| is_granted(&mut queue, *turn))?;
                Some((flow, waiting[flow].remove(place)))
            });
            let (flow, turn) = running.expect("one has the permit");
            waiting[flow].push(enqueue(&mut queue, u8::try_from(flow).unwrap()));
            let length = MS * lengths[flow];
            served[flow] += length;
            queue.release(turn.0, length);
        }
        let (least, most) = (served.iter().min().unwrap(), served.iter().max().unwrap());
        assert!(*most - *least <= 80 * MS, "{served:?}");
    }
}
