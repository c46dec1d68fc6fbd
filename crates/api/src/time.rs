//! Times as the API writes them: `2006-01-02T15:04:05Z`.

mod nano;
mod parse;

pub use nano::{NanoTime, UnprintableTime};
pub use parse::ParseTimeError;

use std::fmt;
use std::str::FromStr;
use std::time::UNIX_EPOCH;

use kevel_clock::Clock;

/// `metav1.Time`: a time to the second. Fractions are parsed and dropped.
///
/// ```
/// use kevel_api::time::Time;
/// assert_eq!("2024-02-29T23:30:00.5-01:00".parse::<Time>()?.to_string(), "2024-03-01T00:30:00Z");
/// # Ok::<(), kevel_api::time::ParseTimeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time {
    /// Seconds since the Unix epoch.
    pub seconds: i64,
}

/// `metav1.MicroTime`: a time to the microsecond, always written with six decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MicroTime {
    /// Seconds since the Unix epoch.
    pub seconds: i64,
    /// Nanoseconds after that second; only microseconds are written.
    pub nanos: u32,
}

/// First second of year 1: the reference's zero time, which JSON writes as `null`.
const ZERO_SECONDS: i64 = -62_135_596_800;

impl Time {
    /// The zero time, which stands for none.
    pub const ZERO: Time = Time { seconds: ZERO_SECONDS };

    /// Current time of the server's clock.
    pub fn now(clock: &Clock) -> Self {
        Time { seconds: since_epoch(clock).0 }
    }

    /// Whether this is the zero time, which is written as `null`.
    pub const fn is_zero(&self) -> bool {
        self.seconds == ZERO_SECONDS
    }
}

impl Default for Time {
    fn default() -> Self {
        Time::ZERO
    }
}

impl MicroTime {
    /// The zero time, which stands for none.
    pub const ZERO: MicroTime = MicroTime { seconds: ZERO_SECONDS, nanos: 0 };

    /// Current time of the server's clock.
    pub fn now(clock: &Clock) -> Self {
        let (seconds, nanos) = since_epoch(clock);
        MicroTime { seconds, nanos: nanos - nanos % 1000 }
    }

    /// Time that many seconds later.
    #[must_use]
    pub const fn plus_seconds(self, seconds: i64) -> Self {
        MicroTime { seconds: self.seconds.saturating_add(seconds), nanos: self.nanos }
    }

    /// Whether this is the zero time, which is written as `null`.
    pub const fn is_zero(&self) -> bool {
        self.seconds == ZERO_SECONDS && self.nanos == 0
    }
}

impl Default for MicroTime {
    fn default() -> Self {
        MicroTime::ZERO
    }
}

impl FromStr for Time {
    type Err = ParseTimeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Time { seconds: parse::parse(&parse::RFC3339, text)?.seconds })
    }
}

impl FromStr for MicroTime {
    type Err = ParseTimeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let NanoTime { seconds, nanos, .. } = parse::parse(&parse::RFC3339_MICRO, text)?;
        Ok(MicroTime { seconds, nanos })
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_seconds(f, self.seconds)?;
        f.write_str("Z")
    }
}

impl fmt::Display for MicroTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_seconds(f, self.seconds)?;
        write!(f, ".{:06}Z", self.nanos / 1000)
    }
}

fn write_seconds(f: &mut fmt::Formatter<'_>, seconds: i64) -> fmt::Result {
    let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
    let second = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let mut text = *b"0000-00-00T00:00:00";
    let fields = [(2, year.unsigned_abs() as i64 % 100), (5, month), (8, day), (11, hour)];
    for (at, value) in fields.into_iter().chain([(14, minute), (17, second)]) {
        text[at] += (value / 10) as u8;
        text[at + 1] += (value % 10) as u8;
    }
    if !(0..10_000).contains(&year) {
        // A sign does not count towards the four digits of a year.
        let sign = if year < 0 { "-" } else { "" };
        write!(f, "{sign}{:04}", year.unsigned_abs())?;
        return f.write_str(std::str::from_utf8(&text[4..]).unwrap_or_default());
    }
    text[0] += (year / 1000) as u8;
    text[1] += (year / 100 % 10) as u8;
    f.write_str(std::str::from_utf8(&text).unwrap_or_default())
}

fn since_epoch(clock: &Clock) -> (i64, u32) {
    match clock.now().duration_since(UNIX_EPOCH) {
        Ok(since) => (since.as_secs() as i64, since.subsec_nanos()),
        // A clock before 1970 was never set.
        Err(_) => (0, 0),
    }
}

/// Days in 400 years, after which the calendar repeats.
const ERA_DAYS: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_DAYS: i64 = 719_468;

/// Date a number of days after 1970-01-01, in the proleptic Gregorian calendar. Years are counted from March, so that
/// the leap day comes last.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_DAYS;
    let (era, day_of_era) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March take 153 days in every five.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// The inverse of [`civil_from_days`].
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * ERA_DAYS + day_of_era - EPOCH_DAYS
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendar_is_its_own_inverse() {
        for days in (-800_000..3_000_000).step_by(13) {
            let (year, month, day) = civil_from_days(days);
            assert!((1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day));
            assert_eq!(days_from_civil(year, month, day), days);
        }
    }

    #[test]
    fn times_are_read_and_written() {
        for (text, seconds, printed) in [
            ("1970-01-01T00:00:00Z", 0, "1970-01-01T00:00:00Z"),
            ("2006-01-02T15:04:05Z", 1_136_214_245, "2006-01-02T15:04:05Z"),
            ("2006-01-02T15:04:05+07:00", 1_136_189_045, "2006-01-02T08:04:05Z"),
            ("2006-01-02T15:04:05.999999999999Z", 1_136_214_245, "2006-01-02T15:04:05Z"),
            ("2006-01-02T15:04:05,5Z", 1_136_214_245, "2006-01-02T15:04:05Z"),
            ("2006-01-02T5:04:05Z", 1_136_178_245, "2006-01-02T05:04:05Z"),
            ("2024-02-29T00:00:00-24:60", 1_709_254_800, "2024-03-01T01:00:00Z"),
            ("0001-01-01T00:00:00Z", ZERO_SECONDS, "0001-01-01T00:00:00Z"),
            ("0000-01-01T00:00:00+00:01", -62_167_219_260, "-0001-12-31T23:59:00Z"),
            ("9999-12-31T23:59:59-00:01", 253_402_300_859, "10000-01-01T00:00:59Z"),
            ("1969-12-31T23:59:59Z", -1, "1969-12-31T23:59:59Z"),
        ] {
            let time: Time = text.parse().unwrap();
            assert_eq!(time.seconds, seconds, "{text}");
            assert_eq!(time.to_string(), printed, "{text}");
        }
        assert!(Time::default().is_zero() && MicroTime::default().is_zero());
    }

    #[test]
    fn micro_times_are_read_and_written() {
        for (text, nanos, printed) in [
            ("2006-01-02T15:04:05.000000Z", 0, "2006-01-02T15:04:05.000000Z"),
            ("2006-01-02T15:04:05.123456Z", 123_456_000, "2006-01-02T15:04:05.123456Z"),
            ("2006-01-02T15:04:05,000001+01:00", 1_000, "2006-01-02T14:04:05.000001Z"),
        ] {
            let time: MicroTime = text.parse().unwrap();
            assert_eq!(time.nanos, nanos, "{text}");
            assert_eq!(time.to_string(), printed, "{text}");
        }
        let fine = MicroTime { seconds: 0, nanos: 999 };
        assert_eq!(fine.to_string(), "1970-01-01T00:00:00.000000Z");
    }

    #[test]
    fn now_is_after_this_was_written() {
        assert!(Time::now(&Clock::system()).seconds > 1_700_000_000);
        assert_eq!(MicroTime::now(&Clock::system()).nanos % 1000, 0);
    }
}
