//! Floats as Go's `%g` prints them.

use std::io::Write;

use crate::json::{positional, shortest};

/// Shortest text that parses to this number, with an exponent from a million on, or if it is very small.
pub(super) fn general(float: f64) -> String {
    let mut out = Vec::new();
    shape(float, &shortest(float), &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// Appends the shortest text of a 32-bit number.
pub(super) fn write_general32(float: f32, out: &mut Vec<u8>) {
    let mut scientific = [0; 32];
    let mut rest = &mut scientific[..];
    // 32 bits have 9 digits at most.
    _ = write!(rest, "{float:e}");
    let len = 32 - rest.len();
    shape(float.into(), std::str::from_utf8(&scientific[..len]).unwrap_or_default(), out);
}

fn shape(float: f64, scientific: &str, out: &mut Vec<u8>) {
    if !float.is_finite() {
        let text: &[u8] = match float {
            f64::INFINITY => b"+Inf",
            f64::NEG_INFINITY => b"-Inf",
            _ => b"NaN",
        };
        return out.extend_from_slice(text);
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return positional(mantissa, exponent, out);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    // Writing to a Vec cannot fail.
    _ = write!(out, "{mantissa}e{sign}{:02}", exponent.abs());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_go() {
        for (float, text, text32) in [
            (0.0, "0", "0"),
            (-0.0, "-0", "-0"),
            (1.5, "1.5", "1.5"),
            (100000.0, "100000", "100000"),
            (1000000.0, "1e+06", "1e+06"),
            (123456.789, "123456.789", "123456.79"),
            (0.0001, "0.0001", "0.0001"),
            (0.00001, "1e-05", "1e-05"),
            (1e100, "1e+100", "+Inf"),
            (2020163013628192.0 + 0.25, "2.0201630136281922e+15", "2.020163e+15"),
            (f64::NAN, "NaN", "NaN"),
            (f64::NEG_INFINITY, "-Inf", "-Inf"),
        ] {
            let mut out = Vec::new();
            write_general32(float as f32, &mut out);
            assert_eq!(
                (general(float), String::from_utf8(out).unwrap()),
                (text.into(), text32.into())
            );
        }
    }
}
