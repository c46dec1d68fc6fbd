//! Types of scalars in YAML 1.1, as in the reference's decoder.

use super::timestamp;

/// Tag, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    None,
    /// `!`
    Bang,
    Str,
    Bool,
    Int,
    Float,
    Null,
    Timestamp,
    Binary,
    Merge,
    Other,
}

impl Tag {
    pub(super) fn of(tag: &[u8]) -> Tag {
        match tag.strip_prefix(b"tag:yaml.org,2002:") {
            Some(name) => Tag::core(name),
            None if tag == b"!" => Tag::Bang,
            None => Tag::Other,
        }
    }

    /// Tag of YAML's core schema.
    pub(super) fn core(name: &[u8]) -> Tag {
        match name {
            b"str" => Tag::Str,
            b"bool" => Tag::Bool,
            b"int" => Tag::Int,
            b"float" => Tag::Float,
            b"null" => Tag::Null,
            b"timestamp" => Tag::Timestamp,
            b"binary" => Tag::Binary,
            b"merge" => Tag::Merge,
            _ => Tag::Other,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Tag::Str => "!!str",
            Tag::Bool => "!!bool",
            Tag::Int => "!!int",
            Tag::Float => "!!float",
            Tag::Null => "!!null",
            Tag::Timestamp => "!!timestamp",
            Tag::Binary => "!!binary",
            Tag::Merge => "!!merge",
            Tag::None | Tag::Bang | Tag::Other => "",
        }
    }
}

/// Type, and usually the value, of a scalar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Resolved {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    /// A string that is quoted when written.
    Timestamp,
    Str,
    /// A base64 string.
    Binary,
}

/// Resolves a scalar by its tag, or without one by its text.
pub(super) fn resolve(tag: Tag, text: &str) -> Result<Resolved, String> {
    let found = match tag {
        Tag::Str | Tag::Bang | Tag::Merge | Tag::Other => return Ok(Resolved::Str),
        Tag::Binary => return Ok(Resolved::Binary),
        Tag::None | Tag::Timestamp => implicit(text, true),
        Tag::Bool | Tag::Int | Tag::Float | Tag::Null => implicit(text, false),
    };
    let found_tag = match (tag, found) {
        (Tag::None, found) => return Ok(found),
        (Tag::Float, Resolved::Int(int)) => return Ok(Resolved::Float(int as f64)),
        (Tag::Null, found @ Resolved::Null)
        | (Tag::Bool, found @ Resolved::Bool(_))
        | (Tag::Int, found @ (Resolved::Int(_) | Resolved::Uint(_)))
        | (Tag::Float, found @ Resolved::Float(_))
        | (Tag::Timestamp, found @ Resolved::Timestamp) => return Ok(found),
        (_, Resolved::Null) => Tag::Null,
        (_, Resolved::Bool(_)) => Tag::Bool,
        (_, Resolved::Int(_) | Resolved::Uint(_)) => Tag::Int,
        (_, Resolved::Float(_)) => Tag::Float,
        (_, Resolved::Timestamp) => Tag::Timestamp,
        (_, Resolved::Str | Resolved::Binary) => Tag::Str,
    };
    Err(format!("cannot decode {} `{text}` as a {}", found_tag.name(), tag.name()))
}

/// Resolves a plain scalar by its text.
pub(super) fn implicit(text: &str, timestamps: bool) -> Resolved {
    match text.as_bytes().first() {
        None => Resolved::Null,
        Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~') => {
            word(text).unwrap_or(Resolved::Str)
        }
        Some(b'.') => word(text).or_else(|| fraction(text)).unwrap_or(Resolved::Str),
        Some(b'+' | b'-' | b'0'..=b'9') => {
            if let Some(found) = word(text) {
                found
            } else if timestamps && timestamp::is_timestamp(text) {
                Resolved::Timestamp
            } else {
                number(text).unwrap_or(Resolved::Str)
            }
        }
        _ => Resolved::Str,
    }
}

fn word(text: &str) -> Option<Resolved> {
    Some(match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Resolved::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Resolved::Bool(false)
        }
        "~" | "null" | "Null" | "NULL" => Resolved::Null,
        ".nan" | ".NaN" | ".NAN" => Resolved::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Resolved::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Resolved::Float(f64::NEG_INFINITY),
        _ => return None,
    })
}

/// Parses an integer in any base, or a float.
fn number(text: &str) -> Option<Resolved> {
    let removed;
    let plain = if text.contains('_') {
        removed = text.replace('_', "");
        &removed
    } else {
        text
    };
    let (negative, digits) = match plain.as_bytes().first() {
        Some(b'-') => (true, &plain[1..]),
        Some(b'+') => (false, &plain[1..]),
        _ => (false, plain),
    };
    if let Some(int) = any_base(digits) {
        let int = i128::from(int) * if negative { -1 } else { 1 };
        if let Ok(int) = i64::try_from(int) {
            return Some(Resolved::Int(int));
        }
        if plain.len() == digits.len()
            && let Ok(uint) = u64::try_from(int)
        {
            return Some(Resolved::Uint(uint));
        }
    }
    if is_float(digits)
        && let Some(float) = plain.parse().ok().filter(|float: &f64| float.is_finite())
    {
        return Some(Resolved::Float(float));
    }
    // After `0b` the reference accepts a sign.
    let signed = plain.strip_prefix("0b")?;
    i64::from_str_radix(signed, 2).ok().map(Resolved::Int)
}

/// Parses digits with Go's prefixes.
fn any_base(digits: &str) -> Option<u64> {
    let (digits, base) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
        [b'0', b'o' | b'O', ..] => (&digits[2..], 8),
        [b'0', b'b' | b'B', ..] => (&digits[2..], 2),
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits, 10),
    };
    // Rust accepts a sign here, Go does not.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(digits, base).ok()
}

/// Whether a text is a float: `1`, `1.`, `1.5`, `.5`, each with or without an exponent.
fn is_float(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => {
            (mantissa, exponent.strip_prefix(['+', '-']).unwrap_or(exponent))
        }
        None => (text, "0"),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    !(whole.is_empty() && fraction.is_empty())
        && digits(whole)
        && digits(fraction)
        && !exponent.is_empty()
        && digits(exponent)
}

/// Parses a number that starts with a point; underscores may separate digits.
fn fraction(text: &str) -> Option<Resolved> {
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let between =
        |(at, byte): (usize, &u8)| *byte != b'_' || digit(at.checked_sub(1)) && digit(Some(at + 1));
    let spread = text.contains('_');
    if spread && !bytes.iter().enumerate().all(between) {
        return None;
    }
    let removed;
    let plain = if spread {
        removed = text.replace('_', "");
        &removed
    } else {
        text
    };
    if !is_float(plain) {
        return None;
    }
    plain.parse().ok().filter(|float: &f64| float.is_finite()).map(Resolved::Float)
}
