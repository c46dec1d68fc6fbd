//! `format`: strings with placeholders. Numbers are formatted for en-US, as in the reference.

use kevel_api::quote::quote;

use super::MAX_TEXT;
use super::convert::text_of;
use crate::ast::{Expr, ExprId, ExprKind};
use crate::error::Error;
use crate::types::Type;
use crate::value::{Value, shortest};

const DEFAULT_PRECISION: usize = 6;
/// Highest precision: no double has more decimals.
const MAX_PRECISION: usize = 1100;

/// Kind of a placeholder.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Clause {
    String,
    Decimal,
    Fixed(usize),
    Scientific(usize),
    Binary,
    Hex { upper: bool },
    Octal,
}

pub(super) fn format<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::String(text), Value::List(list)] = args else {
        return Err(Error::no_such_overload());
    };
    if !fits_in(&Value::List(list.clone()), &mut (MAX_TEXT - text.len().min(MAX_TEXT))) {
        return Err(Error::cost_limit());
    }
    let mut next = 0;
    let formatted = interpolate(text, |clause| {
        let value = list.get(next).ok_or_else(|| format!("index {next} out of range"))?;
        let value = value.map_err(|error| error.to_string())?;
        next += 1;
        match clause {
            None => Ok(String::new()),
            Some(clause) => {
                print(clause, &value).map_err(|e| format!("error during formatting: {e}"))
            }
        }
    });
    formatted.map(Value::string).map_err(Error::new)
}

/// Whether a value's text and elements fit into `room`, which is reduced by them: a list can contain one large text a
/// hundred thousand times.
fn fits_in(value: &Value<'_>, room: &mut usize) -> bool {
    let own = match value {
        Value::String(text) => text.len() + 1,
        Value::Bytes(bytes) => bytes.len() + 1,
        _ => 1,
    };
    let Some(left) = room.checked_sub(own) else { return false };
    *room = left;
    match value {
        Value::List(list) => list.iter().flatten().all(|element| fits_in(&element, room)),
        Value::Map(map) => map.entries().all(|(key, value)| {
            fits_in(&key, room) && value.is_ok_and(|value| fits_in(&value, room))
        }),
        _ => true,
    }
}

/// Checks a constant format string against the types of its arguments; the error has the node and the message.
pub(crate) fn check_format<'e>(
    text: &str,
    call: &'e Expr,
    elements: impl ExactSizeIterator<Item = &'e Expr> + Clone,
    type_of: &dyn Fn(ExprId) -> Type,
) -> Result<(), (ExprId, String)> {
    let (mut used, mut bad) = (0, None);
    let checked = interpolate(text, |clause| {
        let element =
            elements.clone().nth(used).ok_or_else(|| format!("index {used} out of range"))?;
        used += 1;
        let Some(clause) = clause else { return Ok(String::new()) };
        let (valid, id) = fits(clause, element, type_of);
        if valid {
            return Ok(String::new());
        }
        bad = Some(id);
        Err(format!("error during formatting: {}", misfit(clause, type_of(id).name())))
    });
    // A missing argument is noticed only where it is used; see `interpolate`.
    if let Err(message) = checked {
        return Err((bad.unwrap_or(call.id), message));
    }
    match elements.len() {
        count if count > used => Err((
            call.id,
            format!("too many arguments supplied to string.format (expected {used}, got {count})"),
        )),
        _ => Ok(()),
    }
}

/// Replaces each placeholder. `replace` is called with `None` for a malformed placeholder, as the reference takes its
/// argument before it parses it.
fn interpolate(
    text: &str,
    mut replace: impl FnMut(Option<Clause>) -> Result<String, String>,
) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(rest.get(..at).unwrap_or_default());
        rest = rest.get(at + 1..).unwrap_or_default();
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        match clause(rest) {
            Ok((clause, after)) => {
                out.push_str(&replace(Some(clause))?);
                rest = after;
            }
            Err(message) => {
                replace(None)?;
                return Err(message);
            }
        }
    }
    out.push_str(rest);
    Ok(out)
}

fn clause(text: &str) -> Result<(Clause, &str), String> {
    let fail = |message: &str| Err(format!("could not parse formatting clause: {message}"));
    if text.is_empty() {
        return Err("unexpected end of string".to_owned());
    }
    let (precision, text) = match text.strip_prefix('.') {
        None => (DEFAULT_PRECISION, text),
        Some(text) => {
            let len = text.bytes().take_while(u8::is_ascii_digit).count();
            let (digits, rest) = text.split_at(len);
            if rest.is_empty() {
                return fail(
                    "error while parsing precision: could not find end of precision specifier",
                );
            }
            let Ok(precision) = digits.parse::<usize>() else {
                let digits = quote(digits);
                return fail(&format!(
                    "error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing {digits}: invalid syntax"
                ));
            };
            (precision.min(MAX_PRECISION), rest)
        }
    };
    let Some(letter) = text.chars().next() else { return fail("unexpected end of string") };
    let clause = match letter {
        's' => Clause::String,
        'd' => Clause::Decimal,
        'f' => Clause::Fixed(precision),
        'e' => Clause::Scientific(precision),
        'b' => Clause::Binary,
        'x' => Clause::Hex { upper: false },
        'X' => Clause::Hex { upper: true },
        'o' => Clause::Octal,
        other => return fail(&format!("unrecognized formatting clause \"{other}\"")),
    };
    Ok((clause, text.get(letter.len_utf8()..).unwrap_or_default()))
}

fn print(clause: Clause, value: &Value<'_>) -> Result<String, String> {
    let misfit = || misfit(clause, &value.type_name());
    Ok(match (clause, value) {
        (Clause::String, Value::List(_) | Value::Map(_)) => nested(value)?,
        (Clause::String, Value::Bytes(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                let problem = "invalid UTF-8 in bytes, cannot convert to string";
                return Err(format!("could not convert argument {} to string", quote(problem)));
            }
        },
        (Clause::String, _) => text_of(value).ok_or_else(misfit)?,
        (Clause::Decimal, Value::Int(value)) => value.to_string(),
        (Clause::Decimal, Value::Uint(value)) => value.to_string(),
        (Clause::Fixed(precision), _) => {
            let value = number(value).ok_or_else(misfit)?;
            match special(value) {
                Some(special) => special.to_owned(),
                None => grouped(&format!("{:.precision$}", without_sign(value))),
            }
        }
        (Clause::Scientific(width), _) => {
            let value = number(value).ok_or_else(misfit)?;
            let text = special(value).map_or_else(|| scientific(value), str::to_owned);
            format!("{text:>width$}")
        }
        (Clause::Binary, Value::Int(value)) => signed(*value, |v| format!("{v:b}")),
        (Clause::Binary, Value::Uint(value)) => format!("{value:b}"),
        (Clause::Binary, Value::Bool(value)) => u8::from(*value).to_string(),
        (Clause::Octal, Value::Int(value)) => signed(*value, |v| format!("{v:o}")),
        (Clause::Octal, Value::Uint(value)) => format!("{value:o}"),
        (Clause::Hex { upper }, _) => {
            let text = match value {
                Value::Int(value) => signed(*value, |v| format!("{v:x}")),
                Value::Uint(value) => format!("{value:x}"),
                Value::String(text) => hex(text.as_bytes()),
                Value::Bytes(bytes) => hex(bytes),
                _ => return Err(misfit()),
            };
            if upper { text.to_ascii_uppercase() } else { text }
        }
        _ => return Err(misfit()),
    })
}

/// Value inside a list or map, where strings are quoted.
fn nested(value: &Value<'_>) -> Result<String, String> {
    Ok(match value {
        Value::String(text) => quote(text),
        Value::Bytes(bytes) => format!("b{}", quote(&String::from_utf8_lossy(bytes))),
        Value::Double(value) => match value.is_finite() {
            true => format!("{value:.6}"),
            false => quote(&shortest(*value)),
        },
        Value::Timestamp(_) | Value::Duration(_) => {
            let name = if matches!(value, Value::Duration(_)) { "duration" } else { "timestamp" };
            format!("{name}({})", quote(&text_of(value).unwrap_or_default()))
        }
        Value::List(list) => {
            let mut parts = Vec::with_capacity(list.len());
            for element in list.iter() {
                parts.push(nested(&element.map_err(|error| error.to_string())?)?);
            }
            format!("[{}]", parts.join(", "))
        }
        Value::Map(map) => {
            let mut parts = Vec::with_capacity(map.len());
            for (key, value) in map.entries() {
                if !matches!(
                    key,
                    Value::String(_) | Value::Bool(_) | Value::Int(_) | Value::Uint(_)
                ) {
                    let ty = key.type_name();
                    return Err(format!("no formatting function for map key of type {ty}"));
                }
                parts.push((nested(&key)?, nested(&value.map_err(|error| error.to_string())?)?));
            }
            parts.sort();
            let parts: Vec<_> =
                parts.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
            format!("{{{}}}", parts.join(", "))
        }
        other => text_of(other)
            .ok_or_else(|| format!("no formatting function for {}", other.type_name()))?,
    })
}

fn number(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(value) => Some(*value),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn special(value: f64) -> Option<&'static str> {
    match value {
        v if v.is_nan() => Some("NaN"),
        f64::INFINITY => Some("\u{221e}"),
        f64::NEG_INFINITY => Some("-\u{221e}"),
        _ => None,
    }
}

/// Removes the sign of zero.
fn without_sign(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value }
}

/// Adds commas between groups of three digits.
fn grouped(text: &str) -> String {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => ("-", unsigned),
        None => ("", text),
    };
    let (whole, fraction) = unsigned.split_at(unsigned.find('.').unwrap_or(unsigned.len()));
    let mut out = sign.to_owned();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out + fraction
}

/// Scientific notation: `1.052033×10⁰³`.
fn scientific(value: f64) -> String {
    const SUPERSCRIPTS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let text = format!("{:.6e}", without_sign(value));
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ("⁻", digits),
        None => ("", exponent),
    };
    let raised: String = format!("{digits:0>2}")
        .bytes()
        .filter_map(|b| SUPERSCRIPTS.get(usize::from(b.wrapping_sub(b'0'))))
        .collect();
    format!("{mantissa}×10{sign}{raised}")
}

fn signed(value: i64, print: fn(u64) -> String) -> String {
    format!("{}{}", if value < 0 { "-" } else { "" }, print(value.unsigned_abs()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn misfit(clause: Clause, ty: &str) -> String {
    let rule = match clause {
        Clause::String => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
        }
        Clause::Decimal => "decimal clause can only be used on integers",
        Clause::Fixed(_) => "fixed-point clause can only be used on doubles",
        Clause::Scientific(_) => "scientific clause can only be used on doubles",
        Clause::Binary => "only integers and bools can be formatted as binary",
        Clause::Hex { .. } => "only integers, byte buffers, and strings can be formatted as hex",
        Clause::Octal => "octal clause can only be used on integers",
    };
    format!("{rule}, was given {ty}")
}

/// Whether an argument's type suits a placeholder, and the node that does not.
fn fits(clause: Clause, arg: &Expr, type_of: &dyn Fn(ExprId) -> Type) -> (bool, ExprId) {
    let ty = type_of(arg.id);
    let suits = match (clause, &ty) {
        (_, Type::Dyn) => true,
        (Clause::String, ty) => {
            !matches!(ty, Type::Object(_) | Type::Opaque(..) | Type::Any | Type::Error)
        }
        (Clause::Decimal | Clause::Octal, ty) => matches!(ty, Type::Int | Type::Uint),
        (Clause::Fixed(_) | Clause::Scientific(_), ty) => matches!(ty, Type::Double | Type::String),
        (Clause::Binary, ty) => matches!(ty, Type::Int | Type::Uint | Type::Bool),
        (Clause::Hex { .. }, ty) => {
            matches!(ty, Type::Int | Type::Uint | Type::String | Type::Bytes)
        }
    };
    if !suits || clause != Clause::String {
        return (suits, arg.id);
    }
    let mut found = (true, arg.id);
    let mut check = |part: &Expr| {
        if found.0 {
            let part = fits(clause, part, type_of);
            found = if part.0 { (true, arg.id) } else { part };
        }
    };
    match &arg.kind {
        ExprKind::List { elements } => elements.iter().for_each(|e| check(&e.value)),
        ExprKind::Map { entries } => entries.iter().for_each(|e| {
            check(&e.key);
            check(&e.value);
        }),
        _ => {}
    }
    found
}
