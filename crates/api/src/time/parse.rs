//! Parser of times by layout, with Go's messages.

use super::{NanoTime, days_from_civil, days_in_month};
use crate::quote::quote_ascii;
use std::fmt;

/// Layout of a time: literal bytes and elements, in order.
pub(super) struct Layout {
    text: &'static str,
    parts: &'static [(&'static str, Element)],
}

#[derive(Clone, Copy, PartialEq)]
enum Element {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Micros,
    Zone,
}

/// Layout in seconds; a fraction may follow although the layout has none.
pub(super) const RFC3339: Layout = Layout {
    text: "2006-01-02T15:04:05Z07:00",
    parts: &[
        ("", Element::Year),
        ("-", Element::Month),
        ("-", Element::Day),
        ("T", Element::Hour),
        (":", Element::Minute),
        (":", Element::Second),
        ("", Element::Zone),
    ],
};

/// Layout with exactly six decimals.
pub(super) const RFC3339_MICRO: Layout = Layout {
    text: "2006-01-02T15:04:05.000000Z07:00",
    parts: &[
        ("", Element::Year),
        ("-", Element::Month),
        ("-", Element::Day),
        ("T", Element::Hour),
        (":", Element::Minute),
        (":", Element::Second),
        ("", Element::Micros),
        ("", Element::Zone),
    ],
};

impl Element {
    /// Text of the element in a layout, and in messages.
    fn as_str(self) -> &'static str {
        match self {
            Element::Year => "2006",
            Element::Month => "01",
            Element::Day => "02",
            Element::Hour => "15",
            Element::Minute => "04",
            Element::Second => "05",
            Element::Micros => ".000000",
            Element::Zone => "Z07:00",
        }
    }
}

/// Error of parsing a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseTimeError {
    text: String,
    problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Problem {
    CannotParse { layout: &'static str, rest: Vec<u8>, element: &'static str },
    OutOfRange(&'static str),
    ExtraText(Vec<u8>),
}

impl fmt::Display for ParseTimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parsing time {}", quote_ascii(self.text.as_bytes()))?;
        match &self.problem {
            Problem::CannotParse { layout, rest, element } => {
                write!(f, " as \"{layout}\": cannot parse {} as \"{element}\"", quote_ascii(rest))
            }
            Problem::OutOfRange(what) => write!(f, ": {what} out of range"),
            Problem::ExtraText(rest) => write!(f, ": extra text: {}", quote_ascii(rest)),
        }
    }
}

impl std::error::Error for ParseTimeError {}

/// Parses a time by a layout.
pub(super) fn parse(layout: &Layout, text: &str) -> Result<NanoTime, ParseTimeError> {
    let fail = |problem| ParseTimeError { text: text.to_owned(), problem };
    let cannot_parse = |rest: &[u8], element| {
        fail(Problem::CannotParse { layout: layout.text, rest: rest.to_vec(), element })
    };
    let mut fields = Fields::default();
    let mut rest = text.as_bytes();
    for (index, &(literal, element)) in layout.parts.iter().enumerate() {
        rest = rest.strip_prefix(literal.as_bytes()).ok_or_else(|| cannot_parse(rest, literal))?;
        let fraction_follows =
            layout.parts.get(index + 1).is_some_and(|&(_, next)| next == Element::Micros);
        rest = fields.read(element, rest, fraction_follows).map_err(|bad| match bad {
            Bad::Form => cannot_parse(rest, element.as_str()),
            Bad::Range(what) => fail(Problem::OutOfRange(what)),
        })?;
    }
    if !rest.is_empty() {
        return Err(fail(Problem::ExtraText(rest.to_vec())));
    }
    if fields.day < 1 || fields.day > days_in_month(fields.year, fields.month) {
        return Err(fail(Problem::OutOfRange("day")));
    }
    Ok(NanoTime { seconds: fields.seconds(), nanos: fields.nanos, offset: fields.offset })
}

#[derive(Default)]
struct Fields {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    nanos: u32,
    offset: i64,
}

/// Error of an element: its form, or the named value is out of range.
enum Bad {
    Form,
    Range(&'static str),
}

impl Fields {
    fn seconds(&self) -> i64 {
        let days = days_from_civil(self.year, self.month, self.day);
        days * 86_400 + self.hour * 3600 + self.minute * 60 + self.second - self.offset
    }

    /// Parses one element; returns the rest of the text.
    fn read<'a>(
        &mut self,
        element: Element,
        text: &'a [u8],
        fraction_follows: bool,
    ) -> Result<&'a [u8], Bad> {
        let rest;
        match element {
            Element::Year => {
                let (digits, after) = text.split_at_checked(4).ok_or(Bad::Form)?;
                (self.year, rest) = (number(digits)?, after);
            }
            Element::Month => {
                (self.month, rest) = two_digits(text)?;
                in_range(1..=12, self.month, "month")?;
            }
            Element::Day => (self.day, rest) = two_digits(text)?,
            Element::Hour => {
                // The only element that may have a single digit.
                (self.hour, rest) = two_digits(text).or_else(|_| match text {
                    [digit @ b'0'..=b'9', after @ ..] => Ok((i64::from(digit - b'0'), after)),
                    _ => Err(Bad::Form),
                })?;
                in_range(0..=23, self.hour, "hour")?;
            }
            Element::Minute => {
                (self.minute, rest) = two_digits(text)?;
                in_range(0..=59, self.minute, "minute")?;
            }
            Element::Second => {
                let (second, after) = two_digits(text)?;
                in_range(0..=59, second, "second")?;
                self.second = second;
                rest = match after {
                    [b'.' | b',', digits @ ..] if !fraction_follows => self.fraction(digits, after),
                    _ => after,
                };
            }
            Element::Micros => {
                let (fraction, after) = text.split_at_checked(7).ok_or(Bad::Form)?;
                let (b'.' | b',', digits) = fraction.split_first().ok_or(Bad::Form)? else {
                    return Err(Bad::Form);
                };
                self.nanos = micros(digits)? * 1000;
                rest = after;
            }
            Element::Zone => rest = self.zone(text)?,
        }
        Ok(rest)
    }

    /// Parses the decimals of a second, of which nine count. Returns `unread` if there are none.
    fn fraction<'a>(&mut self, text: &'a [u8], unread: &'a [u8]) -> &'a [u8] {
        let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if len == 0 {
            return unread;
        }
        let digits = text.iter().take(len).chain(std::iter::repeat(&b'0')).take(9);
        self.nanos = digits.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
        text.get(len..).unwrap_or_default()
    }

    fn zone<'a>(&mut self, text: &'a [u8]) -> Result<&'a [u8], Bad> {
        if let [b'Z', rest @ ..] = text {
            return Ok(rest);
        }
        let [sign, h1, h2, b':', m1, m2, rest @ ..] = text else {
            return Err(Bad::Form);
        };
        let hours = two_digits(&[*h1, *h2]).map(|(hours, _)| hours);
        let minutes = two_digits(&[*m1, *m2]).map(|(minutes, _)| minutes);
        // Offsets of 24 hours and 60 minutes are in use, and a value out of range is reported before any other error.
        let hours = hours?;
        in_range(0..=24, hours, "time zone offset hour")?;
        let minutes = minutes?;
        in_range(0..=60, minutes, "time zone offset minute")?;
        self.offset = (hours * 60 + minutes) * 60;
        match sign {
            b'+' => Ok(rest),
            b'-' => {
                self.offset = -self.offset;
                Ok(rest)
            }
            _ => Err(Bad::Form),
        }
    }
}

fn in_range(
    range: std::ops::RangeInclusive<i64>,
    value: i64,
    what: &'static str,
) -> Result<(), Bad> {
    if range.contains(&value) { Ok(()) } else { Err(Bad::Range(what)) }
}

fn two_digits(text: &[u8]) -> Result<(i64, &[u8]), Bad> {
    match text {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9', rest @ ..] => {
            Ok((i64::from(tens - b'0') * 10 + i64::from(ones - b'0'), rest))
        }
        _ => Err(Bad::Form),
    }
}

fn number(digits: &[u8]) -> Result<i64, Bad> {
    digits.iter().try_fold(0, |sum, digit| match digit {
        b'0'..=b'9' => Ok(sum * 10 + i64::from(digit - b'0')),
        _ => Err(Bad::Form),
    })
}

/// Parses six decimals, of which the first may be a sign: a quirk of the reference.
fn micros(digits: &[u8]) -> Result<u32, Bad> {
    let (negative, digits) = match digits {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, digits),
    };
    let value = number(digits)?;
    if negative && value > 0 {
        return Err(Bad::Range("fractional second"));
    }
    u32::try_from(value).map_err(|_| Bad::Form)
}

#[cfg(test)]
mod tests {
    use crate::time::{MicroTime, Time};

    #[test]
    fn errors_speak_as_the_reference() {
        for (text, message) in [
            ("x", r#"as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#),
            ("", r#"as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006""#),
            ("2006", r#"as "2006-01-02T15:04:05Z07:00": cannot parse "" as "-""#),
            ("2006-1-02", r#"as "2006-01-02T15:04:05Z07:00": cannot parse "1-02" as "01""#),
            ("2006-01-02 ", r#"as "2006-01-02T15:04:05Z07:00": cannot parse " " as "T""#),
            (
                "2006-01-02T15:04:05",
                r#"as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00""#,
            ),
            (
                "2006-01-02T15:04:05.é",
                r#"as "2006-01-02T15:04:05Z07:00": cannot parse ".\xc3\xa9" as "Z07:00""#,
            ),
            (
                "2006-01-02T15:04:05*01:00",
                r#"as "2006-01-02T15:04:05Z07:00": cannot parse "*01:00" as "Z07:00""#,
            ),
            ("2006-13-02T15:04:05Z", ": month out of range"),
            ("2006-00-02T15:04:05Z", ": month out of range"),
            ("2006-02-30T15:04:05Z", ": day out of range"),
            ("2006-02-00T15:04:05Z", ": day out of range"),
            ("2006-01-02T24:04:05Z", ": hour out of range"),
            ("2006-01-02T15:60:05Z", ": minute out of range"),
            ("2006-01-02T15:04:60Z", ": second out of range"),
            ("2006-01-02T15:04:05+25:00", ": time zone offset hour out of range"),
            ("2006-01-02T15:04:05+24:61", ": time zone offset minute out of range"),
            ("2006-01-02T15:04:05Zoo", r#": extra text: "oo""#),
        ] {
            let error = text.parse::<Time>().unwrap_err().to_string();
            let quoted = crate::quote::quote_ascii(text.as_bytes());
            let space = if message.starts_with(':') { "" } else { " " };
            assert_eq!(error, format!("parsing time {quoted}{space}{message}"));
        }
    }

    #[test]
    fn micro_times_want_six_decimals() {
        for (text, message) in [
            ("2006-01-02T15:04:05Z", r#"cannot parse "Z" as ".000000""#),
            ("2006-01-02T15:04:05.123Z", r#"cannot parse ".123Z" as ".000000""#),
            ("2006-01-02T15:04:05.1234567Z", r#"cannot parse "7Z" as "Z07:00""#),
            ("2006-01-02T15:04:05+01:00Z", r#"cannot parse "+01:00Z" as ".000000""#),
        ] {
            assert_eq!(
                text.parse::<MicroTime>().unwrap_err().to_string(),
                format!(
                    "parsing time \"{text}\" as \"2006-01-02T15:04:05.000000Z07:00\": {message}"
                )
            );
        }
    }
}
