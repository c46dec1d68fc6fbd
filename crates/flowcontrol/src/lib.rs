//! Priority and fairness, without HTTP: who is served now, who waits, and who is refused.
//!
//! A request is classified by the first [`FlowSchema`] that it matches, which leads to a priority
//! level. Each level has seats; a request takes as many as it is work, or waits in one of the
//! level's queues, which are served in turn, so that one who asks a lot waits for itself.
//! [`Controller`] is where to begin; `ARCHITECTURE.md` says how it is built.

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

/// The name of the level that has no limits, and of the schema that leads there.
pub const EXEMPT: &str = "exempt";
/// The name of the level of last resort, and of the schema that leads there.
pub const CATCH_ALL: &str = "catch-all";
