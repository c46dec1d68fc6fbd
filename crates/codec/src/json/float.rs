//! Numbers as Go's JSON writer prints them.

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

/// Appends the shortest text that reads as this number again: plain digits, or an exponent for
/// the very large and very small.
pub(crate) fn write_float(float: f64, out: &mut Vec<u8>) {
    let size = float.abs();
    // Writing to a Vec cannot fail.
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{float:e}");
        match text.split_once('e') {
            Some((mantissa, exponent)) if !exponent.starts_with('-') => {
                _ = write!(out, "{mantissa}e+{exponent}");
            }
            _ => out.extend_from_slice(text.as_bytes()),
        }
    } else {
        _ = write!(out, "{float}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
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
