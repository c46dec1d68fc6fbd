//! Times with nanoseconds and UTC offset, as in Go.

use std::fmt;
use std::str::FromStr;

use super::{ParseTimeError, Time, parse};

/// A parsed `time.Time`: a time to the nanosecond, with its UTC offset.
///
/// ```
/// use kevel_api::time::NanoTime;
/// let time: NanoTime = "2024-01-02T3:04:05,120+02:00".parse()?;
/// assert_eq!(time.to_rfc3339().unwrap(), "2024-01-02T03:04:05.12+02:00");
/// # Ok::<(), kevel_api::time::ParseTimeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NanoTime {
    /// Seconds since the Unix epoch.
    pub seconds: i64,
    /// Nanoseconds after that second.
    pub nanos: u32,
    /// Offset from UTC in seconds.
    pub offset: i64,
}

/// Error of a time that RFC 3339 cannot represent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnprintableTime {
    /// Before the year 0, or after the year 9999.
    Year,
    /// A day or more from UTC.
    Offset,
}

impl fmt::Display for UnprintableTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UnprintableTime::Year => "year outside of range [0,9999]",
            UnprintableTime::Offset => "timezone hour outside of range [0,23]",
        })
    }
}

impl std::error::Error for UnprintableTime {}

impl FromStr for NanoTime {
    type Err = ParseTimeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse::parse(&parse::RFC3339, text)
    }
}

impl NanoTime {
    /// Time that many seconds and nanoseconds after 1970 began, in UTC; the nanoseconds may be any number.
    pub fn at(seconds: i64, nanos: i64) -> Self {
        const SECOND: i64 = 1_000_000_000;
        let seconds = seconds.saturating_add(nanos.div_euclid(SECOND));
        NanoTime { seconds, nanos: nanos.rem_euclid(SECOND) as u32, offset: 0 }
    }

    /// RFC 3339 text, with as many decimals as needed.
    pub fn to_rfc3339(&self) -> Result<String, UnprintableTime> {
        // First and last second of the years with four digits.
        const PRINTED: std::ops::RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;
        let local = self.seconds.saturating_add(self.offset);
        if !PRINTED.contains(&local) {
            return Err(UnprintableTime::Year);
        }
        let (hours, minutes) = (self.offset.abs() / 3600, self.offset.abs() / 60 % 60);
        if hours > 23 {
            return Err(UnprintableTime::Offset);
        }
        let mut text = Time { seconds: local }.to_string();
        text.pop();
        if self.nanos > 0 {
            let digits = format!(".{:09}", self.nanos);
            text.push_str(digits.trim_end_matches('0'));
        }
        match self.offset {
            0 => text.push('Z'),
            offset => {
                let sign = if offset < 0 { '-' } else { '+' };
                text.push_str(&format!("{sign}{hours:02}:{minutes:02}"));
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_without_rfc3339_text_are_refused() {
        for (time, expected) in [
            (NanoTime::at(0, -1), Ok("1969-12-31T23:59:59.999999999Z".to_owned())),
            (NanoTime::at(253_402_300_799, 0), Ok("9999-12-31T23:59:59Z".to_owned())),
            (NanoTime::at(253_402_300_800, 0), Err(UnprintableTime::Year)),
            (NanoTime::at(i64::MIN, 0), Err(UnprintableTime::Year)),
            (NanoTime { offset: 86_400, ..NanoTime::at(0, 0) }, Err(UnprintableTime::Offset)),
        ] {
            assert_eq!(time.to_rfc3339(), expected, "{time:?}");
        }
    }
}
