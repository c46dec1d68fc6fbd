//! API Priority and Fairness, without HTTP: decides which requests are executed now, queued or rejected.
//!
//! A request is classified by the first [`FlowSchema`] that it matches, which refers to a priority level. Each level
//! has seats; a request takes as many as its estimated work, or waits in one of the level's queues, which are served in
//! turn, so that a flow with many requests delays mainly itself. [`Controller`] is the entry point; `ARCHITECTURE.md`
//! describes the design.

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
