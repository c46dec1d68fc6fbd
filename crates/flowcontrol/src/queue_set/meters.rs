//! Time-weighted metrics of a priority level.

use std::time::Duration;

use super::{Queuing, Totals};
use crate::metrics::{DEMAND_SEATS_BOUNDS, REQUEST_UTILIZATION, SEAT_UTILIZATION};
use crate::seat_seconds::SeatSeconds;
use crate::timing::{Integrator, Moments, TimingRatioHistogram};

/// Metrics of a level.
#[derive(Debug)]
pub(crate) struct Meters {
    /// Queued requests, relative to the places in queues.
    pub waiting: TimingRatioHistogram,
    /// Executing requests, relative to seats.
    pub executing: TimingRatioHistogram,
    /// Seats in use, relative to seats.
    pub seats: TimingRatioHistogram,
    /// Seats in use and queued, relative to seats.
    pub demand: TimingRatioHistogram,
    /// Seats in use and queued, since the last adjustment of limits.
    recent_demand: Integrator,
    /// R at the last dispatch from a queue, and the queue's `next_dispatch_r`.
    pub last_dispatch: Option<(SeatSeconds, SeatSeconds)>,
}

impl Default for Meters {
    fn default() -> Self {
        Meters {
            waiting: TimingRatioHistogram::new(REQUEST_UTILIZATION),
            executing: TimingRatioHistogram::new(REQUEST_UTILIZATION),
            seats: TimingRatioHistogram::new(SEAT_UTILIZATION),
            demand: TimingRatioHistogram::new(DEMAND_SEATS_BOUNDS),
            recent_demand: Integrator::default(),
            last_dispatch: None,
        }
    }
}

impl Meters {
    pub(super) fn set_queuing(&mut self, queuing: Queuing) {
        self.waiting.set_denominator(queuing.places());
    }

    pub(super) fn set_denominator(&mut self, seats: u32) {
        for histogram in [&mut self.executing, &mut self.seats, &mut self.demand] {
            histogram.set_denominator(seats.into());
        }
    }

    pub(super) fn advance(&mut self, time: Duration) {
        self.waiting.advance(time);
        self.executing.advance(time);
        self.seats.advance(time);
        self.demand.advance(time);
        self.recent_demand.advance(time);
    }

    pub(super) fn note(&mut self, totals: &Totals) {
        let demand = u64::from(totals.seats_in_use) + u64::from(totals.seats_waiting);
        self.waiting.set(totals.waiting.into());
        self.executing.set(totals.executing.into());
        self.seats.set(totals.seats_in_use.into());
        self.demand.set(demand);
        self.recent_demand.set(demand);
    }

    pub(super) fn dispatched(&mut self, r: SeatSeconds, next_dispatch_r: SeatSeconds) {
        self.last_dispatch = Some((r, next_dispatch_r));
    }

    pub(super) fn take_demand(&mut self) -> Moments {
        self.recent_demand.reset()
    }
}
