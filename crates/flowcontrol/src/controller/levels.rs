//! Priority levels of a configuration, and their seats.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::allocation::{Class, allocate};
use super::demand::SeatDemand;
use crate::configuration::{LevelOfSchema, PriorityLevelConfiguration};
use crate::priority_level::PriorityLevel;
use crate::queue_set::Queuing;

/// Maximum width of a request, as a percentage of its level's seats.
const MAX_SEATS_PERCENT: u64 = 15;
/// Metrics of a level without seats are relative to this fraction of the server's seats.
const DENOMINATOR_PART: u32 = 10;

/// Levels by name: configured ones, and removed ones that still have requests.
pub(super) type Levels = BTreeMap<Box<str>, Level>;

/// A level of the configuration.
pub(super) struct Level {
    pub level: Arc<PriorityLevel>,
    pub configuration: PriorityLevelConfiguration,
    pub limits: Limits,
    pub demand: SeatDemand,
    /// Seats that the level would get without scarcity (`target_seats`).
    pub target: f64,
}

/// Concurrency limits in seats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Nominal limit, by `nominalConcurrencyShares`.
    pub nominal: u32,
    /// Lower limit: with the maximum lent.
    pub lower: u32,
    /// Upper limit: with the maximum borrowed.
    pub upper: u32,
    /// Present limit.
    pub current: u32,
}

impl Level {
    pub(super) fn new(
        level: Arc<PriorityLevel>,
        configuration: PriorityLevelConfiguration,
    ) -> Self {
        let (limits, demand) = (Limits::default(), SeatDemand::default());
        Level { level, configuration, limits, demand, target: 0.0 }
    }

    pub(super) fn of_schema(&self) -> LevelOfSchema {
        LevelOfSchema {
            level: self.level.clone(),
            uid: self.configuration.uid.clone(),
            queues: match self.configuration.queuing {
                Queuing::Queue { dealer, .. } => dealer.deck(),
                Queuing::Exempt | Queuing::Reject => 0,
            },
            max_seats: self.max_seats(),
        }
    }

    /// Maximum seats for the estimate of a request of a level with queues: with more, few flows of small levels would
    /// get through.
    fn max_seats(&self) -> u32 {
        let Some(hand_size) = self.configuration.hand_size else {
            return 0;
        };
        let part = (u64::from(self.limits.nominal) * MAX_SEATS_PERCENT).div_ceil(100);
        let by_hand = self.limits.nominal / hand_size.max(1);
        u32::try_from(part).unwrap_or(u32::MAX).min(by_hand).max(1)
    }

    /// Minimum seats at present: the recent high watermark (limited to nominal unless exempt), at
    /// least the lower limit.
    fn lower_now(&self) -> u32 {
        let used = match self.configuration.is_exempt() {
            true => self.demand.high_watermark,
            false => self.demand.high_watermark.min(self.limits.nominal),
        };
        used.max(self.limits.lower)
    }
}

/// Gives each level its nominal seats, by shares. Their sum may exceed the server's by a few, since they are rounded
/// up.
pub(super) fn set_nominal_limits(levels: &mut Levels, server_limit: u32) {
    let shares = |level: &Level| u64::from(level.configuration.nominal_concurrency_shares);
    let all_shares = levels.values().map(shares).sum::<u64>().max(1);
    for level in levels.values_mut() {
        let part = (u64::from(server_limit) * shares(level)).div_ceil(all_shares);
        let nominal = u32::try_from(part).unwrap_or(u32::MAX);
        let lendable = percent(nominal, level.configuration.lendable_percent);
        let borrowable = match level.configuration.borrowing_limit_percent {
            Some(limit) => percent(nominal, limit),
            None => server_limit,
        };
        let is_new = level.limits == Limits::default();
        level.limits.nominal = nominal;
        level.limits.lower = nominal.saturating_sub(lendable);
        level.limits.upper = nominal.saturating_add(borrowable);
        if is_new {
            level.limits.current = nominal - lendable / 2;
        }
    }
}

/// Lends unused seats of levels to levels with more demand, and sets the current limits. Returns the fair fraction
/// (`seat_fair_frac`).
pub(super) fn adjust(levels: &mut Levels, server_limit: u32, now: Instant) -> f64 {
    for level in levels.values_mut() {
        level.demand.update(level.level.take_demand(now));
    }
    let fair_fraction = set_current_limits(levels);
    for level in levels.values() {
        let current = level.limits.current;
        let denominator = match current {
            0 => (server_limit.saturating_add(DENOMINATOR_PART / 2) / DENOMINATOR_PART).max(1),
            _ => current,
        };
        level.level.set_limit(now, current, denominator);
    }
    fair_fraction
}

/// Divides the seats by the levels' demand. Returns the fair fraction.
pub(super) fn set_current_limits(levels: &mut Levels) -> f64 {
    let nominal_sum: i64 = levels.values().map(|level| i64::from(level.limits.nominal)).sum();
    let mut remaining = nominal_sum;
    let (mut lower_sum, mut lower_now_sum) = (0i64, 0i64);
    let mut classes = Vec::new();
    for level in levels.values_mut() {
        let lower = level.lower_now();
        level.target = level.demand.smoothed.max(lower.into());
        if level.configuration.is_exempt() {
            level.limits.current = lower;
            remaining -= i64::from(lower);
            continue;
        }
        lower_sum += i64::from(level.limits.lower);
        lower_now_sum += i64::from(lower);
        let (lower, upper) = (f64::from(lower), f64::from(level.limits.upper));
        classes.push(Class { target: level.target, lower, upper });
    }
    let limited = levels.values_mut().filter(|level| !level.configuration.is_exempt());
    if remaining <= lower_now_sum {
        // Exempt requests use so many seats that not all levels can keep what they used.
        let given = (remaining - lower_sum).max(0) as f64;
        let part = if given > 0.0 { given / (lower_now_sum - lower_sum) as f64 } else { 0.0 };
        for level in limited {
            let lower = level.limits.lower;
            let used = f64::from(level.lower_now() - lower);
            level.limits.current = lower + round(used * part);
        }
        return 0.0;
    }
    match allocate(nominal_sum as f64, &classes) {
        Some(allocation) => {
            for (level, seats) in limited.zip(allocation.seats) {
                level.limits.current = round(seats);
            }
            allocation.fair_fraction
        }
        // The bounds contradict each other: the limits stay as they are.
        None => 0.0,
    }
}

fn percent(of: u32, percent: u32) -> u32 {
    let part = (u64::from(of) * u64::from(percent) + 50) / 100;
    u32::try_from(part).unwrap_or(u32::MAX)
}

/// Rounds to a whole number of seats, at least 0.
fn round(seats: f64) -> u32 {
    seats.round() as u32
}
