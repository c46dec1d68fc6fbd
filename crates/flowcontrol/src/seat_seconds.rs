//! Work, in seat-seconds: one seat held for one second.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

/// An amount of work, or a value of the progress meter R, in nanoseconds. 128 bits do not overflow in the life of a
/// server, so there are no epochs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeatSeconds(i128);

const PER_SECOND: i128 = 1_000_000_000;
/// Displayed precision: eight decimals.
const PER_SHOWN: i128 = 10;

impl SeatSeconds {
    /// No work.
    pub const ZERO: SeatSeconds = SeatSeconds(0);

    /// Work of `seats` for `time`.
    pub fn of(seats: u32, time: Duration) -> Self {
        SeatSeconds(i128::from(seats) * nanos(time))
    }

    /// Share of each of `queues` in the service of `seats` for `time`. Zero without queues.
    pub(crate) fn share(seats: u32, queues: u32, time: Duration) -> Self {
        match queues {
            0 => SeatSeconds::ZERO,
            _ => SeatSeconds(i128::from(seats) * nanos(time) / i128::from(queues)),
        }
    }

    /// Time that `seats` seats need for this work.
    pub fn duration_per_seat(self, seats: u32) -> Duration {
        let nanos = self.0.max(0) / i128::from(seats.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Number of seat-seconds.
    #[allow(clippy::cast_precision_loss)] // It is for a gauge.
    pub fn to_f64(self) -> f64 {
        self.0 as f64 / PER_SECOND as f64
    }
}

fn nanos(time: Duration) -> i128 {
    // Decades fit.
    i128::try_from(time.as_nanos()).unwrap_or(i128::MAX >> 64)
}

impl Add for SeatSeconds {
    type Output = SeatSeconds;

    fn add(self, other: SeatSeconds) -> SeatSeconds {
        SeatSeconds(self.0 + other.0)
    }
}

impl Sub for SeatSeconds {
    type Output = SeatSeconds;

    fn sub(self, other: SeatSeconds) -> SeatSeconds {
        SeatSeconds(self.0 - other.0)
    }
}

impl AddAssign for SeatSeconds {
    fn add_assign(&mut self, other: SeatSeconds) {
        self.0 += other.0;
    }
}

impl SubAssign for SeatSeconds {
    fn sub_assign(&mut self, other: SeatSeconds) {
        self.0 -= other.0;
    }
}

/// Format of the dumps: `12.00300000ss`.
impl fmt::Display for SeatSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.max(0) / PER_SHOWN;
        let per_second = PER_SECOND / PER_SHOWN;
        write!(f, "{}.{:08}ss", shown / per_second, shown % per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_shown_with_eight_decimals() {
        for (seats, nanos, shown) in [
            (0, 0, "0.00000000ss"),
            (1, 3_000_000, "0.00300000ss"),
            (7, 1_500_000_019, "10.50000013ss"),
            (u32::MAX, u64::MAX, "79228162495817593515.53943142ss"),
        ] {
            let work = SeatSeconds::of(seats, Duration::from_nanos(nanos));
            assert_eq!(work.to_string(), shown);
        }
    }

    #[test]
    fn work_can_be_reshaped() {
        let work = SeatSeconds::of(25, Duration::from_millis(5));
        assert_eq!(work.duration_per_seat(10), Duration::from_micros(12_500));
        assert_eq!(SeatSeconds::share(3, 2, Duration::from_secs(1)).to_f64(), 1.5);
        assert_eq!(SeatSeconds::share(3, 0, Duration::from_secs(1)), SeatSeconds::ZERO);
    }
}
