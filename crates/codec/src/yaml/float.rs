//! Floats as Go's `%g` prints them.

/// The shortest text that reads as this number again, with an exponent where it is a million or more, or very
/// small.
pub(super) fn general(float: f64) -> String {
    shape(float, format!("{float:e}"))
}

/// The same for a number that is rounded to 32 bits first.
pub(super) fn general32(float: f64) -> String {
    let rounded = float as f32;
    shape(rounded.into(), format!("{rounded:e}"))
}

fn shape(float: f64, scientific: String) -> String {
    if float.is_nan() {
        return "NaN".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return positional(mantissa, exponent);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// Moves the point of `d.ddd` by an exponent.
fn positional(mantissa: &str, exponent: i32) -> String {
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    let whole = exponent + 1;
    if whole <= 0 {
        return format!("{sign}0.{}{digits}", "0".repeat(whole.unsigned_abs() as usize));
    }
    let whole = whole as usize;
    match digits.split_at_checked(whole) {
        Some((before, "")) => format!("{sign}{before}"),
        Some((before, after)) => format!("{sign}{before}.{after}"),
        None => format!("{sign}{digits}{}", "0".repeat(whole - digits.len())),
    }
}
