//! Observers of requests, for metrics.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Reason of a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RejectReason {
    /// All seats are in use, and the request's queue is full.
    QueueFull,
    /// All seats are in use, and the priority level has no queues.
    ConcurrencyLimit,
    /// The request reached its wait limit.
    TimeOut,
    /// The client went away while the request was queued.
    Cancelled,
}

impl RejectReason {
    /// The value of the metrics' label `reason`.
    pub const fn as_str(self) -> &'static str {
        match self {
            RejectReason::QueueFull => "queue-full",
            RejectReason::ConcurrencyLimit => "concurrency-limit",
            RejectReason::TimeOut => "time-out",
            RejectReason::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Execution type of a request, which determines the end of its execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExecutionType {
    /// Ends with the response.
    Regular,
    /// Ends with the initialization of the watch.
    Watch,
}

impl ExecutionType {
    /// Execution type of a request with this verb.
    pub fn of_verb(verb: &str) -> Self {
        match verb {
            "watch" => ExecutionType::Watch,
            _ => ExecutionType::Regular,
        }
    }

    /// The value of the metrics' label `type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            ExecutionType::Regular => "regular",
            ExecutionType::Watch => "watch",
        }
    }
}

/// Source of the observers of flow schemas.
pub trait Observer: Send + Sync {
    /// Returns the observer of a flow schema; called when a configuration is compiled, not for each request.
    fn flow(&self, priority_level: &str, flow_schema: &str) -> Arc<dyn FlowObserver>;
}

/// Observer of the requests of one flow schema in one priority level.
///
/// Some methods are called while the level is locked: an observer adds to counters, and does not call back. Parentheses
/// name the metrics, all of which begin with `apiserver_flowcontrol_`.
pub trait FlowObserver: Send + Sync {
    /// A request is rejected (`rejected_requests_total`).
    fn rejected(&self, _reason: RejectReason) {}

    /// A request is dispatched (`dispatched_requests_total`).
    fn dispatched(&self) {}

    /// Change of the queued requests and their seats (`current_inqueue_requests`, `current_inqueue_seats`).
    fn in_queue(&self, _requests: i64, _seats: i64) {}

    /// Change of the executing requests and their seats (`current_executing_requests`, `current_executing_seats`).
    fn executing(&self, _requests: i64, _seats: i64) {}

    /// A request was enqueued; the queue has this length now (`request_queue_length_after_enqueue`).
    fn queue_length(&self, _length: usize) {}

    /// Queue time of a request that is not exempt, also if zero (`request_wait_duration_seconds`).
    fn waited(&self, _executed: bool, _time: Duration) {}

    /// Execution time of a request (`request_execution_seconds`).
    fn executed(&self, _kind: ExecutionType, _time: Duration) {}

    /// The next request needs more seats than are free (`request_dispatch_no_accommodation_total`).
    fn no_accommodation(&self) {}

    /// Estimated seats of a request (`work_estimated_seats`).
    fn estimated_seats(&self, _seats: u32) {}

    /// Number of watches that a mutation sends events to (`watch_count_samples`). Called by the estimating filter.
    fn watch_count(&self, _watches: usize) {}
}

/// Observer that does nothing.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn flow(&self, _priority_level: &str, _flow_schema: &str) -> Arc<dyn FlowObserver> {
        Arc::new(Unobserved)
    }
}

impl FlowObserver for Unobserved {}
