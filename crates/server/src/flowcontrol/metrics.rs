//! `apiserver_flowcontrol_*`: counters updated by requests, gauges on scrape.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use kevel_flowcontrol::metrics as names;
use kevel_flowcontrol::metrics::Kind;
use kevel_flowcontrol::{
    ExecutionType, FlowObserver, Gauges, LevelGauges, Observer, RejectReason, TimingRatioHistogram,
};

use super::execution::ExecutionPhase;
use super::read_vs_write::ReadVsWrite;
use crate::metrics::{
    Counter, Description, Family, FloatGauge, Gauge, Histogram, Metric, Metrics, Text,
};

/// Metric families.
pub(super) struct FlowMetrics {
    counted: Arc<Counted>,
    levels: Vec<(Arc<Family<FloatGauge>>, ReadGauge)>,
    bounds: Vec<(Arc<Family<FloatGauge>>, ReadBounds)>,
    fair_fraction: Arc<Family<FloatGauge>>,
    seat_utilization: Arc<Family<Timing>>,
    request_utilization: Arc<Family<Timing>>,
    demand_seats: Arc<Family<Timing>>,
    read_vs_write: Arc<Family<Timing>>,
    /// Priority levels that are exported.
    shown: Mutex<BTreeSet<String>>,
}

/// Families updated by flows.
struct Counted {
    rejected: Arc<Family<Counter>>,
    dispatched: Arc<Family<Counter>>,
    no_accommodation: Arc<Family<Counter>>,
    in_queue: Arc<Family<Gauge>>,
    in_queue_seats: Arc<Family<Gauge>>,
    executing: Arc<Family<Gauge>>,
    executing_seats: Arc<Family<Gauge>>,
    queue_length: Arc<Family<Histogram>>,
    waited: Arc<Family<Histogram>>,
    executed: Arc<Family<Histogram>>,
    watch_count: Arc<Family<Histogram>>,
    estimated_seats: Arc<Family<Histogram>>,
}

/// Reads a gauge of a priority level, if it has a value.
type ReadGauge = fn(&LevelGauges) -> Option<f64>;
/// Reads a minimum and maximum of a priority level, if it has them.
type ReadBounds = fn(&LevelGauges) -> Option<(f64, f64)>;

/// Gauges of a priority level.
const LEVEL_GAUGES: [(names::Metric, ReadGauge); 12] = [
    (names::NOMINAL_LIMIT_SEATS, |level| Some(level.limits.nominal.into())),
    (names::LOWER_LIMIT_SEATS, |level| Some(level.limits.lower.into())),
    (names::UPPER_LIMIT_SEATS, |level| Some(level.limits.upper.into())),
    (names::CURRENT_LIMIT_SEATS, |level| Some(level.limits.current.into())),
    (names::DEMAND_SEATS_AVERAGE, |level| Some(level.demand.average)),
    (names::DEMAND_SEATS_STDEV, |level| Some(level.demand.deviation)),
    (names::DEMAND_SEATS_HIGH_WATERMARK, |level| Some(level.demand.high_watermark.into())),
    (names::DEMAND_SEATS_SMOOTHED, |level| Some(level.demand.smoothed)),
    (names::TARGET_SEATS, |level| Some(level.target)),
    (names::CURRENT_R, |level| Some(level.r)),
    (names::DISPATCH_R, |level| level.last_dispatch.map(|(r, _)| r)),
    (names::LATEST_S, |level| level.last_dispatch.map(|(_, s)| s)),
];

/// Gauges with a minimum and a maximum.
const BOUND_GAUGES: [(names::Metric, ReadBounds); 2] = [
    (names::NEXT_S_BOUNDS, |level| level.next_s_bounds),
    (names::NEXT_DISCOUNTED_S_BOUNDS, |level| level.next_discounted_s_bounds),
];

const WAITING: &str = "waiting";
const EXECUTING: &str = "executing";
const BOUNDS: [&str; 2] = ["min", "max"];

impl FlowMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let counter = |metric| metrics.counter(description(metric));
        let gauge = |metric| metrics.gauge(description(metric));
        let float = |metric| metrics.family(description(metric), FloatGauge::default);
        let timing = |metric| metrics.family(description(metric), Timing::default);
        let histogram = |metric: names::Metric| {
            let bounds = match metric.kind {
                Kind::Histogram(bounds) | Kind::TimingHistogram(bounds) => bounds,
                Kind::Counter | Kind::Gauge => &[],
            };
            metrics.histogram(description(metric), bounds)
        };
        let counted = Counted {
            rejected: counter(names::REJECTED_REQUESTS_TOTAL),
            dispatched: counter(names::DISPATCHED_REQUESTS_TOTAL),
            no_accommodation: counter(names::REQUEST_DISPATCH_NO_ACCOMMODATION_TOTAL),
            in_queue: gauge(names::CURRENT_INQUEUE_REQUESTS),
            in_queue_seats: gauge(names::CURRENT_INQUEUE_SEATS),
            executing: gauge(names::CURRENT_EXECUTING_REQUESTS),
            executing_seats: gauge(names::CURRENT_EXECUTING_SEATS),
            queue_length: histogram(names::REQUEST_QUEUE_LENGTH_AFTER_ENQUEUE),
            waited: histogram(names::REQUEST_WAIT_DURATION_SECONDS),
            executed: histogram(names::REQUEST_EXECUTION_SECONDS),
            watch_count: histogram(names::WATCH_COUNT_SAMPLES),
            estimated_seats: histogram(names::WORK_ESTIMATED_SEATS),
        };
        FlowMetrics {
            counted: Arc::new(counted),
            levels: LEVEL_GAUGES.map(|(metric, read)| (float(metric), read)).into(),
            bounds: BOUND_GAUGES.map(|(metric, read)| (float(metric), read)).into(),
            fair_fraction: float(names::SEAT_FAIR_FRAC),
            seat_utilization: timing(names::PRIORITY_LEVEL_SEAT_UTILIZATION),
            request_utilization: timing(names::PRIORITY_LEVEL_REQUEST_UTILIZATION),
            demand_seats: timing(names::DEMAND_SEATS),
            read_vs_write: timing(names::READ_VS_WRITE_CURRENT_REQUESTS),
            shown: Mutex::default(),
        }
    }

    /// Publishes the gauges.
    pub(super) fn publish(&self, gauges: &Gauges) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let levels: BTreeSet<String> =
            gauges.levels.iter().map(|level| level.name.clone()).collect();
        shown.difference(&levels).for_each(|gone| self.remove(gone));
        *shown = levels;
        self.fair_fraction.with(&[]).set(gauges.fair_fraction);
        gauges.levels.iter().for_each(|level| self.publish_level(level));
    }

    fn publish_level(&self, level: &LevelGauges) {
        let name = level.name.as_str();
        for (family, read) in &self.levels {
            if let Some(value) = read(level) {
                family.with(&[name]).set(value);
            }
        }
        for (family, read) in &self.bounds {
            // Without queued requests there are no bounds.
            let (least, most) = read(level).unwrap_or_default();
            for (bound, value) in BOUNDS.iter().zip([least, most]) {
                family.with(&[name, bound]).set(value);
            }
        }
        self.seat_utilization.with(&[EXECUTING, name]).set(&level.seat_utilization);
        for (phase, histogram) in [
            (WAITING, &level.request_utilization_waiting),
            (EXECUTING, &level.request_utilization_executing),
        ] {
            self.request_utilization.with(&[phase, name]).set(histogram);
        }
        self.demand_seats.with(&[name]).set(&level.demand_seats);
    }

    pub(super) fn publish_read_vs_write(&self, requests: &ReadVsWrite) {
        for (phase, phase_name) in
            [(ExecutionPhase::Waiting, WAITING), (ExecutionPhase::Executing, EXECUTING)]
        {
            for (mutating, kind) in [(false, "readOnly"), (true, "mutating")] {
                let histogram = requests.read(phase, mutating);
                self.read_vs_write.with(&[phase_name, kind]).set(&histogram);
            }
        }
    }

    /// Removes the series of a priority level.
    fn remove(&self, level: &str) {
        self.levels.iter().for_each(|(family, _)| family.remove(&[level]));
        for bound in BOUNDS {
            self.bounds.iter().for_each(|(family, _)| family.remove(&[level, bound]));
        }
        for phase in [WAITING, EXECUTING] {
            self.seat_utilization.remove(&[phase, level]);
            self.request_utilization.remove(&[phase, level]);
        }
        self.demand_seats.remove(&[level]);
    }
}

fn description(metric: names::Metric) -> Description {
    Description { name: metric.name, help: metric.help, labels: metric.labels }
}

impl Observer for FlowMetrics {
    fn flow(&self, priority_level: &str, flow_schema: &str) -> Arc<dyn FlowObserver> {
        Arc::new(Flow {
            counted: self.counted.clone(),
            labels: [priority_level.to_owned(), flow_schema.to_owned()],
            dispatched: OnceLock::new(),
            no_accommodation: OnceLock::new(),
            in_queue: OnceLock::new(),
            in_queue_seats: OnceLock::new(),
            executing: OnceLock::new(),
            executing_seats: OnceLock::new(),
            queue_length: OnceLock::new(),
            waited: Default::default(),
            executed: Default::default(),
            watch_count: OnceLock::new(),
            estimated_seats: OnceLock::new(),
        })
    }
}

/// Series of a flow schema, created when first used.
struct Flow {
    counted: Arc<Counted>,
    labels: [String; 2],
    dispatched: OnceLock<Arc<Counter>>,
    no_accommodation: OnceLock<Arc<Counter>>,
    in_queue: OnceLock<Arc<Gauge>>,
    in_queue_seats: OnceLock<Arc<Gauge>>,
    executing: OnceLock<Arc<Gauge>>,
    executing_seats: OnceLock<Arc<Gauge>>,
    queue_length: OnceLock<Arc<Histogram>>,
    /// Wait of requests not executed, and of executed ones.
    waited: [OnceLock<Arc<Histogram>>; 2],
    /// Duration of regular requests, and of watches.
    executed: [OnceLock<Arc<Histogram>>; 2],
    watch_count: OnceLock<Arc<Histogram>>,
    estimated_seats: OnceLock<Arc<Histogram>>,
}

impl Flow {
    fn of<'a, M: Metric>(&self, series: &'a OnceLock<Arc<M>>, family: &Family<M>) -> &'a M {
        let [level, schema] = &self.labels;
        series.get_or_init(|| family.with(&[level, schema]))
    }

    /// A series with one more label.
    fn with<'a, M: Metric>(
        &self,
        series: &'a OnceLock<Arc<M>>,
        family: &Family<M>,
        label: &str,
    ) -> &'a M {
        let [level, schema] = &self.labels;
        series.get_or_init(|| family.with(&[level, schema, label]))
    }
}

#[allow(clippy::cast_precision_loss)] // Lengths of queues and numbers of watches.
impl FlowObserver for Flow {
    fn rejected(&self, reason: RejectReason) {
        let [level, schema] = &self.labels;
        self.counted.rejected.with(&[level, schema, reason.as_str()]).increment();
    }

    fn dispatched(&self) {
        self.of(&self.dispatched, &self.counted.dispatched).increment();
    }

    fn in_queue(&self, requests: i64, seats: i64) {
        self.of(&self.in_queue, &self.counted.in_queue).add(requests);
        self.of(&self.in_queue_seats, &self.counted.in_queue_seats).add(seats);
    }

    fn executing(&self, requests: i64, seats: i64) {
        self.of(&self.executing, &self.counted.executing).add(requests);
        self.of(&self.executing_seats, &self.counted.executing_seats).add(seats);
    }

    fn queue_length(&self, length: usize) {
        self.of(&self.queue_length, &self.counted.queue_length).observe(length as f64);
    }

    fn waited(&self, executed: bool, time: Duration) {
        let [refused, served] = &self.waited;
        let (series, label) = if executed { (served, "true") } else { (refused, "false") };
        self.with(series, &self.counted.waited, label).observe(time.as_secs_f64());
    }

    fn executed(&self, kind: ExecutionType, time: Duration) {
        let [regular, watch] = &self.executed;
        let series = match kind {
            ExecutionType::Regular => regular,
            ExecutionType::Watch => watch,
        };
        self.with(series, &self.counted.executed, kind.as_str()).observe(time.as_secs_f64());
    }

    fn no_accommodation(&self) {
        self.of(&self.no_accommodation, &self.counted.no_accommodation).increment();
    }

    fn estimated_seats(&self, seats: u32) {
        self.of(&self.estimated_seats, &self.counted.estimated_seats).observe(seats.into());
    }

    fn watch_count(&self, watches: usize) {
        self.of(&self.watch_count, &self.counted.watch_count).observe(watches as f64);
    }
}

/// A histogram over time, as last read.
#[derive(Debug, Default)]
struct Timing(Mutex<Option<TimingRatioHistogram>>);

impl Timing {
    fn set(&self, histogram: &TimingRatioHistogram) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(histogram.clone());
    }
}

#[allow(clippy::cast_precision_loss)] // Prometheus counts in floats.
impl Metric for Timing {
    const TYPE: &'static str = "histogram";

    fn write(&self, text: &mut Text, name: &str, labels: &str) {
        let histogram = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(histogram) = &*histogram else { return };
        let buckets = histogram.cumulative();
        for (bound, count) in &buckets {
            text.bucket(name, labels, *bound, *count as f64);
        }
        text.sample(name, "_sum", labels, histogram.sum());
        let count = buckets.last().map_or(0, |last| last.1);
        text.sample(name, "_count", labels, count as f64);
    }
}
