//! Parser of quantities.

use super::{Format, MANTISSA_LIMIT, MAX_DIGITS, NANO, Quantity};
use std::fmt;
use std::str::FromStr;

/// Error of parsing a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseQuantityError {
    /// The text does not have the form of a quantity.
    Format,
    /// There are no digits before the suffix.
    Numeric,
    /// The suffix is unknown.
    Suffix,
}

impl fmt::Display for ParseQuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Format => {
                "quantities must match the regular expression \
                 '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            }
            Self::Numeric => "unable to parse numeric part of quantity",
            Self::Suffix => "unable to parse quantity's suffix",
        })
    }
}

impl std::error::Error for ParseQuantityError {}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Reading::new(text)?.quantity(NANO).0)
    }
}

/// Parsed text of a quantity, before its value is computed.
pub(super) struct Reading<'a> {
    pub(super) negative: bool,
    /// Digits before the point, without leading zeros, but at least one.
    whole: &'a [u8],
    /// Digits after the point.
    fraction: &'a [u8],
    suffix: Suffix,
}

#[derive(Clone, Copy)]
struct Suffix {
    /// Power of ten, or of two in the binary format.
    exponent: i64,
    format: Format,
}

/// Significant digits of a decimal number: digits `start` to `end` of the whole and the fraction, times ten to the
/// power of `scale`, plus one in the last place if `round_up`.
pub(super) struct Significant {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) scale: i64,
    pub(super) round_up: bool,
}

impl<'a> Reading<'a> {
    pub(super) fn new(text: &'a str) -> Result<Self, ParseQuantityError> {
        let bytes = text.as_bytes();
        let (negative, unsigned) = match bytes {
            [] => return Err(ParseQuantityError::Format),
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, bytes),
        };
        let (zeros, rest) = split_while(unsigned, |b| b == b'0');
        let (whole, rest) = split_while(rest, |b| b.is_ascii_digit());
        let (fraction, suffix) = match rest {
            [b'.', rest @ ..] => split_while(rest, |b| b.is_ascii_digit()),
            _ => (&[][..], rest),
        };
        check_suffix_form(suffix)?;
        let suffix = Suffix::new(suffix).ok_or(ParseQuantityError::Suffix)?;
        let has_digits = !(zeros.is_empty() && whole.is_empty() && fraction.is_empty());
        let whole = if whole.is_empty() { &b"0"[..] } else { whole };
        let reading = Reading { negative, whole, fraction, suffix };
        // An empty number parses as zero, except on the reference's slow path.
        if !has_digits && reading.short_scale().is_none() {
            return Err(ParseQuantityError::Numeric);
        }
        Ok(reading)
    }

    /// Scale of a number that is short enough for the reference's fast path. Only there a text is kept as it was
    /// written.
    pub(super) fn short_scale(&self) -> Option<i64> {
        let (whole, fraction) = (self.whole.len() as i64, self.fraction.len() as i64);
        let Suffix { exponent, format } = self.suffix;
        if format == Format::BinarySi {
            let room = 14 - whole - exponent * 3 / 10;
            return (fraction == 0 && room >= 0).then_some(0);
        }
        let scale = exponent - fraction;
        (whole + fraction <= 18 && scale >= NANO).then_some(scale)
    }

    /// Whether the reference considers the text canonical and writes it unchanged. It checks the digits alone, so that
    /// `+5`, `007` and `1.500` are kept.
    pub(super) fn is_kept(&self) -> bool {
        let Some(scale) = self.short_scale() else {
            return false;
        };
        if self.suffix.format == Format::BinarySi {
            // Divisibility by 8 shows in the last three digits.
            let low = self.whole.iter().rev().take(3).rev();
            return low.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')) % 8 != 0;
        }
        let trailing_zeros = (0..self.len()).rev().take_while(|&i| self.digit(i) == 0).count();
        scale % 3 == 0 && trailing_zeros < 3 && self.digit(0) != 0
    }

    pub(super) fn format(&self) -> Format {
        self.suffix.format
    }

    /// Number rounded away from zero to ten to the power of `unit`, and whether it has all digits of the text down to
    /// that unit.
    pub(super) fn quantity(&self, unit: i64) -> (Quantity, bool) {
        let (mut quantity, exact) = match self.suffix.format {
            Format::BinarySi => (self.binary(), true),
            _ => self.decimal(unit),
        };
        if unit > NANO {
            quantity.round_up(unit as i32);
        }
        if self.negative {
            quantity = -quantity;
        }
        (quantity, exact)
    }

    fn decimal(&self, unit: i64) -> (Quantity, bool) {
        let Significant { start, end, scale, round_up } = self.significant(unit);
        let cut = end.min(start + MAX_DIGITS);
        let lost = round_up || (cut..end).any(|i| self.digit(i) != 0);
        let digits = (start..cut).map(|i| i128::from(self.digit(i)));
        let mut mantissa = digits.fold(0, |sum, digit| sum * 10 + digit) + i128::from(lost);
        let mut scale = scale + (end - cut) as i64;
        if mantissa == MANTISSA_LIMIT {
            (mantissa, scale) = (mantissa / 10, scale + 1);
        }
        (Quantity { mantissa, scale, format: self.suffix.format }, cut == end)
    }

    /// Significant digits after rounding to ten to the power of `unit`.
    pub(super) fn significant(&self, unit: i64) -> Significant {
        let len = self.len();
        let Some(start) = (0..len).find(|&i| self.digit(i) != 0) else {
            return Significant { start: len, end: len, scale: 0, round_up: false };
        };
        let mut end = len;
        let mut scale = self.suffix.exponent - self.fraction.len() as i64;
        let mut round_up = false;
        if scale < unit {
            let dropped = usize::try_from(unit - scale).unwrap_or(usize::MAX);
            end = len.saturating_sub(dropped).max(start);
            scale = unit;
            round_up = (end..len).any(|i| self.digit(i) != 0);
        }
        while !round_up && end > start && self.digit(end - 1) == 0 {
            end -= 1;
            scale += 1;
        }
        Significant { start, end, scale, round_up }
    }

    /// Value of a binary quantity, capped at 2^63-1, so that 128 bits hold it in nano-units.
    fn binary(&self) -> Quantity {
        const CAP: u128 = i64::MAX as u128;
        const NANOS: u128 = 1_000_000_000;
        let Suffix { exponent, format } = self.suffix;
        let capped = Quantity::new(i64::MAX, format);
        let Some(whole) = parse_u64(self.whole).map(|whole| u128::from(whole) << exponent) else {
            return capped;
        };
        if whole > CAP {
            return capped;
        }
        // fraction * unit, from the last digits to the first, as many at a time as 128 bits hold: each step carries
        // less than one unit, and cut digits only round up.
        let unit = NANOS << exponent;
        let mut nanos = 0;
        let mut round_up = false;
        for digits in self.fraction.rchunks(9) {
            let value = digits.iter().fold(0, |sum, digit| sum * 10 + u128::from(digit - b'0'));
            let sum = value * unit + nanos;
            let ten = 10_u128.pow(digits.len() as u32);
            nanos = sum / ten;
            round_up |= nanos * ten != sum;
        }
        let amount = whole * NANOS + nanos + u128::from(round_up);
        if amount > CAP * NANOS {
            return capped;
        }
        let format = if 0 < amount && amount < NANOS { Format::DecimalSi } else { format };
        Quantity { mantissa: amount as i128, scale: NANO, format }.trimmed()
    }

    fn len(&self) -> usize {
        self.whole.len() + self.fraction.len()
    }

    /// Digit at a position in whole and fraction together.
    pub(super) fn digit(&self, at: usize) -> u8 {
        let byte = match at.checked_sub(self.whole.len()) {
            None => self.whole.get(at),
            Some(at) => self.fraction.get(at),
        };
        byte.map_or(0, |byte| byte - b'0')
    }
}

impl Suffix {
    fn new(text: &[u8]) -> Option<Self> {
        let (exponent, format) = match text {
            b"" => (0, Format::DecimalSi),
            b"n" => (-9, Format::DecimalSi),
            b"u" => (-6, Format::DecimalSi),
            b"m" => (-3, Format::DecimalSi),
            b"k" => (3, Format::DecimalSi),
            b"M" => (6, Format::DecimalSi),
            b"G" => (9, Format::DecimalSi),
            b"T" => (12, Format::DecimalSi),
            b"P" => (15, Format::DecimalSi),
            b"E" => (18, Format::DecimalSi),
            b"Ki" => (10, Format::BinarySi),
            b"Mi" => (20, Format::BinarySi),
            b"Gi" => (30, Format::BinarySi),
            b"Ti" => (40, Format::BinarySi),
            b"Pi" => (50, Format::BinarySi),
            b"Ei" => (60, Format::BinarySi),
            [b'e' | b'E', exponent @ ..] => {
                let exponent: i64 = std::str::from_utf8(exponent).ok()?.parse().ok()?;
                // The reference truncates the exponent to 32 bits.
                (i64::from(exponent as i32), Format::DecimalExponent)
            }
            _ => return None,
        };
        Some(Suffix { exponent, format })
    }
}

/// Checks that a suffix is letters, then a sign, then digits, each optional.
fn check_suffix_form(suffix: &[u8]) -> Result<(), ParseQuantityError> {
    let (_, rest) = split_while(suffix, |b| b"eEinumkKMGTP".contains(&b));
    let rest = match rest {
        [b'+' | b'-', rest @ ..] => rest,
        _ => rest,
    };
    if rest.iter().all(u8::is_ascii_digit) { Ok(()) } else { Err(ParseQuantityError::Format) }
}

fn split_while(bytes: &[u8], wanted: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.iter().position(|&b| !wanted(b)).unwrap_or(bytes.len()))
}

fn parse_u64(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}
