//! Durations as text (`metav1.Duration`): `1h30m`, `250ms`.

use crate::quote::quote_ascii;
use std::fmt;
use std::str::FromStr;

/// Signed duration in nanoseconds.
///
/// ```
/// use kevel_api::duration::Duration;
/// assert_eq!("90m".parse::<Duration>()?.to_string(), "1h30m0s");
/// # Ok::<(), kevel_api::duration::ParseDurationError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Duration(pub i64);

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", MICROSECOND),
    ("\u{b5}s", MICROSECOND),
    ("\u{3bc}s", MICROSECOND),
    ("ms", MILLISECOND),
    ("s", SECOND),
    ("m", MINUTE),
    ("h", HOUR),
];

/// Error of parsing a duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseDurationError {
    problem: Problem,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Problem {
    Invalid,
    MissingUnit,
    UnknownUnit(String),
}

impl fmt::Display for ParseDurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Problem::Invalid => f.write_str("time: invalid duration ")?,
            Problem::MissingUnit => f.write_str("time: missing unit in duration ")?,
            Problem::UnknownUnit(unit) => {
                write!(f, "time: unknown unit {} in duration ", quote_ascii(unit.as_bytes()))?;
            }
        }
        f.write_str(&quote_ascii(self.text.as_bytes()))
    }
}

impl std::error::Error for ParseDurationError {}

impl FromStr for Duration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = |problem| ParseDurationError { problem, text: text.to_owned() };
        let (negative, unsigned) = match text.strip_prefix(['-', '+']) {
            Some(rest) => (text.starts_with('-'), rest),
            None => (false, text),
        };
        if unsigned == "0" {
            return Ok(Duration(0));
        }
        let nanos = sum_of_terms(unsigned).map_err(fail)?;
        match i64::try_from(nanos) {
            Ok(nanos) if negative => Ok(Duration(-nanos)),
            Ok(nanos) => Ok(Duration(nanos)),
            Err(_) if negative => Ok(Duration(i64::MIN)),
            Err(_) => Err(fail(Problem::Invalid)),
        }
    }
}

/// Largest magnitude, that of the most negative duration.
const LIMIT: u64 = 1 << 63;

fn sum_of_terms(mut rest: &str) -> Result<u64, Problem> {
    if rest.is_empty() {
        return Err(Problem::Invalid);
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (nanos, after) = term(rest)?;
        total = total.checked_add(nanos).filter(|&t| t <= LIMIT).ok_or(Problem::Invalid)?;
        rest = after;
    }
    Ok(total)
}

/// Parses one number with its unit.
fn term(text: &str) -> Result<(u64, &str), Problem> {
    let (whole, rest) = split_digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    let whole_nanos = whole.bytes().try_fold(0_u64, |sum, digit| {
        let sum = sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
        (sum <= LIMIT).then_some(sum)
    });
    let whole_nanos = whole_nanos.ok_or(Problem::Invalid)?;
    if whole.is_empty() && fraction.is_empty() {
        return Err(Problem::Invalid);
    }
    let unit_end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(unit_end);
    if name.is_empty() {
        return Err(Problem::MissingUnit);
    }
    let known = UNITS.iter().find(|(unit, _)| *unit == name);
    let Some(&(_, unit)) = known else {
        return Err(Problem::UnknownUnit(name.to_owned()));
    };
    let nanos = whole_nanos.checked_mul(unit).filter(|&nanos| nanos <= LIMIT);
    let nanos = nanos.and_then(|nanos| nanos.checked_add(fraction_of(unit, fraction)));
    let nanos = nanos.filter(|&nanos| nanos <= LIMIT).ok_or(Problem::Invalid)?;
    Ok((nanos, rest))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// Nanoseconds in a fraction of a unit. Computed in floating point as in Go, whose rounding shows in the last
/// nanosecond.
fn fraction_of(unit: u64, digits: &str) -> u64 {
    let mut fraction: u64 = 0;
    let mut scale = 1.0;
    for digit in digits.bytes() {
        if fraction > (LIMIT - 1) / 10 {
            break;
        }
        let next = fraction * 10 + u64::from(digit - b'0');
        if next > LIMIT {
            break;
        }
        fraction = next;
        scale *= 10.0;
    }
    (fraction as f64 * (unit as f64 / scale)) as u64
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match nanos {
            0 => f.write_str("0s"),
            1..MICROSECOND => write!(f, "{nanos}ns"),
            MICROSECOND..MILLISECOND => write_decimal(f, nanos, 3, "\u{b5}s"),
            MILLISECOND..SECOND => write_decimal(f, nanos, 6, "ms"),
            SECOND.. => {
                let (hours, minutes) = (nanos / HOUR, nanos / MINUTE % 60);
                if hours > 0 {
                    write!(f, "{hours}h")?;
                }
                if nanos >= MINUTE {
                    write!(f, "{minutes}m")?;
                }
                write_decimal(f, nanos % MINUTE, 9, "s")
            }
        }
    }
}

/// Writes `value` with `places` decimal places, without trailing zeros.
fn write_decimal(f: &mut fmt::Formatter<'_>, value: u64, places: usize, unit: &str) -> fmt::Result {
    let one = 10_u64.pow(places as u32);
    write!(f, "{}", value / one)?;
    let fraction = value % one;
    if fraction > 0 {
        let digits = format!("{fraction:0places$}");
        write!(f, ".{}", digits.trim_end_matches('0'))?;
    }
    f.write_str(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_and_print() {
        for (text, nanos, printed) in [
            ("0", 0, "0s"),
            ("-0", 0, "0s"),
            ("5s", 5_000_000_000, "5s"),
            ("30s", 30_000_000_000, "30s"),
            ("1478s", 1_478_000_000_000, "24m38s"),
            ("-5.s", -5_000_000_000, "-5s"),
            ("+.5s", 500_000_000, "500ms"),
            ("5.0s", 5_000_000_000, "5s"),
            ("10ns", 10, "10ns"),
            ("11us", 11_000, "11\u{b5}s"),
            ("12\u{b5}s", 12_000, "12\u{b5}s"),
            ("12\u{3bc}s500ns", 12_500, "12.5\u{b5}s"),
            ("1.001002s", 1_001_002_000, "1.001002s"),
            ("3h30m", 12_600_000_000_000, "3h30m0s"),
            ("10.5s4m", 250_500_000_000, "4m10.5s"),
            ("-2m3.4s", -123_400_000_000, "-2m3.4s"),
            ("39h9m14.425s", 140_954_425_000_000, "39h9m14.425s"),
            ("0.3333333333333333333h", 1_200_000_000_000, "20m0s"),
            ("0.100000000000000000000h", 360_000_000_000, "6m0s"),
            ("9223372036854775807ns", i64::MAX, "2562047h47m16.854775807s"),
            ("-9223372036854775808ns", i64::MIN, "-2562047h47m16.854775808s"),
            ("60m", 3_600_000_000_000, "1h0m0s"),
            ("0.00001ns", 0, "0s"),
        ] {
            let duration: Duration = text.parse().unwrap();
            assert_eq!(duration, Duration(nanos), "{text}");
            assert_eq!(duration.to_string(), printed, "{text}");
        }
    }

    #[test]
    fn errors_speak_as_the_reference() {
        for (text, message) in [
            ("", r#"time: invalid duration """#),
            ("3", r#"time: missing unit in duration "3""#),
            ("-", r#"time: invalid duration "-""#),
            ("s", r#"time: invalid duration "s""#),
            (".", r#"time: invalid duration ".""#),
            ("-.s", r#"time: invalid duration "-.s""#),
            ("1d", r#"time: unknown unit "d" in duration "1d""#),
            ("1 s", r#"time: unknown unit " s" in duration "1 s""#),
            ("1é", r#"time: unknown unit "\xc3\xa9" in duration "1\xc3\xa9""#),
            ("x\"", r#"time: invalid duration "x\"""#),
            ("3000000h", r#"time: invalid duration "3000000h""#),
            ("9223372036854775808ns", r#"time: invalid duration "9223372036854775808ns""#),
            ("-9223372036854775809ns", r#"time: invalid duration "-9223372036854775809ns""#),
            ("9223372036854775.808us", r#"time: invalid duration "9223372036854775.808us""#),
        ] {
            assert_eq!(text.parse::<Duration>().unwrap_err().to_string(), message);
        }
    }
}
