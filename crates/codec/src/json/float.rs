//! Numbers as Go's JSON encoder writes them.

use std::io::Write;

/// Appends an integer.
pub(crate) fn write_int(int: i64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut start = digits.len();
    let mut rest = int.unsigned_abs();
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if int < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[start..]);
}

/// Appends the shortest text that parses to this number: plain digits, or an exponent for very large and very small
/// ones.
pub(crate) fn write_float(float: f64, out: &mut Vec<u8>) {
    let size = float.abs();
    // Writing to a Vec cannot fail.
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = shortest(float);
        match text.split_once('e') {
            Some((mantissa, exponent)) if !exponent.starts_with('-') => {
                _ = write!(out, "{mantissa}e+{exponent}");
            }
            _ => out.extend_from_slice(text.as_bytes()),
        }
        return;
    }
    let start = out.len();
    _ = write!(out, "{float}");
    let text = &out[start..];
    let fraction = text.iter().rev().position(|byte| *byte == b'.').unwrap_or_default();
    if text.len() > FEWEST_TIED && may_be_tied(float, fraction as i32) {
        out.truncate(start);
        let text = shortest(float);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        positional(mantissa, exponent.parse().unwrap_or_default(), out);
    }
}

/// Shortest digits that parse to this number, with an exponent. Of two texts equally near, Go takes the even one, Rust
/// the larger.
pub(crate) fn shortest(float: f64) -> String {
    let text = format!("{float:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    let exponent = exponent.parse().unwrap_or(0);
    if digits < FEWEST_TIED || !may_be_tied(float, digits as i32 - 1 - exponent) {
        return text;
    }
    let even = format!("{float:.*e}", digits - 1);
    if even.parse() == Ok(float) { even } else { text }
}

/// Fewest digits with which two texts can be equally near to a number.
const FEWEST_TIED: usize = 16;

/// Whether a number may lie exactly between two texts with that many digits behind the point: it then has one digit
/// more, or is an integer with some digits cut.
fn may_be_tied(float: f64, fraction: i32) -> bool {
    let bits = float.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1075;
    let mantissa = bits & ((1 << 52) - 1) | 1 << 52;
    // Each binary digit behind the point is a decimal one.
    let exact = -(exponent + mantissa.trailing_zeros() as i32);
    exact.max(0) == (fraction + 1).max(0) || exact <= 0 && fraction <= 0
}

/// Appends `d.ddd` with its point moved by an exponent.
pub(crate) fn positional(mantissa: &str, exponent: i32, out: &mut Vec<u8>) {
    if mantissa.starts_with('-') {
        out.push(b'-');
    }
    let whole = exponent + 1;
    if whole <= 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + whole.unsigned_abs() as usize, b'0');
    }
    let mut left = whole;
    for digit in mantissa.bytes().filter(u8::is_ascii_digit) {
        if left == 0 && whole > 0 {
            out.push(b'.');
        }
        out.push(digit);
        left -= 1;
    }
    out.resize(out.len() + left.max(0) as usize, b'0');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::excessive_precision)] // The last digit is what two of the cases are about.
    fn prints_as_go() {
        for (float, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (-1.5e300, "-1.5e+300"),
            (1e-6, "0.000001"),
            (9.5e-7, "9.5e-7"),
            (5e-324, "5e-324"),
            (123456789.125, "123456789.125"),
            (2020163013628192.0 + 0.25, "2020163013628192.2"),
            (-2020163013628192.0 - 0.75, "-2020163013628192.8"),
            ((1_u64 << 60) as f64, "1152921504606847000"),
            (0.012345678901234567, "0.012345678901234567"),
            (0.3, "0.3"),
            (2.5e-7, "2.5e-7"),
        ] {
            let mut out = Vec::new();
            write_float(float, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }

    #[test]
    fn integers_of_all_sizes() {
        for int in [0, 7, -7, 10, 1234567890, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            write_int(int, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), int.to_string());
        }
    }
}
