//! Debug endpoints `/debug/api_priority_and_fairness/dump_*`.

mod table;
#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kevel_api::duration;
use kevel_api::time::Time;
use kevel_clock::timer_now;
use tokio::time::Instant;

use self::table::Table;
use crate::controller::Controller;
use crate::priority_level::PriorityLevel;
use crate::queue_set::{QueueSet, Queuing, Request};
use crate::seat_seconds::SeatSeconds;
use crate::work_estimate::WorkEstimate;

/// Maximum number of queues of a level up to which empty ones are shown: a level may have millions.
const MAX_SHOWN_QUEUES: u32 = 10_000;

/// State of a priority level.
#[derive(Clone, Debug, Default)]
pub struct LevelDump {
    /// Name of the level.
    pub name: String,
    /// Whether the level has no queued or executing requests.
    pub idle: bool,
    /// Whether the level was removed and drains.
    pub quiescing: bool,
    /// Queued requests.
    pub waiting: u32,
    /// Executing requests.
    pub executing: u32,
    /// Seats of executing requests, and lingering seats.
    pub seats_in_use: u32,
    /// Seats of queued requests.
    pub seats_waiting: u32,
    /// Requests dispatched since the start.
    pub dispatched: u64,
    /// Requests rejected since the start.
    pub rejected: u64,
    /// Rejected requests that reached the wait limit.
    pub timed_out: u64,
    /// Rejected requests whose client went away.
    pub cancelled: u64,
    /// Its queues, by index.
    pub queues: Vec<QueueDump>,
    /// Executing requests that came through no queue.
    pub queueless: Vec<RequestDump>,
}

/// State of a queue.
#[derive(Clone, Debug, Default)]
pub struct QueueDump {
    /// Index of the queue.
    pub index: u32,
    /// Queued requests, the oldest first.
    pub waiting: Vec<RequestDump>,
    /// Executing requests.
    pub executing: Vec<RequestDump>,
    /// Seats of the executing requests, and lingering seats.
    pub seats_in_use: u32,
    /// R at which its next request would be dispatched; 0 for an inactive queue.
    pub next_dispatch_r: SeatSeconds,
    /// Sum of the queued requests' initial seats.
    pub initial_seats_sum: u32,
    /// Sum of the queued requests' maximum seats.
    pub max_seats_sum: u32,
    /// Sum of the queued requests' work.
    pub total_work_sum: SeatSeconds,
}

/// A queued or executing request.
#[derive(Clone, Debug)]
pub struct RequestDump {
    /// FlowSchema of the request.
    pub flow_schema: String,
    /// Flow distinguisher.
    pub flow_distinguisher: String,
    /// Time of arrival.
    pub arrived: SystemTime,
    /// Time of dispatch.
    pub started: Option<SystemTime>,
    /// Estimated work.
    pub estimate: WorkEstimate,
    /// Attributes of the request, if requested.
    pub details: Option<DetailsDump>,
}

/// Attributes of a request.
#[derive(Clone, Debug)]
pub struct DetailsDump {
    /// User, verb, path, namespace, name, group and version, resource, subresource.
    pub fields: [String; 8],
}

impl Controller {
    /// State of all levels, by name; with the requests' attributes if `include_details`.
    pub fn dump(&self, include_details: bool, now: SystemTime) -> Vec<LevelDump> {
        let clock = DumpTime { instant: timer_now(), system: now };
        let dump = |queues: &QueueSet, quiescing: bool| {
            let totals = queues.totals();
            let (queues_dump, queueless) = clock.requests(queues, include_details);
            LevelDump {
                name: String::new(),
                idle: queues.is_idle(),
                quiescing,
                waiting: totals.waiting,
                executing: totals.executing,
                seats_in_use: totals.seats_in_use,
                seats_waiting: totals.seats_waiting,
                dispatched: totals.dispatched,
                rejected: totals.rejected,
                timed_out: totals.timed_out,
                cancelled: totals.cancelled,
                queues: queues_dump,
                queueless,
            }
        };
        let of_level = |level: &PriorityLevel| LevelDump {
            name: level.name().to_owned(),
            ..level.read(clock.instant, dump)
        };
        self.read_levels(|level, _, _, _| of_level(level)).0
    }
}

/// The present, by both clocks.
struct DumpTime {
    instant: Instant,
    system: SystemTime,
}

impl DumpTime {
    fn time(&self, at: Instant) -> SystemTime {
        self.system - self.instant.saturating_duration_since(at)
    }

    /// Queues with their requests, and requests without a queue.
    fn requests(&self, set: &QueueSet, details: bool) -> (Vec<QueueDump>, Vec<RequestDump>) {
        let requests = set.requests();
        let mut queues: Vec<QueueDump> = set
            .queues()
            .iter()
            .map(|(index, queue)| QueueDump {
                index,
                waiting: queue
                    .iter(requests)
                    .map(|slot| self.request(&requests[slot], details))
                    .collect(),
                executing: Vec::new(),
                seats_in_use: queue.seats_in_use,
                next_dispatch_r: queue.next_dispatch_r,
                initial_seats_sum: queue.initial_seats,
                max_seats_sum: queue.max_seats,
                total_work_sum: queue.work,
            })
            .collect();
        add_idle(&mut queues, set.queuing());
        let mut queueless = Vec::new();
        for request in requests.iter().filter(|request| request.started().is_some()) {
            let place = |index| queues.binary_search_by_key(&index, |queue| queue.index).ok();
            let list = match request.queue.and_then(place) {
                Some(place) => &mut queues[place].executing,
                None => &mut queueless,
            };
            list.push(self.request(request, details));
        }
        (queues, queueless)
    }

    fn request(&self, request: &Request, include_details: bool) -> RequestDump {
        let digest = request.details.digest();
        let group_version = match digest.group {
            "" => digest.version.to_owned(),
            group => format!("{group}/{}", digest.version),
        };
        let details = include_details.then(|| DetailsDump {
            fields: [
                digest.user.to_owned(),
                digest.verb.to_owned(),
                digest.path.to_owned(),
                digest.namespace.to_owned(),
                digest.name.to_owned(),
                group_version,
                digest.resource.to_owned(),
                digest.subresource.to_owned(),
            ],
        });
        RequestDump {
            flow_schema: request.flow.name().to_owned(),
            flow_distinguisher: request.flow.flow_distinguisher(&digest).to_owned(),
            arrived: self.time(request.arrived),
            started: request.started().map(|at| self.time(at)),
            estimate: request.estimate,
            details,
        }
    }
}

/// Adds the inactive queues, and sorts all.
fn add_idle(queues: &mut Vec<QueueDump>, queuing: Queuing) {
    queues.sort_unstable_by_key(|queue| queue.index);
    if let Queuing::Queue { dealer, .. } = queuing
        && dealer.deck() <= MAX_SHOWN_QUEUES
    {
        let there: Vec<u32> = queues.iter().map(|queue| queue.index).collect();
        let idle = (0..dealer.deck()).filter(|index| there.binary_search(index).is_err());
        queues.extend(idle.map(|index| QueueDump { index, ..QueueDump::default() }));
        queues.sort_unstable_by_key(|queue| queue.index);
    }
}

/// `dump_priority_levels`: a line for each level.
pub fn priority_levels(levels: &[LevelDump]) -> String {
    let mut table = Table::new(&[
        "PriorityLevelName",
        "ActiveQueues",
        "IsIdle",
        "IsQuiescing",
        "WaitingRequests",
        "ExecutingRequests",
        "DispatchedRequests",
        "RejectedRequests",
        "TimedoutRequests",
        "CancelledRequests",
    ]);
    for level in levels {
        let active = level.queues.iter().filter(|queue| !queue.waiting.is_empty()).count();
        table.row([
            level.name.clone(),
            active.to_string(),
            level.idle.to_string(),
            level.quiescing.to_string(),
            level.waiting.to_string(),
            level.executing.to_string(),
            level.dispatched.to_string(),
            level.rejected.to_string(),
            level.timed_out.to_string(),
            level.cancelled.to_string(),
        ]);
    }
    table.text()
}

/// `dump_queues`: a line for each queue.
pub fn queues(levels: &[LevelDump]) -> String {
    let mut table = Table::new(&[
        "PriorityLevelName",
        "Index",
        "PendingRequests",
        "ExecutingRequests",
        "SeatsInUse",
        "NextDispatchR",
        "InitialSeatsSum",
        "MaxSeatsSum",
        "TotalWorkSum",
    ]);
    for (level, queue) in
        levels.iter().flat_map(|level| level.queues.iter().map(move |q| (level, q)))
    {
        table.row([
            level.name.clone(),
            queue.index.to_string(),
            queue.waiting.len().to_string(),
            queue.executing.len().to_string(),
            queue.seats_in_use.to_string(),
            queue.next_dispatch_r.to_string(),
            queue.initial_seats_sum.to_string(),
            queue.max_seats_sum.to_string(),
            queue.total_work_sum.to_string(),
        ]);
    }
    table.text()
}

const REQUEST_COLUMNS: [&str; 10] = [
    "PriorityLevelName",
    "FlowSchemaName",
    "QueueIndex",
    "RequestIndexInQueue",
    // The reference's spelling.
    "FlowDistingsher",
    "ArriveTime",
    "InitialSeats",
    "FinalSeats",
    "AdditionalLatency",
    "StartTime",
];

const DETAIL_COLUMNS: [&str; 8] =
    ["UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource"];

/// `dump_requests`: a line for each request; with its attributes if `include_details` (`?includeRequestDetails=1`).
pub fn requests(levels: &[LevelDump], include_details: bool) -> String {
    let details = if include_details { &DETAIL_COLUMNS[..] } else { &[] };
    let mut table = Table::new(&[&REQUEST_COLUMNS[..], details].concat());
    for level in levels {
        let mut add = |queue: &str, place: &str, request: &RequestDump| {
            let line = request_line(&level.name, queue, place, request);
            let details = request.details.iter().flat_map(|details| details.fields.clone());
            table.row(line.into_iter().chain(details));
        };
        for queue in &level.queues {
            let index = queue.index.to_string();
            for (place, request) in queue.waiting.iter().enumerate() {
                add(&index, &place.to_string(), request);
            }
            queue.executing.iter().for_each(|request| add(&index, "-1", request));
        }
        level.queueless.iter().for_each(|request| add("-1", "-1", request));
    }
    table.text()
}

fn request_line(level: &str, queue: &str, place: &str, request: &RequestDump) -> [String; 10] {
    [
        level.to_owned(),
        request.flow_schema.clone(),
        queue.to_owned(),
        place.to_owned(),
        request.flow_distinguisher.clone(),
        nano_time(Some(request.arrived)),
        request.estimate.initial_seats.to_string(),
        request.estimate.final_seats.to_string(),
        go_duration(request.estimate.additional_latency),
        nano_time(request.started),
    ]
}

/// Time as `2006-01-02T15:04:05.999999999Z`, without trailing zeros.
fn nano_time(at: Option<SystemTime>) -> String {
    let since = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let Some(since) = since else {
        return Time::ZERO.to_string();
    };
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let whole = Time { seconds }.to_string();
    match since.subsec_nanos() {
        0 => whole,
        nanos => {
            let fraction = format!("{nanos:09}");
            format!("{}.{}Z", whole.trim_end_matches('Z'), fraction.trim_end_matches('0'))
        }
    }
}

fn go_duration(time: Duration) -> String {
    duration::Duration(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)).to_string()
}
