//! Metrics of priority and fairness: names, labels and buckets, for registration.
//!
//! All names begin with `apiserver_flowcontrol_`. [`crate::FlowObserver`] and [`crate::Gauges`] name the metric of each
//! of their parts. Metrics that the reference hides as deprecated are left out.

/// Description of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// Name.
    pub name: &'static str,
    /// Help text.
    pub help: &'static str,
    /// Names of the labels.
    pub labels: &'static [&'static str],
    /// Type.
    pub kind: Kind,
}

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Counter.
    Counter,
    /// Gauge.
    Gauge,
    /// Histogram with these bucket bounds.
    Histogram(&'static [f64]),
    /// Time-weighted histogram ([`crate::TimingRatioHistogram`]) with these bucket bounds.
    TimingHistogram(&'static [f64]),
}

const LEVEL: &[&str] = &["priority_level"];
const FLOW: &[&str] = &["priority_level", "flow_schema"];
const QUEUE_LENGTHS: &[f64] = &[0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];
const WATCHES: &[f64] = &[0.0, 1.0, 10.0, 100.0, 1000.0, 10_000.0];
const SEATS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0];
const SECONDS: &[f64] = &[0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];
/// Bounds of `priority_level_request_utilization`.
pub(crate) const REQUEST_UTILIZATION: &[f64] =
    &[0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0];
/// Bounds of `priority_level_seat_utilization`.
pub(crate) const SEAT_UTILIZATION: &[f64] =
    &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];
/// Bounds of `demand_seats`.
pub(crate) const DEMAND_SEATS_BOUNDS: &[f64] =
    &[0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0, 6.0];
/// Bounds of `read_vs_write_current_requests`, which the HTTP filter observes.
pub const READ_VS_WRITE: &[f64] =
    &[0.0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, help, labels, kind: Kind::Counter }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, help, labels, kind: Kind::Gauge }
}

const fn histogram(
    name: &'static str,
    labels: &'static [&'static str],
    bounds: &'static [f64],
    help: &'static str,
) -> Metric {
    Metric { name, help, labels, kind: Kind::Histogram(bounds) }
}

const fn timing(
    name: &'static str,
    labels: &'static [&'static str],
    bounds: &'static [f64],
    help: &'static str,
) -> Metric {
    Metric { name, help, labels, kind: Kind::TimingHistogram(bounds) }
}

/// Rejected requests.
pub const REJECTED_REQUESTS_TOTAL: Metric = counter(
    "apiserver_flowcontrol_rejected_requests_total",
    &["priority_level", "flow_schema", "reason"],
    "[BETA] Rejected requests.",
);
/// Dispatched requests.
pub const DISPATCHED_REQUESTS_TOTAL: Metric =
    counter("apiserver_flowcontrol_dispatched_requests_total", FLOW, "[BETA] Executed requests.");
/// Ratio of seats in use to seats, weighted by time.
pub const PRIORITY_LEVEL_SEAT_UTILIZATION: Metric = timing(
    "apiserver_flowcontrol_priority_level_seat_utilization",
    &["phase", "priority_level"],
    SEAT_UTILIZATION,
    "[ALPHA] EXPERIMENTAL: Seats in use relative to the level's seats, per nanosecond.",
);
/// Ratio of requests to the maximum number queued or executing, weighted by time.
pub const PRIORITY_LEVEL_REQUEST_UTILIZATION: Metric = timing(
    "apiserver_flowcontrol_priority_level_request_utilization",
    &["phase", "priority_level"],
    REQUEST_UTILIZATION,
    "[ALPHA] EXPERIMENTAL: Requests relative to the limit of queued or executing requests, per nanosecond.",
);
/// Ratio of read-only or mutating requests to the maximum, weighted by time.
pub const READ_VS_WRITE_CURRENT_REQUESTS: Metric = timing(
    "apiserver_flowcontrol_read_vs_write_current_requests",
    &["phase", "request_kind"],
    READ_VS_WRITE,
    "[ALPHA] EXPERIMENTAL: Read or write requests relative to their limit, per nanosecond.",
);
/// The progress meter R.
pub const CURRENT_R: Metric =
    gauge("apiserver_flowcontrol_current_r", LEVEL, "[ALPHA] The progress meter R.");
/// R at the last dispatch.
pub const DISPATCH_R: Metric =
    gauge("apiserver_flowcontrol_dispatch_r", LEVEL, "[ALPHA] R at the last dispatch.");
/// Virtual start time (S) of the last dispatched request.
pub const LATEST_S: Metric = gauge(
    "apiserver_flowcontrol_latest_s",
    LEVEL,
    "[ALPHA] Virtual start time of the request that was dispatched last.",
);
/// Minimum and maximum virtual start time (S) of the queues' oldest requests.
pub const NEXT_S_BOUNDS: Metric = gauge(
    "apiserver_flowcontrol_next_s_bounds",
    &["priority_level", "bound"],
    "[ALPHA] Smallest and largest virtual start time of a queue's oldest request.",
);
/// Minimum and maximum virtual start time (S) of the queues' oldest requests, less the work under way.
pub const NEXT_DISCOUNTED_S_BOUNDS: Metric = gauge(
    "apiserver_flowcontrol_next_discounted_s_bounds",
    &["priority_level", "bound"],
    "[ALPHA] Smallest and largest virtual start time of a queue's oldest request, without the work in progress.",
);
/// Queued requests.
pub const CURRENT_INQUEUE_REQUESTS: Metric =
    gauge("apiserver_flowcontrol_current_inqueue_requests", FLOW, "[BETA] Queued requests.");
/// Seats of queued requests.
pub const CURRENT_INQUEUE_SEATS: Metric =
    gauge("apiserver_flowcontrol_current_inqueue_seats", FLOW, "[ALPHA] Seats of queued requests.");
/// Queue length after a request was enqueued.
pub const REQUEST_QUEUE_LENGTH_AFTER_ENQUEUE: Metric = histogram(
    "apiserver_flowcontrol_request_queue_length_after_enqueue",
    FLOW,
    QUEUE_LENGTHS,
    "[ALPHA] Length of a queue when a request is added to it.",
);
/// Executing requests; watches only during initialization.
pub const CURRENT_EXECUTING_REQUESTS: Metric = gauge(
    "apiserver_flowcontrol_current_executing_requests",
    FLOW,
    "[BETA] Executing requests; watches during their initialization.",
);
/// Seats of executing requests; of watches only during initialization.
pub const CURRENT_EXECUTING_SEATS: Metric = gauge(
    "apiserver_flowcontrol_current_executing_seats",
    FLOW,
    "[BETA] Seats of executing requests, and of watches during their initialization.",
);
/// Time of a request in the queue.
pub const REQUEST_WAIT_DURATION_SECONDS: Metric = histogram(
    "apiserver_flowcontrol_request_wait_duration_seconds",
    &["priority_level", "flow_schema", "execute"],
    SECONDS,
    "[BETA] Seconds that a request spent in a queue.",
);
/// Execution time of a request; of a watch, its initialization.
pub const REQUEST_EXECUTION_SECONDS: Metric = histogram(
    "apiserver_flowcontrol_request_execution_seconds",
    &["priority_level", "flow_schema", "type"],
    SECONDS,
    "[ALPHA] Seconds that a request was executed; for a watch, until it was initialized.",
);
/// Number of watches that a write sends events to.
pub const WATCH_COUNT_SAMPLES: Metric = histogram(
    "apiserver_flowcontrol_watch_count_samples",
    FLOW,
    WATCHES,
    "[ALPHA] Watches that see a write.",
);
/// Number of resets of R, which never happen here.
pub const EPOCH_ADVANCE_TOTAL: Metric = counter(
    "apiserver_flowcontrol_epoch_advance_total",
    &["priority_level", "success"],
    "[ALPHA] Epoch advances of the progress meter R; always 0.",
);
/// Estimated maximum seats of a request.
pub const WORK_ESTIMATED_SEATS: Metric = histogram(
    "apiserver_flowcontrol_work_estimated_seats",
    FLOW,
    SEATS,
    "[ALPHA] Largest estimate of a request's seats.",
);
/// Number of times that the next request needed more seats than were free.
pub const REQUEST_DISPATCH_NO_ACCOMMODATION_TOTAL: Metric = counter(
    "apiserver_flowcontrol_request_dispatch_no_accommodation_total",
    FLOW,
    "[ALPHA] Dispatch attempts whose next request needed more seats than were free.",
);
/// Nominal seats of a priority level.
pub const NOMINAL_LIMIT_SEATS: Metric = gauge(
    "apiserver_flowcontrol_nominal_limit_seats",
    LEVEL,
    "[BETA] Seats of a priority level by its shares.",
);
/// Lower limit of a priority level's seats: with the maximum lent.
pub const LOWER_LIMIT_SEATS: Metric = gauge(
    "apiserver_flowcontrol_lower_limit_seats",
    LEVEL,
    "[ALPHA] Lower bound of a priority level's seats, without all that it may lend.",
);
/// Upper limit of a priority level's seats: with the maximum borrowed.
pub const UPPER_LIMIT_SEATS: Metric = gauge(
    "apiserver_flowcontrol_upper_limit_seats",
    LEVEL,
    "[ALPHA] Upper bound of a priority level's seats, with all that it may borrow.",
);
/// Seat demand (seats in use and queued), weighted by time.
pub const DEMAND_SEATS: Metric = timing(
    "apiserver_flowcontrol_demand_seats",
    LEVEL,
    DEMAND_SEATS_BOUNDS,
    "[ALPHA] EXPERIMENTAL: Seats in demand relative to the level's nominal seats, per nanosecond.",
);
/// Maximum seat demand in the last period.
pub const DEMAND_SEATS_HIGH_WATERMARK: Metric = gauge(
    "apiserver_flowcontrol_demand_seats_high_watermark",
    LEVEL,
    "[ALPHA] Largest number of seats in demand in the last period.",
);
/// Time-weighted average seat demand in the last period.
pub const DEMAND_SEATS_AVERAGE: Metric = gauge(
    "apiserver_flowcontrol_demand_seats_average",
    LEVEL,
    "[ALPHA] Time-weighted average of the seats in demand.",
);
/// Time-weighted standard deviation of the seat demand in the last period.
pub const DEMAND_SEATS_STDEV: Metric = gauge(
    "apiserver_flowcontrol_demand_seats_stdev",
    LEVEL,
    "[ALPHA] Time-weighted standard deviation of the seats in demand.",
);
/// Smoothed seat demand.
pub const DEMAND_SEATS_SMOOTHED: Metric = gauge(
    "apiserver_flowcontrol_demand_seats_smoothed",
    LEVEL,
    "[ALPHA] Smoothed demand for seats.",
);
/// Target seats of a priority level.
pub const TARGET_SEATS: Metric = gauge(
    "apiserver_flowcontrol_target_seats",
    LEVEL,
    "[ALPHA] Target number of seats of a priority level.",
);
/// Fraction of its target that each priority level gets, unless a bound limits it.
pub const SEAT_FAIR_FRAC: Metric = gauge(
    "apiserver_flowcontrol_seat_fair_frac",
    &[],
    "[ALPHA] Fraction of its target that each priority level gets.",
);
/// Present seats of a priority level.
pub const CURRENT_LIMIT_SEATS: Metric = gauge(
    "apiserver_flowcontrol_current_limit_seats",
    LEVEL,
    "[ALPHA] Current seats of a priority level.",
);

/// All metrics.
pub const METRICS: &[Metric] = &[
    REJECTED_REQUESTS_TOTAL,
    DISPATCHED_REQUESTS_TOTAL,
    PRIORITY_LEVEL_SEAT_UTILIZATION,
    PRIORITY_LEVEL_REQUEST_UTILIZATION,
    READ_VS_WRITE_CURRENT_REQUESTS,
    CURRENT_R,
    DISPATCH_R,
    LATEST_S,
    NEXT_S_BOUNDS,
    NEXT_DISCOUNTED_S_BOUNDS,
    CURRENT_INQUEUE_REQUESTS,
    CURRENT_INQUEUE_SEATS,
    REQUEST_QUEUE_LENGTH_AFTER_ENQUEUE,
    CURRENT_EXECUTING_REQUESTS,
    CURRENT_EXECUTING_SEATS,
    REQUEST_WAIT_DURATION_SECONDS,
    REQUEST_EXECUTION_SECONDS,
    WATCH_COUNT_SAMPLES,
    EPOCH_ADVANCE_TOTAL,
    WORK_ESTIMATED_SEATS,
    REQUEST_DISPATCH_NO_ACCOMMODATION_TOTAL,
    NOMINAL_LIMIT_SEATS,
    LOWER_LIMIT_SEATS,
    UPPER_LIMIT_SEATS,
    DEMAND_SEATS,
    DEMAND_SEATS_HIGH_WATERMARK,
    DEMAND_SEATS_AVERAGE,
    DEMAND_SEATS_STDEV,
    DEMAND_SEATS_SMOOTHED,
    TARGET_SEATS,
    SEAT_FAIR_FRAC,
    CURRENT_LIMIT_SEATS,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_once_and_bounds_ascend() {
        let mut names: Vec<_> = METRICS.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), METRICS.len()), (32, 32));
        for metric in METRICS {
            assert!(metric.name.starts_with("apiserver_flowcontrol_"), "{}", metric.name);
            let maturity = ["[ALPHA] ", "[BETA] "];
            assert!(maturity.iter().any(|said| metric.help.starts_with(said)), "{}", metric.name);
            if let Kind::Histogram(bounds) | Kind::TimingHistogram(bounds) = metric.kind {
                assert!(bounds.is_sorted_by(|a, b| a < b), "{}", metric.name);
            }
        }
    }
}
