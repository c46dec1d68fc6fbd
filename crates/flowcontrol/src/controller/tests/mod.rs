//! Tests of the controller's public API. Time is paused unless a test advances it.

mod admission;
mod cancellation;
mod configuration;
mod limits;

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use kevel_clock::Clock;

use super::*;
use crate::dump::LevelDump;
use crate::observer::{FlowObserver, RejectReason, Unobserved};
use crate::{Started, notation};

/// Observer that sums up over all flows.
#[derive(Default)]
struct Counts {
    waiting: AtomicI64,
    seats_waiting: AtomicI64,
    executing: AtomicI64,
    seats_executing: AtomicI64,
    dispatched: AtomicI64,
    executed: AtomicI64,
    rejected: AtomicI64,
    cancelled: AtomicI64,
}

#[derive(Clone, Default)]
struct Counter(Arc<Counts>);

impl Observer for Counter {
    fn flow(&self, _: &str, _: &str) -> Arc<dyn FlowObserver> {
        Arc::new(self.clone())
    }
}

impl FlowObserver for Counter {
    fn rejected(&self, reason: RejectReason) {
        self.0.rejected.fetch_add(1, Relaxed);
        self.0.cancelled.fetch_add(i64::from(reason == RejectReason::Cancelled), Relaxed);
    }

    fn dispatched(&self) {
        self.0.dispatched.fetch_add(1, Relaxed);
    }

    fn in_queue(&self, requests: i64, seats: i64) {
        self.0.waiting.fetch_add(requests, Relaxed);
        self.0.seats_waiting.fetch_add(seats, Relaxed);
    }

    fn executing(&self, requests: i64, seats: i64) {
        self.0.executing.fetch_add(requests, Relaxed);
        self.0.seats_executing.fetch_add(seats, Relaxed);
    }

    fn executed(&self, _: ExecutionType, _: Duration) {
        self.0.executed.fetch_add(1, Relaxed);
    }
}

/// A controller with a configuration from text.
fn controller(seats: u32, configuration: &str) -> Arc<Controller> {
    let controller = Controller::new(seats, Arc::new(Unobserved));
    configure(&controller, configuration);
    controller
}

fn configure(controller: &Controller, configuration: &str) -> Digested {
    let (levels, schemas) = notation::parse(configuration);
    controller.configure(&levels, &schemas, Time::now(&Clock::system()))
}

/// One level with all seats but the mandatory levels', for all requests.
const ONE_LEVEL: &str = "
level one queue shares=95 lendable=0 borrowing=0 queues=8 hand=2 length=10
schema all 100 one ByUser
  for user=*
  on * * * * cluster
  at * *
";

/// A request of a user for a path.
fn by(user: &str) -> RequestDigest<'_> {
    RequestDigest { user, verb: "get", path: "/x", ..RequestDigest::default() }
}

fn later(seconds: u64) -> Instant {
    kevel_clock::timer_now() + Duration::from_secs(seconds)
}

fn start(controller: &Controller, user: &str, seats: u32) -> Started {
    let digest = by(user);
    let flow_schema = controller.classify(&digest);
    controller.start(&digest, flow_schema, WorkEstimate::seats(seats), later(15))
}

fn admitted(controller: &Controller, user: &str, seats: u32) -> Admitted {
    match start(controller, user, seats) {
        Started::Admitted(admitted) => admitted,
        other => panic!("{other:?}"),
    }
}

fn waiting(controller: &Controller, user: &str, seats: u32) -> Waiting {
    match start(controller, user, seats) {
        Started::Waiting(waiting) => waiting,
        other => panic!("{other:?}"),
    }
}

fn rejected(controller: &Controller, user: &str, seats: u32) -> Rejected {
    match start(controller, user, seats) {
        Started::Rejected(rejected) => rejected,
        other => panic!("{other:?}"),
    }
}

fn level(controller: &Controller, name: &str) -> Option<LevelDump> {
    controller.dump(false, Clock::system().now()).into_iter().find(|level| level.name == name)
}
