//! API Priority and Fairness, without HTTP: decides which requests are executed now, queued or rejected.
//!
//! A request is classified by the first [`FlowSchema`] that it matches, which refers to a priority level. Each level
//! has seats; a request takes as many as its estimated work, or waits in one of the level's queues, which are served in
//! turn, so that a flow with many requests delays mainly itself. [`Controller`] is the entry point.
//!
//! # Design
//!
//! ```text
//! FlowSchemas, PriorityLevelConfigurations ── compiled on change ──▶ ArcSwap<Configuration>
//! request ─▶ classify: FlowSchema ─▶ estimate: seats ─▶ PriorityLevel (one mutex: QueueSet) ─▶ Admitted | Waiting | Rejected
//!                                                             ▲ limit: its shares, and seats borrowed every 10 s
//! ```
//!
//! - *In the server.* `chain/priority_and_fairness.rs` is the filter (`--enable-priority-and-fairness=false` replaces
//!   it by `MaxInFlight`). `server::flowcontrol::FlowControl` turns a request into a digest and work, and has the
//!   metrics and dumps. In the control plane, `config_producer` maintains the mandatory and suggested objects, and
//!   `config_consumer` applies all objects on each change and writes the condition `Dangling`. Long-running requests
//!   have no seats; a watch has seats until its initial state is sent (`WatchSeats`), a minute at most.
//! - *Work.* The seats of a list follow the bytes it reads; the cache knows count and size of a resource's objects. A
//!   write is followed by seats and time for notifying its watchers. The weights are constants of `estimator.rs`, each
//!   with the benchmark it comes from.
//! - *Interface.* [`Controller`]: `configure` takes the objects and returns conditions to write; `classify` finds the
//!   first matching FlowSchema (by precedence, then name); `start` returns seats, a place in a queue, or a rejection;
//!   `run` borrows and lends seats and wakes requests that wait for lingering ones.
//! - *Two layers.* `QueueSet` is a state machine with time as input: requests arrive, leave, finish; it returns the
//!   requests to wake. `PriorityLevel` puts it behind a mutex and makes futures of it. A test compares the state
//!   machine with a naive model under its own clock.
//! - *Fair queuing.* Virtual time R grows by min(requested seats, limit) / active queues. A queue stores the R at which
//!   its next request would be dispatched; the queue whose first request would finish first is served. A request's real
//!   duration is known at its end; until then it is estimated (`ESTIMATED_SERVICE_DURATION`), then the queue's R is
//!   corrected. R has 128 bits, so that it never has to be reset.
//! - *A queue without requests has no state*, so queues exist only while they are used, and their number in a
//!   PriorityLevelConfiguration costs nothing. The queues of a flow are dealt by a keyed hash: a client cannot compute
//!   another flow's queues (upstream: shuffle sharding).
//! - *Reserve* (not in the reference). A list keeps its seats until its client has read it, so one user's lists could
//!   block all small requests of a level. One seat in sixteen is only for requests of one seat; levels with fewer than
//!   sixteen seats have no reserve.
//! - *Seats.* `Admitted` holds a request's seats and returns them on drop, after the estimate's additional latency.
//!   `Waiting` holds a place in a queue and returns it on drop, before or after dispatch. So a request can be cancelled
//!   at any point.
//! - *Configuration* is compiled as a whole, as in the reference: a FlowSchema without its level is dangling and
//!   matches nothing; `exempt` and `catch-all` exist even if their objects are missing; a deleted level drains
//!   (quiescing) with its share and is retired when idle. A request that still finds a retired level through an old
//!   configuration is classified again.
//! - *Metrics.* Counters and histograms go to a `FlowObserver`, looked up once per FlowSchema; gauges and time-weighted
//!   histograms are kept by the level and read on demand (`gauges`, `dump`).
//! - *Bounds.* A request that does not wait takes two short locks of its own level, no other, and less than 1 µs. A
//!   waiting request holds 2 KiB at most. Dispatch is O(log queues).

mod admitted;
pub mod bootstrap;
mod configuration;
mod controller;
mod digest;
pub mod dump;
mod estimator;
mod gauges;
pub mod metrics;
#[cfg(test)]
mod notation;
mod observer;
mod priority_level;
mod queue_set;
#[cfg(test)]
mod random;
mod retry_after;
mod seat_seconds;
pub mod status;
mod timing;
mod watch_tracker;
mod work_estimate;

pub use admitted::{Admitted, Rejected, Started, Waiting};
pub use configuration::FlowSchema;
pub use controller::{
    BORROWING_ADJUSTMENT_PERIOD, Controller, Digested, Limits, SeatDemand, wait_until,
};
pub use digest::RequestDigest;
pub use estimator::{ListCost, ListRequest, ObjectStats, WorkEstimator, WorkKind};
pub use gauges::{Gauges, LevelGauges};
pub use observer::{ExecutionType, FlowObserver, Observer, RejectReason, Unobserved};
pub use seat_seconds::SeatSeconds;
pub use timing::TimingRatioHistogram;
pub use watch_tracker::{WatchRegistration, WatchTracker};
pub use work_estimate::WorkEstimate;

/// Name of the exempt level and of its schema.
pub const EXEMPT: &str = "exempt";
/// Name of the catch-all level and of its schema.
pub const CATCH_ALL: &str = "catch-all";
