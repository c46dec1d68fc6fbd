//! Timestamps, with the offset with which they were written.

use std::fmt;

/// Timestamp between the years 1 and 9999. Equality and order are those of the instant.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp {
    /// Seconds since the Unix epoch.
    pub seconds: i64,
    /// Nanoseconds after that second.
    pub nanos: u32,
    /// Seconds east of UTC, for printing.
    pub offset: i32,
}

/// The first second of year 1.
pub const MIN_SECONDS: i64 = -62_135_596_800;
/// The last second of year 9999.
pub const MAX_SECONDS: i64 = 253_402_300_799;

/// Date and time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    pub year: i64,
    /// From 1.
    pub month: i64,
    /// From 1.
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    /// From 1.
    pub day_of_year: i64,
    /// From 0, which is Sunday.
    pub weekday: i64,
}

impl Timestamp {
    /// Whether the timestamp is in the allowed years.
    pub fn is_in_range(&self) -> bool {
        (MIN_SECONDS..=MAX_SECONDS).contains(&self.seconds)
    }

    /// Comparable instant.
    pub(crate) fn instant(&self) -> (i64, u32) {
        (self.seconds, self.nanos)
    }

    /// Parses RFC 3339 as Go does: a fraction may have any number of digits, and no part may be missing.
    pub fn parse(text: &str) -> Option<Self> {
        // Go accepts an hour of one digit.
        let padded = match text.as_bytes().get(12) {
            Some(b':') => Some(format!("{}0{}", text.get(..11)?, text.get(11..)?)),
            _ => None,
        };
        let text = padded.as_deref().unwrap_or(text);
        let bytes = text.as_bytes();
        let number = |from: usize, len: usize| -> Option<i64> {
            let digits = text.get(from..from + len)?;
            digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
        };
        let at = |index: usize, byte: u8| (bytes.get(index) == Some(&byte)).then_some(());
        let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
        for (index, byte) in [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')] {
            at(index, byte)?;
        }
        let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
        let in_range = (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        if !in_range {
            return None;
        }
        let mut rest = text.get(19..)?;
        let mut nanos = 0;
        if let Some(fraction) = rest.strip_prefix(['.', ',']) {
            let len = fraction.bytes().take_while(u8::is_ascii_digit).count();
            let digits: String =
                fraction.get(..len)?.chars().chain("000000000".chars()).take(9).collect();
            nanos = digits.parse().ok().filter(|_| len > 0)?;
            rest = fraction.get(len..)?;
        }
        let offset = parse_offset(rest)?;
        let days = days_from_civil(year, month, day);
        let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - i64::from(offset);
        Some(Timestamp { seconds, nanos, offset })
    }

    /// Date and time of day at an offset from UTC in seconds.
    pub(crate) fn civil(&self, offset: i64) -> Civil {
        let local = self.seconds + offset;
        let (days, second_of_day) = (local.div_euclid(86_400), local.rem_euclid(86_400));
        let (year, month, day) = civil_from_days(days);
        Civil {
            year,
            month,
            day,
            hour: second_of_day / 3600,
            minute: second_of_day / 60 % 60,
            second: second_of_day % 60,
            day_of_year: days - days_from_civil(year, 1, 1) + 1,
            weekday: (days + 4).rem_euclid(7),
        }
    }
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.instant() == other.instant()
    }
}

/// Prints RFC 3339 with as many decimals as needed.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Civil { year, month, day, hour, minute, second, .. } =
            self.civil(i64::from(self.offset));
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if self.nanos > 0 {
            write!(f, ".{}", format!("{:09}", self.nanos).trim_end_matches('0'))?;
        }
        if self.offset == 0 {
            return f.write_str("Z");
        }
        let sign = if self.offset < 0 { '-' } else { '+' };
        let minutes = self.offset.abs() / 60;
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

fn parse_offset(text: &str) -> Option<i32> {
    if text == "Z" {
        return Some(0);
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = text.get(1..)?.split_once(':')?;
    let number = |text: &str, max: i32| -> Option<i32> {
        let valid = text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
        valid.then(|| text.parse().ok()).flatten().filter(|n| *n <= max)
    };
    Some(sign * (number(hours, 24)? * 3600 + number(minutes, 60)? * 60))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since the epoch. Years begin in March here, so that the leap day is the last of its year.
pub(crate) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_and_print() {
        for (text, printed) in [
            ("2024-02-29T12:34:56.789Z", Some("2024-02-29T12:34:56.789Z")),
            ("0001-01-01T00:00:00Z", Some("0001-01-01T00:00:00Z")),
            ("9999-12-31T23:59:59.999999999+02:30", Some("9999-12-31T23:59:59.999999999+02:30")),
            ("2023-02-29T00:00:00Z", None),
            ("2023-02-28T24:00:00Z", None),
            ("2023-02-28 00:00:00Z", None),
        ] {
            assert_eq!(Timestamp::parse(text).map(|t| t.to_string()).as_deref(), printed, "{text}");
        }
    }
}
