//! The metrics by their names, labels and buckets: what is to be registered.
//!
//! All names begin with `apiserver_flowcontrol_`. [`crate::FlowObserver`] and [`crate::Gauges`] say
//! which of their parts is which metric. Those that the reference hides for their age are left out.

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it tells.
    pub help: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it is.
    pub kind: Kind,
}

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A number.
    Gauge,
    /// A distribution, with these bounds.
    Histogram(&'static [f64]),
    /// A distribution over time ([`crate::TimingRatioHistogram`]), with these bounds.
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
/// Bounds of `read_vs_write_current_requests`, whose ratios are counted by who receives requests.
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

/// Requests that were refused.
pub const REJECTED_REQUESTS_TOTAL: Metric = counter(
    "apiserver_flowcontrol_rejected_requests_total",
    &["priority_level", "flow_schema", "reason"],
    "[BETA] Requests that were refused.",
);
/// Requests that were executed.
pub const DISPATCHED_REQUESTS_TOTAL: Metric = counter(
    "apiserver_flowcontrol_dispatched_requests_total",
    FLOW,
    "[BETA] Requests that were executed.",
);
/// Seats in use by seats, each nanosecond.
pub const PRIORITY_LEVEL_SEAT_UTILIZATION: Metric = timing(
    "apiserver_flowcontrol_priority_level_seat_utilization",
    &["phase", "priority_level"],
    SEAT_UTILIZATION,
    "[ALPHA] EXPERIMENTAL: Seats in use by seats, each nanosecond.",
);
/// Requests by how many could wait or be executed, each nanosecond.
pub const PRIORITY_LEVEL_REQUEST_UTILIZATION: Metric = timing(
    "apiserver_flowcontrol_priority_level_request_utilization",
    &["phase", "priority_level"],
    REQUEST_UTILIZATION,
    "[ALPHA] EXPERIMENTAL: Requests by how many could wait or be executed, each nanosecond.",
);
/// Requests that read or write by how many could, each nanosecond.
pub const READ_VS_WRITE_CURRENT_REQUESTS: Metric = timing(
    "apiserver_flowcontrol_read_vs_write_current_requests",
    &["phase", "request_kind"],
    READ_VS_WRITE,
    "[ALPHA] EXPERIMENTAL: Requests that read or write by how many could, each nanosecond.",
);
/// The progress meter R.
pub const CURRENT_R: Metric =
    gauge("apiserver_flowcontrol_current_r", LEVEL, "[ALPHA] The progress meter R.");
/// R at the last dispatch.
pub const DISPATCH_R: Metric =
    gauge("apiserver_flowcontrol_dispatch_r", LEVEL, "[ALPHA] R at the last dispatch.");
/// The start of the request that was dispatched last, in virtual time.
pub const LATEST_S: Metric = gauge(
    "apiserver_flowcontrol_latest_s",
    LEVEL,
    "[ALPHA] The start of the request that was dispatched last, in virtual time.",
);
/// The least and the most start of a queue's oldest request, in virtual time.
pub const NEXT_S_BOUNDS: Metric = gauge(
    "apiserver_flowcontrol_next_s_bounds",
    &["priority_level", "bound"],
    "[ALPHA] The least and the most start of a queue's oldest request, in virtual time.",
);
/// The same without the work under way.
pub const NEXT_DISCOUNTED_S_BOUNDS: Metric = gauge(
    "apiserver_flowcontrol_next_discounted_s_bounds",
    &["priority_level", "bound"],
    "[ALPHA] The same without the work under way.",
);
/// Requests that wait.
pub const CURRENT_INQUEUE_REQUESTS: Metric =
    gauge("apiserver_flowcontrol_current_inqueue_requests", FLOW, "[BETA] Requests that wait.");
/// Seats of requests that wait.
pub const CURRENT_INQUEUE_SEATS: Metric = gauge(
    "apiserver_flowcontrol_current_inqueue_seats",
    FLOW,
    "[ALPHA] Seats of requests that wait.",
);
/// Length of a queue as a request sees it that has come to it.
pub const REQUEST_QUEUE_LENGTH_AFTER_ENQUEUE: Metric = histogram(
    "apiserver_flowcontrol_request_queue_length_after_enqueue",
    FLOW,
    QUEUE_LENGTHS,
    "[ALPHA] Length of a queue as a request sees it that has come to it.",
);
/// Requests that are executed; watches while they begin.
pub const CURRENT_EXECUTING_REQUESTS: Metric = gauge(
    "apiserver_flowcontrol_current_executing_requests",
    FLOW,
    "[BETA] Requests that are executed; watches while they begin.",
);
/// Seats of requests that are executed; of watches while they begin.
pub const CURRENT_EXECUTING_SEATS: Metric = gauge(
    "apiserver_flowcontrol_current_executing_seats",
    FLOW,
    "[BETA] Seats of requests that are executed; of watches while they begin.",
);
/// Time that a request has waited.
pub const REQUEST_WAIT_DURATION_SECONDS: Metric = histogram(
    "apiserver_flowcontrol_request_wait_duration_seconds",
    &["priority_level", "flow_schema", "execute"],
    SECONDS,
    "[BETA] Time that a request has waited.",
);
/// Time that a request was executed; a watch until it began.
pub const REQUEST_EXECUTION_SECONDS: Metric = histogram(
    "apiserver_flowcontrol_request_execution_seconds",
    &["priority_level", "flow_schema", "type"],
    SECONDS,
    "[ALPHA] Time that a request was executed; a watch until it began.",
);
/// Watches that see a write.
pub const WATCH_COUNT_SAMPLES: Metric = histogram(
    "apiserver_flowcontrol_watch_count_samples",
    FLOW,
    WATCHES,
    "[ALPHA] Watches that see a write.",
);
/// How often R was set back, which it never is.
pub const EPOCH_ADVANCE_TOTAL: Metric = counter(
    "apiserver_flowcontrol_epoch_advance_total",
    &["priority_level", "success"],
    "[ALPHA] How often R was set back, which it never is.",
);
/// The most seats that a request was thought to need.
pub const WORK_ESTIMATED_SEATS: Metric = histogram(
    "apiserver_flowcontrol_work_estimated_seats",
    FLOW,
    SEATS,
    "[ALPHA] The most seats that a request was thought to need.",
);
/// How often the next request wanted more seats than were free.
pub const REQUEST_DISPATCH_NO_ACCOMMODATION_TOTAL: Metric = counter(
    "apiserver_flowcontrol_request_dispatch_no_accommodation_total",
    FLOW,
    "[ALPHA] How often the next request wanted more seats than were free.",
);
/// Seats of a priority level by its shares.
pub const NOMINAL_LIMIT_SEATS: Metric = gauge(
    "apiserver_flowcontrol_nominal_limit_seats",
    LEVEL,
    "[BETA] Seats of a priority level by its shares.",
);
/// Seats of a priority level that has lent all it may.
pub const LOWER_LIMIT_SEATS: Metric = gauge(
    "apiserver_flowcontrol_lower_limit_seats",
    LEVEL,
    "[ALPHA] Seats of a priority level that has lent all it may.",
);
/// Seats of a priority level that has borrowed all it may.
pub const UPPER_LIMIT_SEATS: Metric = gauge(
    "apiserver_flowcontrol_upper_limit_seats",
    LEVEL,
    "[ALPHA] Seats of a priority level that has borrowed all it may.",
);
/// Seats that could be used by those that there are, each nanosecond.
pub const DEMAND_SEATS: Metric = timing(
    "apiserver_flowcontrol_demand_seats",
    LEVEL,
    DEMAND_SEATS_BOUNDS,
    "[ALPHA] EXPERIMENTAL: Seats that could be used by those that there are, each nanosecond.",
);
/// The most seats that could be used in the last period.
pub const DEMAND_SEATS_HIGH_WATERMARK: Metric = gauge(
    "apiserver_flowcontrol_demand_seats_high_watermark",
    LEVEL,
    "[ALPHA] The most seats that could be used in the last period.",
);
/// The average of them, by time.
pub const DEMAND_SEATS_AVERAGE: Metric = gauge(
    "apiserver_flowcontrol_demand_seats_average",
    LEVEL,
    "[ALPHA] The average of them, by time.",
);
/// Their standard deviation, by time.
pub const DEMAND_SEATS_STDEV: Metric = gauge(
    "apiserver_flowcontrol_demand_seats_stdev",
    LEVEL,
    "[ALPHA] Their standard deviation, by time.",
);
/// The seats that are expected to be of use.
pub const DEMAND_SEATS_SMOOTHED: Metric = gauge(
    "apiserver_flowcontrol_demand_seats_smoothed",
    LEVEL,
    "[ALPHA] The seats that are expected to be of use.",
);
/// The seats that a priority level should have.
pub const TARGET_SEATS: Metric = gauge(
    "apiserver_flowcontrol_target_seats",
    LEVEL,
    "[ALPHA] The seats that a priority level should have.",
);
/// The part of its target that each priority level gets that may.
pub const SEAT_FAIR_FRAC: Metric = gauge(
    "apiserver_flowcontrol_seat_fair_frac",
    &[],
    "[ALPHA] The part of its target that each priority level gets that may.",
);
/// Seats of a priority level now.
pub const CURRENT_LIMIT_SEATS: Metric = gauge(
    "apiserver_flowcontrol_current_limit_seats",
    LEVEL,
    "[ALPHA] Seats of a priority level now.",
);

/// All of them.
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
