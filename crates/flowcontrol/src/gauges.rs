//! Gauges of a controller, computed when metrics are read.

use kevel_clock::timer_now;

use crate::controller::{Controller, Limits, SeatDemand};
use crate::queue_set::{ESTIMATED_SERVICE_DURATION, QueueSet};
use crate::seat_seconds::SeatSeconds;
use crate::timing::TimingRatioHistogram;

/// Gauges of all levels. Parentheses name the metrics, all of which begin with `apiserver_flowcontrol_`.
#[derive(Clone, Debug)]
pub struct Gauges {
    /// The levels, by name.
    pub levels: Vec<LevelGauges>,
    /// Fraction of its demand that each level gets, unless a bound limits it (`seat_fair_frac`).
    pub fair_fraction: f64,
    /// Maximum number of queued requests: a denominator of `read_vs_write_current_requests`.
    pub max_waiting: u64,
    /// Maximum number of executing requests: a denominator of `read_vs_write_current_requests`.
    pub max_executing: u64,
}

/// Gauges of a level.
#[derive(Clone, Debug)]
pub struct LevelGauges {
    /// Name of the level.
    pub name: String,
    /// `nominal_limit_seats`, `lower_limit_seats`, `upper_limit_seats`, `current_limit_seats`
    pub limits: Limits,
    /// `demand_seats_average`, `demand_seats_stdev`, `demand_seats_high_watermark`,
    /// `demand_seats_smoothed`
    pub demand: SeatDemand,
    /// `target_seats`
    pub target: f64,
    /// `current_r`
    pub r: f64,
    /// `dispatch_r` and `latest_s`; `None` before the first dispatch from a queue.
    pub last_dispatch: Option<(f64, f64)>,
    /// `next_s_bounds`; `None` without queued requests.
    pub next_s_bounds: Option<(f64, f64)>,
    /// `next_discounted_s_bounds`; `None` without queued requests.
    pub next_discounted_s_bounds: Option<(f64, f64)>,
    /// `priority_level_request_utilization{phase="waiting"}`
    pub request_utilization_waiting: TimingRatioHistogram,
    /// `priority_level_request_utilization{phase="executing"}`
    pub request_utilization_executing: TimingRatioHistogram,
    /// `priority_level_seat_utilization{phase="executing"}`
    pub seat_utilization: TimingRatioHistogram,
    /// `demand_seats`
    pub demand_seats: TimingRatioHistogram,
}

impl Controller {
    /// Computes the gauges.
    pub fn gauges(&self) -> Gauges {
        let now = timer_now();
        let (mut max_waiting, mut max_executing) = (0, 0);
        let (levels, fair_fraction) = self.read_levels(|level, limits, demand, target| {
            max_executing += u64::from(limits.nominal);
            level.read(now, |queues, _| {
                max_waiting += queues.queuing().places();
                level_gauges(level.name(), queues, limits, *demand, target)
            })
        });
        Gauges { levels, fair_fraction, max_waiting, max_executing }
    }
}

fn level_gauges(
    name: &str,
    queues: &QueueSet,
    limits: Limits,
    demand: SeatDemand,
    target: f64,
) -> LevelGauges {
    let waiting = queues.queues().iter().map(|(_, queue)| queue);
    let waiting = waiting.filter(|queue| queue.waiting > 0);
    let meters = queues.meters();
    LevelGauges {
        name: name.to_owned(),
        limits,
        demand,
        target,
        r: queues.r().to_f64(),
        last_dispatch: meters.last_dispatch.map(|(r, s)| (r.to_f64(), s.to_f64())),
        next_s_bounds: bounds(waiting.clone().map(|queue| queue.next_dispatch_r)),
        next_discounted_s_bounds: bounds(waiting.map(|queue| {
            let under_way = SeatSeconds::of(queue.seats_in_use, ESTIMATED_SERVICE_DURATION);
            queue.next_dispatch_r - under_way
        })),
        request_utilization_waiting: meters.waiting.clone(),
        request_utilization_executing: meters.executing.clone(),
        seat_utilization: meters.seats.clone(),
        demand_seats: meters.demand.clone(),
    }
}

/// Minimum and maximum.
fn bounds(all: impl Iterator<Item = SeatSeconds> + Clone) -> Option<(f64, f64)> {
    let (least, most) = (all.clone().min()?, all.max()?);
    Some((least.to_f64(), most.to_f64()))
}

#[cfg(test)]
mod tests {
    use kevel_api::time::Time;
    use kevel_clock::Clock;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::{RequestDigest, Started, Unobserved, WorkEstimate, notation};

    #[tokio::test(start_paused = true)]
    async fn gauges_are_read_when_they_are_asked_for() {
        let controller = Controller::new(10, Arc::new(Unobserved));
        let (levels, schemas) = notation::parse(
            "
level one queue shares=5 lendable=0 borrowing=0 queues=4 hand=1 length=10
schema all 100 one ByUser
  for user=*
  at * *
",
        );
        controller.configure(&levels, &schemas, Time::now(&Clock::system()));
        let start = |user: &str| {
            let digest = RequestDigest { user, verb: "get", path: "/", ..RequestDigest::default() };
            let until = timer_now() + Duration::from_secs(60);
            let estimate = WorkEstimate::seats(5);
            controller.start(&digest, controller.classify(&digest), estimate, until)
        };
        let Started::Admitted(first) = start("a") else { panic!("there are five seats") };
        let _second = start("a");
        tokio::time::advance(Duration::from_secs(2)).await;

        let gauges = controller.gauges();
        assert_eq!((gauges.max_waiting, gauges.max_executing), (40, 10));
        let one = gauges.levels.iter().find(|level| level.name == "one").unwrap();
        // Five seats for one queue in two seconds.
        assert_eq!((one.r, one.last_dispatch), (10.0, Some((0.0, 0.0))));
        assert_eq!(one.next_s_bounds, Some((0.015, 0.015)));
        assert_eq!(one.next_discounted_s_bounds, Some((0.0, 0.0)));
        let seconds = |histogram: &TimingRatioHistogram| {
            let (above, all) = (histogram.sum() / 1e9, histogram.cumulative().pop().unwrap().1);
            (above, all / 1_000_000_000)
        };
        assert_eq!(seconds(&one.request_utilization_waiting), (2.0 / 40.0, 2));
        assert_eq!(seconds(&one.request_utilization_executing), (2.0 / 5.0, 2));
        assert_eq!(seconds(&one.seat_utilization), (2.0, 2));
        assert_eq!(seconds(&one.demand_seats), (4.0, 2));
        drop(first);
        controller.adjust();
        let gauges = controller.gauges();
        let one = gauges.levels.iter().find(|level| level.name == "one").unwrap();
        assert_eq!(one.next_s_bounds, None);
        let SeatDemand { average, deviation, high_watermark, smoothed } = one.demand;
        assert_eq!((average, deviation, high_watermark, smoothed), (10.0, 0.0, 10, 10.0));
    }
}
