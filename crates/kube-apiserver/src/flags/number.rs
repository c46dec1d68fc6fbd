//! Numbers and booleans in the forms that the reference reads, with its messages.

use kevel_api::quote::quote;
use std::num::IntErrorKind;
use std::str::FromStr;

/// Reads `1`, `t`, `true`, `0`, `f`, `false`, in lower and upper case.
pub(crate) fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(invalid("ParseBool", text)),
    }
}

/// Reads a whole number of so many bits: decimal, or by its prefix hexadecimal, octal or binary.
pub(crate) fn parse_int(text: &str, bits: u32) -> Result<i64, String> {
    let (negative, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let magnitude = magnitude(digits, 0).map_err(|problem| problem.of("ParseInt", text))?;
    let limit = 1_u64 << (bits - 1);
    if magnitude > limit || (magnitude == limit && !negative) {
        return Err(Problem::OutOfRange.of("ParseInt", text));
    }
    Ok(if negative { (magnitude as i64).wrapping_neg() } else { magnitude as i64 })
}

/// Parses an unsigned number of this many bits; radix 0 takes the radix from the prefix.
pub(crate) fn parse_uint(text: &str, radix: u32, bits: u32) -> Result<u64, String> {
    let number = magnitude(text, radix).map_err(|problem| problem.of("ParseUint", text))?;
    if bits < 64 && number >> bits != 0 {
        return Err(Problem::OutOfRange.of("ParseUint", text));
    }
    Ok(number)
}

/// Reads a decimal number that may have a sign.
pub(crate) fn parse_decimal(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid("Atoi", text));
    }
    text.parse().map_err(|_| Problem::OutOfRange.of("Atoi", text))
}

/// Reads a number with a fraction or an exponent.
pub(crate) fn parse_float<F: FromStr + Copy + Into<f64>>(text: &str) -> Result<F, String> {
    let number: F = text.parse().map_err(|_| invalid("ParseFloat", text))?;
    let infinite: f64 = number.into();
    if infinite.is_infinite() && text.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err(Problem::OutOfRange.of("ParseFloat", text));
    }
    Ok(number)
}

/// A number as the reference prints it: with an exponent below 1e-4 and from 1e6 on.
pub(crate) fn print_float(scientific: &str, plain: &str) -> String {
    match scientific.split_once('e').map(|(digits, power)| (digits, power.parse::<i32>())) {
        Some((digits, Ok(power))) if !(-4..EXPONENT).contains(&power) => {
            let sign = if power < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", power.unsigned_abs())
        }
        _ => plain.to_owned(),
    }
}

/// The power of ten from which on a number is printed with an exponent.
const EXPONENT: i32 = 6;

enum Problem {
    Syntax,
    OutOfRange,
}

impl Problem {
    fn of(self, function: &str, text: &str) -> String {
        let problem = match self {
            Problem::Syntax => "invalid syntax",
            Problem::OutOfRange => "value out of range",
        };
        format!("strconv.{function}: parsing {}: {problem}", quote(text))
    }
}

fn invalid(function: &str, text: &str) -> String {
    Problem::Syntax.of(function, text)
}

fn magnitude(text: &str, radix: u32) -> Result<u64, Problem> {
    let by_prefix = radix == 0;
    let (radix, digits) = match (radix, text.as_bytes()) {
        (0, [b'0', b'x' | b'X', ..]) => (16, &text[2..]),
        (0, [b'0', b'o' | b'O', ..]) => (8, &text[2..]),
        (0, [b'0', b'b' | b'B', ..]) => (2, &text[2..]),
        (0, [b'0', _, ..]) => (8, &text[1..]),
        (0, _) => (10, text),
        (radix, _) => (radix, text),
    };
    if digits.starts_with('+') {
        return Err(Problem::Syntax);
    }
    // Where the prefix decides, digits may be grouped: `1_000`, `0x_ff`.
    let grouped = by_prefix && text.contains('_');
    if grouped && (text.starts_with('_') || text.ends_with('_') || text.contains("__")) {
        return Err(Problem::Syntax);
    }
    let digits = if grouped { digits.replace('_', "") } else { digits.to_owned() };
    u64::from_str_radix(&digits, radix).map_err(|error| match error.kind() {
        IntErrorKind::PosOverflow => Problem::OutOfRange,
        _ => Problem::Syntax,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers() {
        for (text, bits, expected) in [
            ("0", 64, Ok(0)),
            ("-12", 64, Ok(-12)),
            ("+12", 64, Ok(12)),
            ("0x1F", 64, Ok(31)),
            ("017", 64, Ok(15)),
            ("0b101", 64, Ok(5)),
            ("-9223372036854775808", 64, Ok(i64::MIN)),
            ("9223372036854775808", 64, Err("value out of range")),
            ("2147483648", 32, Err("value out of range")),
            ("-2147483648", 32, Ok(-2_147_483_648)),
            ("1_000", 64, Ok(1000)),
            ("0x_ff", 64, Ok(255)),
            ("1__0", 64, Err("invalid syntax")),
            ("", 64, Err("invalid syntax")),
            ("-", 64, Err("invalid syntax")),
            ("++1", 64, Err("invalid syntax")),
            ("08", 64, Err("invalid syntax")),
            ("1 ", 64, Err("invalid syntax")),
        ] {
            let expected =
                expected.map_err(|why| format!("strconv.ParseInt: parsing {text:?}: {why}"));
            assert_eq!(parse_int(text, bits), expected, "{text}");
        }
    }

    #[test]
    fn verbosity_levels() {
        assert_eq!(parse_uint("10", 10, 31), Ok(10));
        for (text, why) in [("-1", "invalid syntax"), ("2147483648", "value out of range")] {
            let message = format!("strconv.ParseUint: parsing \"{text}\": {why}");
            assert_eq!(parse_uint(text, 10, 31), Err(message));
        }
    }
}
