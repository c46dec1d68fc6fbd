//! Estimates of a request's work, in seats and time (upstream: flowcontrol/request work estimators).
//!
//! One seat is the cost of an ordinary request. The additional cost of lists and writes was measured on this server
//! (`bench --bin servers`, `bench/RESULTS.md`), so that shares and limits mean the same as on the reference. In
//! proportion to an ordinary request lists cost as much as the reference's, so their numbers are the same; a watch
//! event costs less.

use std::time::Duration;

use crate::seat_seconds::SeatSeconds;
use crate::work_estimate::WorkEstimate;

/// Minimum seats of a request.
const MINIMUM_SEATS: u32 = 1;
/// Maximum seats of a list, estimated by size.
const MAXIMUM_LIST_SEATS: u32 = 100;
/// Maximum seats of a list, estimated by object count.
const MAXIMUM_COUNTED_LIST_SEATS: u32 = 10;
/// Maximum seats of a write.
const MAXIMUM_MUTATING_SEATS: u32 = 10;
/// Bytes per seat of a list. They cost three times a GET here ("list all, cached": 10250 µs for 15 MB, "get": 23 µs),
/// and two and a half GETs on the reference.
const BYTES_PER_SEAT: u64 = 100_000;
/// Maximum bytes that a list from the watch cache holds at a time, since it is sent in pieces.
const CACHED_LIST_BYTES: u64 = 1_000_000;
/// Assumed size of an object of unknown size: the store's maximum.
const MAXIMUM_OBJECT_BYTES: u64 = 1_500_000;
/// Objects per seat of a list, estimated by count.
const OBJECTS_PER_SEAT: u64 = 100;
/// Watches per seat that a write sends its event to.
const WATCHES_PER_SEAT: u32 = 10;
/// Duration of these seats: the reference's 5 ms, scaled by the CPU cost of an event, 3.70 µs here to 21.2 µs there
/// ("watch, per event").
const EVENT_DURATION: Duration = Duration::from_micros(900);

/// Estimator of the work of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkEstimator {
    /// Minimum seats.
    pub minimum_seats: u32,
    /// Maximum seats of a list.
    pub maximum_list_seats: u32,
    /// Maximum seats of a write.
    pub maximum_mutating_seats: u32,
    /// Cost model of lists.
    pub list_cost: ListCost,
    /// Watches per seat that a write sends its event to.
    pub watches_per_seat: u32,
    /// Duration of these seats.
    pub event_duration: Duration,
}

/// Cost model of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListCost {
    /// Bytes that a list holds at a time (`SizeBasedListCostEstimate`).
    Size,
    /// Objects that a list reads.
    Count,
}

/// Kind of estimate, by verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkKind {
    /// [`WorkEstimator::list`]
    List,
    /// [`WorkEstimator::mutation`]
    Mutation,
    /// [`WorkEstimator::other`]
    Other,
}

/// Options of a list or watch.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListRequest<'a> {
    /// Whether the request is a watch.
    pub watch: bool,
    /// Whether the options are invalid: the request is going to be rejected.
    pub invalid: bool,
    /// Whether the request is for a single object, by `metadata.name`.
    pub single: bool,
    /// Whether there is a selector.
    pub selects: bool,
    /// `limit`; 0 is none.
    pub limit: i64,
    /// `resourceVersion`
    pub resource_version: &'a str,
    /// `resourceVersionMatch`
    pub resource_version_match: &'a str,
    /// Whether there is a `continue` token.
    pub continues: bool,
    /// Whether `sendInitialEvents` is true.
    pub send_initial_events: bool,
}

/// Statistics of a resource's objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectStats {
    /// Number of objects.
    pub count: u64,
    /// Average size of an object in bytes; 0 if unknown.
    pub average_bytes: u64,
}

impl Default for WorkEstimator {
    fn default() -> Self {
        WorkEstimator::new(ListCost::Size)
    }
}

impl WorkEstimator {
    /// An estimator with the constants of this module.
    pub const fn new(list_cost: ListCost) -> Self {
        WorkEstimator {
            minimum_seats: MINIMUM_SEATS,
            maximum_list_seats: match list_cost {
                ListCost::Size => MAXIMUM_LIST_SEATS,
                ListCost::Count => MAXIMUM_COUNTED_LIST_SEATS,
            },
            maximum_mutating_seats: MAXIMUM_MUTATING_SEATS,
            list_cost,
            watches_per_seat: WATCHES_PER_SEAT,
            event_duration: EVENT_DURATION,
        }
    }

    /// Estimates a request that is neither a list nor a write.
    pub fn other(&self) -> WorkEstimate {
        WorkEstimate::seats(self.minimum_seats)
    }

    /// Estimates a list, or the initial events of a watch. `stats` is `None` for a resource of another server.
    /// `max_seats` is the priority level's ([`crate::FlowSchema::max_seats`]).
    pub fn list(
        &self,
        request: &ListRequest<'_>,
        stats: Option<ObjectStats>,
        max_seats: u32,
    ) -> WorkEstimate {
        let most = bounded(max_seats, self.maximum_list_seats);
        let from_now_on = !request.send_initial_events && !request.begins_with_state();
        let seats = match stats {
            _ if request.invalid => most,
            _ if request.watch && from_now_on => self.minimum_seats,
            None => self.minimum_seats,
            Some(stats) => {
                let seats = match self.list_cost {
                    ListCost::Size => seats_by_size(request, stats),
                    ListCost::Count => seats_by_count(request, stats),
                };
                u32::try_from(seats).unwrap_or(u32::MAX).max(self.minimum_seats).min(most)
            }
        };
        WorkEstimate::seats(seats)
    }

    /// Estimates a write whose event goes to `watches` watches.
    pub fn mutation(&self, watches: usize, max_seats: u32) -> WorkEstimate {
        let most = bounded(max_seats, self.maximum_mutating_seats);
        let watches = u32::try_from(watches).unwrap_or(u32::MAX);
        // A few events cost nothing extra.
        if watches < self.watches_per_seat {
            return WorkEstimate::seats(1);
        }
        let seats = watches.div_ceil(self.watches_per_seat.max(1));
        let work = SeatSeconds::of(seats, self.event_duration);
        // A wide request keeps seats empty until there are enough for it: it is made longer instead.
        let final_seats = seats.min(most);
        WorkEstimate {
            initial_seats: 1,
            final_seats,
            additional_latency: work.duration_per_seat(final_seats),
        }
    }
}

impl WorkKind {
    /// Kind of a request with this verb on a resource.
    pub fn of(verb: &str, resource: &str, subresource: &str) -> Self {
        match verb {
            "list" | "watch" => WorkKind::List,
            // Creating a token causes no watch event.
            "create" if (resource, subresource) == ("serviceaccounts", "token") => WorkKind::Other,
            "create" | "update" | "patch" | "delete" => WorkKind::Mutation,
            _ => WorkKind::Other,
        }
    }
}

impl ListRequest<'_> {
    /// Whether a watch begins with the present objects, for it has no resourceVersion.
    fn begins_with_state(&self) -> bool {
        matches!(self.resource_version, "" | "0")
    }

    /// Whether the list reads from storage rather than from the watch cache: a past state is requested.
    fn is_from_storage(&self) -> bool {
        let past = !matches!(self.resource_version, "" | "0");
        match (self.watch, self.resource_version_match) {
            (true, _) | (false, "NotOlderThan") => false,
            (false, "") => self.continues || (self.limit > 0 && past),
            (false, _) => true,
        }
    }

    /// Maximum number of objects in the response.
    fn limited(&self, count: u64) -> u64 {
        match u64::try_from(self.limit) {
            Ok(limit) if limit > 0 => limit.min(count),
            _ => count,
        }
    }
}

fn seats_by_size(request: &ListRequest<'_>, stats: ObjectStats) -> u64 {
    let size = if stats.average_bytes == 0 { MAXIMUM_OBJECT_BYTES } else { stats.average_bytes };
    let limited = request.limited(stats.count);
    let from_storage = request.is_from_storage();
    let objects = match () {
        () if request.single => 1,
        () if from_storage && request.selects => limited.max(stats.count / 2),
        () => limited,
    };
    let bytes = objects.saturating_mul(size);
    let at_once = if from_storage { bytes } else { bytes.min(CACHED_LIST_BYTES) };
    at_once.div_ceil(BYTES_PER_SEAT)
}

fn seats_by_count(request: &ListRequest<'_>, stats: ObjectStats) -> u64 {
    let limited = request.limited(stats.count);
    let objects = match () {
        () if request.single => 1,
        () if !request.is_from_storage() => stats.count,
        () if request.selects => stats.count.saturating_add(limited),
        () => limited.saturating_mul(2),
    };
    objects.div_ceil(OBJECTS_PER_SEAT)
}

/// Maximum seats: the level's, if it has one, but no more than `limit`.
fn bounded(level: u32, limit: u32) -> u32 {
    if level == 0 { limit } else { level.min(limit) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(count: u64, average_bytes: u64) -> Option<ObjectStats> {
        Some(ObjectStats { count, average_bytes })
    }

    #[test]
    fn lists_are_as_heavy_as_what_they_hold() {
        let all = ListRequest::default();
        let page = ListRequest { limit: 500, ..all };
        let past = ListRequest { resource_version: "7", limit: 500, ..all };
        let next = ListRequest { continues: true, limit: 500, ..all };
        let exact = ListRequest {
            resource_version: "7",
            resource_version_match: "Exact",
            selects: true,
            ..all
        };
        let watch = ListRequest { watch: true, ..all };
        let since = ListRequest { resource_version: "7", ..watch };
        for (request, stats, max_seats, expected) in [
            (all, None, 0, 1),
            (all, stats(0, 0), 0, 1),
            (all, stats(1, 100), 0, 1),
            (all, stats(300, 1000), 0, 3),
            (all, stats(301, 1000), 0, 4),
            (all, stats(100_000, 10_000), 0, 10),
            (all, stats(100_000, 10_000), 7, 7),
            (all, stats(2, 0), 0, 10),
            (page, stats(100_000, 1000), 0, 5),
            (past, stats(100_000, 10_000), 0, 50),
            (next, stats(100_000, 100_000), 0, 100),
            (next, stats(u64::MAX, u64::MAX), 1000, 100),
            (exact, stats(1000, 10_000), 0, 100),
            (ListRequest { single: true, ..all }, stats(100_000, 1000), 0, 1),
            (ListRequest { invalid: true, ..all }, stats(1, 1), 0, 100),
            (ListRequest { resource_version_match: "?", ..all }, stats(1000, 10_000), 0, 100),
            (watch, stats(100_000, 1000), 0, 10),
            (since, stats(100_000, 1000), 0, 1),
            (ListRequest { send_initial_events: true, ..since }, stats(400, 1000), 0, 4),
        ] {
            let estimate = WorkEstimator::default().list(&request, stats, max_seats);
            assert_eq!(estimate, WorkEstimate::seats(expected), "{request:?} {stats:?}");
        }
    }

    #[test]
    fn lists_can_be_counted_instead() {
        let all = ListRequest::default();
        let next = ListRequest { continues: true, limit: 150, ..all };
        for (request, count, expected) in [
            (all, 0, 1),
            (all, 399, 4),
            (all, 100_000, 10),
            (ListRequest { limit: 5, ..all }, 399, 4),
            (next, 399, 3),
            (ListRequest { selects: true, ..next }, 399, 6),
            (ListRequest { single: true, ..next }, 399, 1),
        ] {
            let estimate = WorkEstimator::new(ListCost::Count).list(&request, stats(count, 0), 0);
            assert_eq!(estimate, WorkEstimate::seats(expected), "{request:?} {count}");
        }
    }

    #[test]
    fn writes_are_as_heavy_as_their_watchers() {
        let estimator = WorkEstimator::default();
        for (watches, max_seats, final_seats, micros) in [
            (0, 0, 0, 0),
            (9, 0, 0, 0),
            (10, 0, 1, 900),
            (25, 0, 3, 900),
            (100, 0, 10, 900),
            (200, 0, 10, 1800),
            (200, 4, 4, 4500),
        ] {
            let estimate = estimator.mutation(watches, max_seats);
            assert_eq!((estimate.initial_seats, estimate.final_seats), (1, final_seats));
            assert_eq!(estimate.additional_latency.as_micros(), micros);
        }
    }

    #[test]
    fn verbs_say_what_is_to_be_estimated() {
        for (verb, resource, subresource, expected) in [
            ("list", "pods", "", WorkKind::List),
            ("watch", "pods", "", WorkKind::List),
            ("get", "pods", "", WorkKind::Other),
            ("deletecollection", "pods", "", WorkKind::Other),
            ("delete", "pods", "", WorkKind::Mutation),
            ("patch", "pods", "status", WorkKind::Mutation),
            ("create", "serviceaccounts", "token", WorkKind::Other),
            ("create", "serviceaccounts", "", WorkKind::Mutation),
            ("post", "", "", WorkKind::Other),
        ] {
            assert_eq!(WorkKind::of(verb, resource, subresource), expected, "{verb} {resource}");
        }
    }
}
