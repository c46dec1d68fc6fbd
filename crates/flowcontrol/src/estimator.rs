//! How much work a request will be, by what it asks for.
//!
//! A seat is what an ordinary request takes. How many a request takes beside that, and for how
//! long, was measured on this server (`bench --bin servers`, `bench/RESULTS.md`), so that shares and
//! limits mean to their users what they mean on the reference. In proportion to an ordinary request
//! lists cost as much as the reference's do, so that their numbers are the same; an event of a watch
//! costs less.

use std::time::Duration;

use crate::seat_seconds::SeatSeconds;
use crate::work_estimate::WorkEstimate;

/// Every request takes a seat.
const MINIMUM_SEATS: u32 = 1;
/// The most seats of a list, by the size of what it reads.
const MAXIMUM_LIST_SEATS: u32 = 100;
/// The most seats of a list, where objects are counted.
const MAXIMUM_COUNTED_LIST_SEATS: u32 = 10;
/// The most seats of a write.
const MAXIMUM_MUTATING_SEATS: u32 = 10;
/// One seat reads so many bytes. In a list they cost three times a GET ("list all, cached": 10250 µs
/// for 15 MB, "get": 23 µs); the reference's cost two and a half of its GETs.
const BYTES_PER_SEAT: u64 = 100_000;
/// A list from the cache is sent in pieces: it holds no more than that at a time.
const CACHED_LIST_BYTES: u64 = 1_000_000;
/// How large an object of unknown size is taken to be: the most that the store takes.
const MAXIMUM_OBJECT_BYTES: u64 = 1_500_000;
/// One seat reads so many objects, where they are counted.
const OBJECTS_PER_SEAT: u64 = 100;
/// One seat tells so many watches of a change.
const WATCHES_PER_SEAT: u32 = 10;
/// How long that takes: the reference's 5 ms, of which an event here takes 3.70 parts in 21.2
/// ("watch, per event": µs of CPU).
const EVENT_DURATION: Duration = Duration::from_micros(900);

/// Estimates work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkEstimator {
    /// The fewest seats.
    pub minimum_seats: u32,
    /// The most seats of a list.
    pub maximum_list_seats: u32,
    /// The most seats of a write.
    pub maximum_mutating_seats: u32,
    /// What makes a list heavy.
    pub list_cost: ListCost,
    /// One seat tells so many watches of a change ...
    pub watches_per_seat: u32,
    /// ... in this time.
    pub event_duration: Duration,
}

/// What makes a list heavy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListCost {
    /// The bytes that it holds at a time (`SizeBasedListCostEstimate`).
    Size,
    /// The objects that it looks at.
    Count,
}

/// What kind of estimate a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkKind {
    /// [`WorkEstimator::list`]
    List,
    /// [`WorkEstimator::mutation`]
    Mutation,
    /// [`WorkEstimator::other`]
    Other,
}

/// What a list or a watch asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListRequest<'a> {
    /// Whether it is a watch.
    pub watch: bool,
    /// Whether its options cannot be read: it is going to be refused.
    pub invalid: bool,
    /// Whether it is about one object: there is a `metadata.name`.
    pub single: bool,
    /// Whether it has a selector.
    pub selects: bool,
    /// `limit`; 0 is none.
    pub limit: i64,
    /// `resourceVersion`
    pub resource_version: &'a str,
    /// `resourceVersionMatch`
    pub resource_version_match: &'a str,
    /// Whether there is a `continue`.
    pub continues: bool,
    /// Whether `sendInitialEvents` is true.
    pub send_initial_events: bool,
}

/// What is known of all objects of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectStats {
    /// How many there are.
    pub count: u64,
    /// How large one is, in bytes, on average; 0 if that is not known.
    pub average_bytes: u64,
}

impl Default for WorkEstimator {
    fn default() -> Self {
        WorkEstimator::new(ListCost::Size)
    }
}

impl WorkEstimator {
    /// The estimator with the numbers of this module.
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

    /// Estimates what is neither a list nor a write.
    pub fn other(&self) -> WorkEstimate {
        WorkEstimate::seats(self.minimum_seats)
    }

    /// Estimates a list, or the state that a watch begins with. Of a resource that somebody else
    /// serves nothing is known. `max_seats` is the priority level's
    /// ([`crate::FlowSchema::max_seats`]).
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

    /// Estimates a write that so many watches see.
    pub fn mutation(&self, watches: usize, max_seats: u32) -> WorkEstimate {
        let most = bounded(max_seats, self.maximum_mutating_seats);
        let watches = u32::try_from(watches).unwrap_or(u32::MAX);
        // A few are told by the way.
        if watches < self.watches_per_seat {
            return WorkEstimate::seats(1);
        }
        let seats = watches.div_ceil(self.watches_per_seat.max(1));
        let work = SeatSeconds::of(seats, self.event_duration);
        // A wide request keeps seats empty until there are enough for it: it is made longer
        // instead.
        let final_seats = seats.min(most);
        WorkEstimate {
            initial_seats: 1,
            final_seats,
            additional_latency: work.duration_per_seat(final_seats),
        }
    }
}

impl WorkKind {
    /// Of a request with this verb on a resource.
    pub fn of(verb: &str, resource: &str, subresource: &str) -> Self {
        match verb {
            "list" | "watch" => WorkKind::List,
            // Nobody sees a token that is made.
            "create" if (resource, subresource) == ("serviceaccounts", "token") => WorkKind::Other,
            "create" | "update" | "patch" | "delete" => WorkKind::Mutation,
            _ => WorkKind::Other,
        }
    }
}

impl ListRequest<'_> {
    /// Whether a watch sends what there is, for it does not say since when.
    fn begins_with_state(&self) -> bool {
        matches!(self.resource_version, "" | "0")
    }

    /// Whether the store is read, not the cache: a past state is asked for.
    fn is_from_storage(&self) -> bool {
        let past = !matches!(self.resource_version, "" | "0");
        match (self.watch, self.resource_version_match) {
            (true, _) | (false, "NotOlderThan") => false,
            (false, "") => self.continues || (self.limit > 0 && past),
            (false, _) => true,
        }
    }

    /// How many objects are sent at most.
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

/// The most seats: the level's, if it says how many, but not more than the limit.
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
    fn writes_are_as_heavy_as_those_who_watch() {
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
