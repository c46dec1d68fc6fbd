//! Text of a quantity after decoding and encoding.

use super::parse::{Reading, Significant};
use super::{Format, MILLI, NANO, ParseQuantityError, write_suffix};
use std::borrow::Cow;

/// Text of a quantity after the reference has decoded it from JSON and encoded it again, to JSON or to protobuf.
///
/// Most texts become canonical (`1000m` becomes `1`, `0.5Gi` becomes `512Mi`), but a text whose digits look canonical
/// is kept (`+5`, `007`, `1.500`, `1E3`).
///
/// `text` is the content of the JSON string, or a bare JSON number; the reference does not resolve escape sequences, so
/// they are errors. Surrounding space is dropped; protobuf, which does not allow it, is decoded with
/// [`canonicalize_protobuf`].
///
/// ```
/// use kevel_api::quantity::canonicalize_json;
/// assert_eq!(canonicalize_json("1000m")?, "1");
/// assert_eq!(canonicalize_json("1.500")?, "1.500");
/// # Ok::<(), kevel_api::quantity::ParseQuantityError>(())
/// ```
pub fn canonicalize_json(text: &str) -> Result<Cow<'_, str>, ParseQuantityError> {
    canonicalize_protobuf(text.trim())
}

/// Text of a quantity after the reference has decoded it from protobuf and encoded it again: like
/// [`canonicalize_json`], but space is an error.
pub fn canonicalize_protobuf(text: &str) -> Result<Cow<'_, str>, ParseQuantityError> {
    if is_plainly_canonical(text) {
        return Ok(Cow::Borrowed(text));
    }
    let reading = Reading::new(text)?;
    if reading.is_kept() {
        return Ok(Cow::Borrowed(text));
    }
    Ok(canonical(text, &reading, NANO))
}

/// Text of a quantity after defaulting: the amounts of a core/v1 `ResourceList` are rounded up to thousandths, others
/// are unchanged.
///
/// Includes [`canonicalize_json`], as a text that needs no rounding is not touched.
pub fn default_resource_json(text: &str) -> Result<Cow<'_, str>, ParseQuantityError> {
    let text = text.trim();
    let reading = Reading::new(text)?;
    if reading.short_scale().is_some_and(|scale| scale >= MILLI) && reading.is_kept() {
        return Ok(Cow::Borrowed(text));
    }
    Ok(canonical(text, &reading, MILLI))
}

/// Whether a text is a common canonical quantity: a few digits that no larger suffix would shorten, and a suffix. A
/// text for which this is false may still be canonical.
fn is_plainly_canonical(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    // So few digits are within all limits.
    if !(1..=4).contains(&digits) || bytes[0] == b'0' {
        return false;
    }
    let number = bytes[..digits].iter().fold(0, |n, digit| n * 10 + u32::from(digit - b'0'));
    match &bytes[digits..] {
        b"" | b"m" | b"k" | b"M" | b"G" | b"T" => number % 1000 != 0,
        b"Ki" | b"Mi" | b"Gi" | b"Ti" => number % 1024 != 0,
        _ => false,
    }
}

fn canonical<'a>(text: &'a str, reading: &Reading<'_>, unit: i64) -> Cow<'a, str> {
    let (quantity, exact) = reading.quantity(unit);
    let canonical = if exact { quantity.to_string() } else { long_decimal(reading, unit) };
    if canonical == text { Cow::Borrowed(text) } else { Cow::Owned(canonical) }
}

/// Canonical form of a decimal number with more digits than a [`super::Quantity`] holds.
fn long_decimal(reading: &Reading<'_>, unit: i64) -> String {
    let Significant { start, end, mut scale, round_up } = reading.significant(unit);
    let mut digits: Vec<u8> = (start..end).map(|i| reading.digit(i)).collect();
    if round_up {
        let nines = digits.iter().rev().take_while(|&&digit| digit == 9).count();
        digits.truncate(digits.len() - nines);
        scale += nines as i64;
        match digits.last_mut() {
            Some(last) => *last += 1,
            None => digits.push(1),
        }
    }
    let zeros = scale.rem_euclid(3);
    let mut out = String::with_capacity(digits.len() + 8);
    out.extend(reading.negative.then_some('-'));
    out.extend(digits.iter().map(|digit| char::from(b'0' + digit)));
    out.extend((0..zeros).map(|_| '0'));
    debug_assert!(reading.format() != Format::BinarySi, "binary quantities are capped");
    // Writing to a String cannot fail.
    _ = write_suffix(&mut out, scale - zeros, reading.format());
    out
}
