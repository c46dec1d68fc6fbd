//! Naive model of fair queuing, compared with the queue set on random arrivals.
//!
//! The model has a list of queues with lists of requests, recomputes every sum, examines every queue for each decision,
//! and goes through every point of time at which something happens.

use std::collections::{BTreeMap, VecDeque};

use super::*;
use crate::random::Random;

/// A request of the model, by the number of its arrival.
#[derive(Clone, Copy, Debug)]
struct Job {
    id: u64,
    initial: u64,
    last: u64,
    latency: u64,
    arrival_r: i128,
    started: u64,
    of_reserve: bool,
}

impl Job {
    fn seats(&self) -> u64 {
        self.initial.max(self.last)
    }

    fn work(&self) -> i128 {
        let guess = ESTIMATED_SERVICE_DURATION.as_nanos() as i128;
        i128::from(self.initial) * guess + i128::from(self.last) * i128::from(self.latency)
    }
}

#[derive(Default)]
struct ModelQueue {
    waiting: VecDeque<Job>,
    executing: Vec<Job>,
    /// Lingering seats: number, end, and whether they are the reserve's.
    lingering: Vec<(u64, u64, bool)>,
    start_r: i128,
}

impl ModelQueue {
    fn is_active(&self) -> bool {
        !self.waiting.is_empty() || !self.executing.is_empty()
    }

    fn seats_in_use(&self) -> u64 {
        let executing = self.executing.iter().map(Job::seats);
        executing.chain(self.lingering.iter().map(|(_, seats, _)| *seats)).sum()
    }

    fn bound(&mut self) {
        if let Some(oldest) = self.waiting.front() {
            self.start_r = self.start_r.max(oldest.arrival_r);
        }
    }
}

struct Model {
    queues: Vec<ModelQueue>,
    dealer: Dealer,
    length_limit: usize,
    limit: u64,
    r: i128,
    now: u64,
    last_served: usize,
    arrivals: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Executing,
    Waiting,
    Rejected,
}

impl Model {
    fn seats_in_use(&self) -> u64 {
        self.queues.iter().map(ModelQueue::seats_in_use).sum()
    }

    fn executing(&self) -> usize {
        self.queues.iter().map(|queue| queue.executing.len()).sum()
    }

    /// R grows by min(seat demand, limit) / active queues.
    fn advance(&mut self, to: u64) {
        loop {
            let ends = self.queues.iter().flat_map(|queue| queue.lingering.iter().map(|l| l.0));
            let next = ends.filter(|&end| end <= to).min().unwrap_or(to);
            let waiting = self.queues.iter().flat_map(|queue| &queue.waiting).map(Job::seats);
            let asked = waiting.sum::<u64>() + self.seats_in_use();
            let active = self.queues.iter().filter(|queue| queue.is_active()).count() as i128;
            if active > 0 {
                let time = i128::from(next - self.now);
                self.r += i128::from(asked.min(self.limit)) * time / active;
            }
            self.now = next;
            let mut released = false;
            for queue in &mut self.queues {
                // One at a time, as each release changes the growth of R, if only for no time.
                if let Some(at) = queue.lingering.iter().position(|(end, ..)| *end <= next) {
                    queue.lingering.remove(at);
                    released = true;
                    break;
                }
            }
            if !released && next == to {
                return;
            }
        }
    }

    fn arrive(&mut self, mut job: Job, hash: u64) -> Outcome {
        let hand: Vec<u32> = self.dealer.deal(hash).rotated(self.arrivals).collect();
        self.arrivals += 1;
        let work = |index: u32| self.queues[index as usize].waiting.iter().map(Job::work).sum();
        let chosen = hand.iter().copied().min_by_key(|&index| -> i128 { work(index) }).unwrap();
        let full = self.queues[chosen as usize].waiting.len() >= self.length_limit;
        if self.seats_in_use() >= self.limit && full {
            return Outcome::Rejected;
        }
        let queue = &mut self.queues[chosen as usize];
        if !queue.is_active() {
            queue.start_r = self.r;
        }
        job.arrival_r = self.r;
        queue.waiting.push_back(job);
        queue.bound();
        self.dispatch();
        let executing = self.queues.iter().flat_map(|queue| &queue.executing);
        match executing.into_iter().any(|other| other.id == job.id) {
            true => Outcome::Executing,
            false => Outcome::Waiting,
        }
    }

    fn reserve(&self) -> u64 {
        self.limit / u64::from(RESERVE)
    }

    fn reserve_in_use(&self) -> u64 {
        let executing = self.queues.iter().flat_map(|queue| &queue.executing);
        let lingering = self.queues.iter().flat_map(|queue| &queue.lingering);
        let executing = executing.filter(|job| job.of_reserve).count();
        (executing + lingering.filter(|(.., of_reserve)| *of_reserve).count()) as u64
    }

    /// The queue whose oldest job, if `wanted`, has the earliest virtual finish time.
    fn first(&self, after: usize, wanted: impl Fn(&Job) -> bool) -> Option<usize> {
        let count = self.queues.len();
        let mut best: Option<(i128, usize)> = None;
        for index in (1..=count).map(|step| (after + step) % count) {
            let queue = &self.queues[index];
            if let Some(oldest) = queue.waiting.front().filter(|job| wanted(job)) {
                let finish = queue.start_r + oldest.work();
                if best.is_none_or(|(least, _)| finish < least) {
                    best = Some((finish, index));
                }
            }
        }
        best.map(|(_, index)| index)
    }

    fn fits(&self, job: &Job) -> bool {
        let reserve = if job.seats() > 1 { self.reserve() } else { 0 };
        let in_use = self.seats_in_use() - self.reserve_in_use().min(reserve);
        match job.seats() > self.limit - reserve {
            true => self.executing() == 0,
            false => in_use + job.seats() <= self.limit - reserve,
        }
    }

    fn dispatch(&mut self) {
        while self.seats_in_use() < self.limit {
            let Some(mut index) = self.first(self.last_served, |_| true) else { return };
            if !self.fits(&self.queues[index].waiting[0]) {
                let last = self.queues.len() - 1;
                match self.first(last, |job| job.seats() == 1) {
                    Some(small) if self.reserve_in_use() < self.reserve() => index = small,
                    _ => return,
                }
            }
            let mut job = self.queues[index].waiting[0];
            job.of_reserve = job.seats() == 1 && self.reserve_in_use() < self.reserve();
            let work = job.work();
            if job.last > self.limit {
                job.latency = job.last * job.latency / self.limit;
                job.last = self.limit;
            }
            job.started = self.now;
            let queue = &mut self.queues[index];
            queue.waiting.pop_front();
            queue.executing.push(job);
            queue.start_r += work;
            queue.bound();
            self.last_served = index;
        }
    }

    fn finish(&mut self, id: u64) {
        let guess = ESTIMATED_SERVICE_DURATION.as_nanos() as i128;
        for queue in &mut self.queues {
            if let Some(at) = queue.executing.iter().position(|job| job.id == id) {
                let job = queue.executing.remove(at);
                let took = i128::from(self.now - job.started);
                queue.start_r -= i128::from(job.initial) * (guess - took);
                queue.bound();
                if job.latency > 0 {
                    queue.lingering.push((self.now + job.latency, job.seats(), job.of_reserve));
                }
            }
        }
        self.dispatch();
    }

    fn leave(&mut self, id: u64) {
        for queue in &mut self.queues {
            queue.waiting.retain(|job| job.id != id);
            queue.bound();
        }
        self.dispatch();
    }
}

/// The model and the queue set, side by side.
struct Pair {
    model: Model,
    bench: Bench,
    /// Slots of requests, by number.
    slots: BTreeMap<u64, Slot>,
}

impl Pair {
    fn new(random: &mut Random) -> Self {
        let deck = 1 + random.below(12) as i64;
        let hand = 1 + random.below(deck.min(4) as u64) as i64;
        let (length_limit, limit) = (1 + random.below(5), 1 + random.below(40));
        let dealer = Dealer::new(deck, hand).unwrap();
        let model = Model {
            queues: (0..deck).map(|_| ModelQueue::default()).collect(),
            dealer,
            length_limit: length_limit as usize,
            limit,
            r: 0,
            now: 0,
            last_served: 0,
            arrivals: 0,
        };
        let queuing = Queuing::Queue { dealer, length_limit: length_limit as u32 };
        let mut bench = Bench::new(queuing, limit as u32);
        // `compare` checks the invariants.
        bench.checked = false;
        Pair { model, bench, slots: BTreeMap::new() }
    }

    fn step(&mut self, id: u64, flows: u64, random: &mut Random) {
        let pause = match random.below(4) {
            0 => 0,
            1 => random.below(100_000),
            2 => random.below(3_000_000),
            _ => random.below(20_000_000),
        };
        let now = self.model.now + pause;
        self.model.advance(now);
        self.bench.at(Duration::from_nanos(now));
        let (waiting, executing): (Vec<u64>, Vec<u64>) =
            self.slots.keys().partition(|id| !self.bench.is_executing(self.slots[id]));
        let mut one_of =
            |ids: &[u64]| ids.get(random.below(ids.len().max(1) as u64) as usize).copied();
        match (one_of(&executing), one_of(&waiting), random.below(20)) {
            (Some(done), _, 0..8) => {
                self.model.finish(done);
                let slot = self.slots.remove(&done).unwrap();
                self.bench.finish(slot);
            }
            (_, Some(gone), 8..10) => {
                self.model.leave(gone);
                let slot = self.slots.remove(&gone).unwrap();
                assert!(self.bench.set.leave(self.bench.now, slot, RejectReason::TimeOut));
            }
            (_, _, 10) => {
                self.model.limit = 1 + random.below(40);
                let limit = self.model.limit as u32;
                self.model.dispatch();
                self.bench.set.set_limit(self.bench.now, limit, limit);
            }
            (_, _, 11) => {
                self.model.dispatch();
                self.bench.set.tick(self.bench.now);
            }
            _ => self.arrive(id, flows, random),
        }
        self.compare();
    }

    fn arrive(&mut self, id: u64, flows: u64, random: &mut Random) {
        let initial = if random.below(3) == 0 { 1 + random.below(12) } else { 1 };
        let last = if random.below(3) == 0 { random.below(12) } else { 0 };
        let latency = if last > 0 { random.below(30_000_000) } else { 0 };
        let hash = random.below(flows).wrapping_mul(0x1234_5678_9abc_def1);
        let job = Job { id, initial, last, latency, arrival_r: 0, started: 0, of_reserve: false };
        let estimate = WorkEstimate {
            initial_seats: initial as u32,
            final_seats: last as u32,
            additional_latency: Duration::from_nanos(latency),
        };
        let expected = self.model.arrive(job, hash);
        let found = match self.bench.arrive(hash, estimate) {
            Arrival::Executing(slot) => {
                self.slots.insert(id, slot);
                Outcome::Executing
            }
            Arrival::Waiting(slot) => {
                self.slots.insert(id, slot);
                Outcome::Waiting
            }
            Arrival::Rejected(_) => Outcome::Rejected,
        };
        assert_eq!(found, expected);
    }

    /// Checks that the same requests are executing and queued, in the same order, and that R is the same everywhere.
    fn compare(&self) {
        let set = &self.bench.set;
        set.check();
        assert_eq!(set.r().to_string(), shown(self.model.r));
        let numbers: BTreeMap<Slot, u64> =
            self.slots.iter().map(|(id, slot)| (*slot, *id)).collect();
        for (index, queue) in self.model.queues.iter().enumerate() {
            let real = set.queues().get(index as u32);
            let waiting: Vec<u64> = real
                .iter()
                .flat_map(|queue| queue.iter(set.requests()))
                .map(|slot| numbers[&slot])
                .collect();
            assert_eq!(waiting, queue.waiting.iter().map(|job| job.id).collect::<Vec<_>>());
            assert_eq!(real.map_or(0, |queue| queue.seats_in_use), queue.seats_in_use() as u32);
            if queue.is_active() {
                assert_eq!(real.unwrap().next_dispatch_r.to_string(), shown(queue.start_r));
            }
            for job in &queue.executing {
                assert!(self.bench.is_executing(self.slots[&job.id]), "{job:?}");
            }
        }
        assert_eq!(set.totals().executing as usize, self.model.executing());
        assert_eq!(u64::from(set.totals().seats_in_use), self.model.seats_in_use());
    }

    /// Finishes all requests, and checks that nothing is left.
    fn drain(mut self) {
        while !self.slots.is_empty() {
            let now = self.model.now + 1_000_000_000;
            self.model.advance(now);
            self.bench.at(Duration::from_nanos(now));
            let mut executing =
                self.slots.iter().filter(|(_, slot)| self.bench.is_executing(**slot));
            match executing.next().map(|(id, slot)| (*id, *slot)) {
                Some((id, slot)) => {
                    self.slots.remove(&id);
                    self.model.finish(id);
                    self.bench.finish(slot);
                }
                // The queued requests wait for lingering seats.
                None => {
                    assert!(self.bench.set.alarm().is_some(), "a request starves");
                    self.model.dispatch();
                    self.bench.tick();
                }
            }
            self.compare();
        }
        self.bench.at(Duration::from_nanos(self.model.now) + Duration::from_secs(3600)).tick();
        let totals = self.bench.set.totals();
        assert_eq!((totals.seats_in_use, totals.seats_waiting, totals.executing), (0, 0, 0));
        assert!(self.bench.set.queues().iter().next().is_none());
    }
}

fn shown(r: i128) -> String {
    let shown = r.max(0) / 10;
    format!("{}.{:08}ss", shown / 100_000_000, shown % 100_000_000)
}

#[test]
fn queues_are_served_as_the_model_says() {
    for seed in 0..2_000 {
        let mut random = Random::new(seed);
        let mut pair = Pair::new(&mut random);
        let flows = 1 + random.below(6);
        for id in 0..60 {
            pair.step(id, flows, &mut random);
        }
        pair.drain();
    }
}
