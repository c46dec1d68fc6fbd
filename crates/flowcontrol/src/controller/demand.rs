//! Seat demand of a priority level.

use crate::timing::Moments;

/// Smoothing: demand of five minutes ago counts half.
const SMOOTHING_COEFFICIENT: f64 = 0.977;

/// Seat demand of a level in the last adjustment period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SeatDemand {
    /// Time-weighted average.
    pub average: f64,
    /// Time-weighted standard deviation.
    pub deviation: f64,
    /// Highest number of requested seats in the period.
    pub high_watermark: u32,
    /// Smoothed demand: rises at once, falls slowly.
    pub smoothed: f64,
}

impl SeatDemand {
    /// Adds the demand of another period.
    pub(super) fn update(&mut self, seen: Moments) {
        self.high_watermark = u32::try_from(seen.max).unwrap_or(u32::MAX);
        if seen.time.is_zero() {
            return;
        }
        self.average = seen.average;
        self.deviation = seen.deviation;
        let envelope = seen.average + seen.deviation;
        let fallen =
            SMOOTHING_COEFFICIENT * self.smoothed + (1.0 - SMOOTHING_COEFFICIENT) * envelope;
        self.smoothed = envelope.max(fallen);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn demand_rises_at_once_and_falls_slowly() {
        let period = Duration::from_secs(10);
        let seen = |average, max| Moments { time: period, average, deviation: 1.0, max };
        let mut demand = SeatDemand::default();
        demand.update(seen(9.0, 20));
        assert_eq!((demand.smoothed, demand.high_watermark), (10.0, 20));
        // Half of the difference to 0 after five minutes.
        let nothing = Moments { deviation: 0.0, ..seen(0.0, 0) };
        (0..30).for_each(|_| demand.update(nothing));
        assert!((demand.smoothed - 5.0).abs() < 0.05, "{}", demand.smoothed);
        // A period of no duration is no observation.
        let before = demand.smoothed;
        demand.update(Moments { time: Duration::ZERO, average: f64::NAN, ..seen(0.0, 3) });
        assert_eq!((demand.smoothed, demand.high_watermark), (before, 3));
    }
}
