//! Who is told what becomes of requests: metrics.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RejectReason {
    /// All seats are taken, and so are all places in its queue.
    QueueFull,
    /// All seats are taken, and its priority level has no queues.
    ConcurrencyLimit,
    /// It has waited for as long as it may.
    TimeOut,
    /// Its client went away while it waited.
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

/// How long a request's execution lasts, by what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExecutionType {
    /// Until it is answered.
    Regular,
    /// Until it has begun.
    Watch,
}

impl ExecutionType {
    /// Of a request with this verb.
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

/// Gives each flow schema who is told about its requests.
pub trait Observer: Send + Sync {
    /// Is asked for each flow schema when a configuration is compiled, not for each request.
    fn flow(&self, priority_level: &str, flow_schema: &str) -> Arc<dyn FlowObserver>;
}

/// Is told about the requests of one flow schema in one priority level.
///
/// Some of it is told while the level is locked: an observer adds to counters, and does not call
/// back. In brackets stand the metrics, all of which begin with `apiserver_flowcontrol_`.
pub trait FlowObserver: Send + Sync {
    /// A request is refused (`rejected_requests_total`).
    fn rejected(&self, _reason: RejectReason) {}

    /// A request is executed (`dispatched_requests_total`).
    fn dispatched(&self) {}

    /// So many more, or less, wait (`current_inqueue_requests`, `current_inqueue_seats`).
    fn in_queue(&self, _requests: i64, _seats: i64) {}

    /// So many more, or less, are executed (`current_executing_requests`;
    /// `current_executing_seats`).
    fn executing(&self, _requests: i64, _seats: i64) {}

    /// A request has come into a queue which has this length now
    /// (`request_queue_length_after_enqueue`).
    fn queue_length(&self, _length: usize) {}

    /// A request that is not exempt has waited for so long, if only for no time
    /// (`request_wait_duration_seconds`).
    fn waited(&self, _executed: bool, _time: Duration) {}

    /// A request was executed for so long (`request_execution_seconds`).
    fn executed(&self, _kind: ExecutionType, _time: Duration) {}

    /// The next request wants more seats than are free (`request_dispatch_no_accommodation_total`).
    fn no_accommodation(&self) {}

    /// A request is thought to need so many seats (`work_estimated_seats`).
    fn estimated_seats(&self, _seats: u32) {}

    /// A mutation is seen by so many watches (`watch_count_samples`). Whoever estimates tells it.
    fn watch_count(&self, _watches: usize) {}
}

/// Nobody is told.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn flow(&self, _priority_level: &str, _flow_schema: &str) -> Arc<dyn FlowObserver> {
        Arc::new(Unobserved)
    }
}

impl FlowObserver for Unobserved {}
