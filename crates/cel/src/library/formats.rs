//! Named string formats (`format.dns1123Label()`).

use kevel_api::name;

use super::{Extension, Row, ordered, row};
use crate::error::Error;
use crate::value::{Timestamp, Value};
use kevel_api::url::Url;

/// A named format.
#[derive(Debug)]
pub struct Format {
    /// Name in the format library.
    name: &'static str,
    /// Name in messages.
    pub title: &'static str,
    check: fn(&str) -> Vec<String>,
    /// Length of the regular expression that the cost assumes.
    pub regex_size: u64,
}

const FORMATS: &[Format] = &[
    format("dns1123Label", "DNS1123Label", |s| name::name_is_dns_label(s, false), 30),
    format("dns1123Subdomain", "DNS1123Subdomain", |s| name::name_is_dns_subdomain(s, false), 60),
    format("dns1035Label", "DNS1035Label", |s| name::name_is_dns1035_label(s, false), 30),
    format("qualifiedName", "QualifiedName", name::is_label_key, 60),
    format("dns1123LabelPrefix", "DNS1123LabelPrefix", |s| name::name_is_dns_label(s, true), 30),
    format(
        "dns1123SubdomainPrefix",
        "DNS1123SubdomainPrefix",
        |s| name::name_is_dns_subdomain(s, true),
        60,
    ),
    format(
        "dns1035LabelPrefix",
        "DNS1035LabelPrefix",
        |s| name::name_is_dns1035_label(s, true),
        30,
    ),
    format("labelValue", "LabelValue", name::is_label_value, 40),
    format("uri", "URI", |s| Url::parse_request(s).err().into_iter().collect(), 1103),
    format("uuid", "uuid", |s| problem(is_uuid(s), "does not match the UUID format"), 70),
    format("byte", "byte", |s| problem(is_base64(s), "invalid base64"), 84),
    format("date", "date", |s| problem(is_date(s), "invalid date"), 71),
    format("datetime", "datetime", |s| problem(is_datetime(s), "invalid datetime"), 71),
];

const fn format(
    name: &'static str,
    title: &'static str,
    check: fn(&str) -> Vec<String>,
    regex_size: u64,
) -> Format {
    Format { name, title, check, regex_size }
}

pub(super) const ROWS: &[Row] = &[
    constant("format.dns1123Label", |_| named("dns1123Label")),
    constant("format.dns1123Subdomain", |_| named("dns1123Subdomain")),
    constant("format.dns1035Label", |_| named("dns1035Label")),
    constant("format.qualifiedName", |_| named("qualifiedName")),
    constant("format.dns1123LabelPrefix", |_| named("dns1123LabelPrefix")),
    constant("format.dns1123SubdomainPrefix", |_| named("dns1123SubdomainPrefix")),
    constant("format.dns1035LabelPrefix", |_| named("dns1035LabelPrefix")),
    constant("format.labelValue", |_| named("labelValue")),
    constant("format.uri", |_| named("uri")),
    constant("format.uuid", |_| named("uuid")),
    constant("format.byte", |_| named("byte")),
    constant("format.date", |_| named("date")),
    constant("format.datetime", |_| named("datetime")),
    row("format.named", "format-named", "(string) -> optional(kubernetes.NamedFormat)", |args| {
        match args {
            [Value::String(name)] => Ok(match named(name) {
                Ok(format) => Value::some(format),
                Err(_) => Value::Optional(None),
            }),
            _ => Err(Error::no_such_overload()),
        }
    }),
    row(
        "validate",
        "format-validate",
        "kubernetes.NamedFormat.(string) -> optional(list(string))",
        |args| match args {
            [Value::Extension(Extension::Format(format)), Value::String(text)] => {
                let problems = (format.check)(text);
                Ok(match problems.is_empty() {
                    true => Value::Optional(None),
                    false => Value::some(Value::strings(problems)),
                })
            }
            _ => Err(Error::no_such_overload()),
        },
    ),
];

const fn constant(name: &'static str, call: super::Call) -> Row {
    ordered(name, name, "() -> kubernetes.NamedFormat", call)
}

fn named<'a>(name: &str) -> Result<Value<'a>, Error> {
    let format = FORMATS.iter().find(|format| format.name == name);
    format
        .map(|format| Value::Extension(Extension::Format(format)))
        .ok_or_else(Error::no_such_overload)
}

fn problem(valid: bool, message: &str) -> Vec<String> {
    if valid { Vec::new() } else { vec![message.to_owned()] }
}

/// Whether a text is a UUID: groups of 8, 4, 4, 4 and 12 hexadecimal digits, with or without dashes.
fn is_uuid(text: &str) -> bool {
    let mut rest = text;
    for (i, len) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if i > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((group, after)) = rest.split_at_checked(len) else { return false };
        if !group.bytes().all(|b| b.is_ascii_hexdigit()) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

fn is_base64(text: &str) -> bool {
    !text.is_empty() && kevel_codec::base64::decode_into(text, &mut Vec::new()).is_ok()
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && Timestamp::parse(&format!("{text}T00:00:00Z")).is_some()
}

/// Whether a text is a date and, after a `t`, a time with an offset, in either case.
fn is_datetime(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && is_time(time).is_some()
}

/// Parses a time: `23:59:59`, an optional fraction, and `z` or an offset.
fn is_time(text: &str) -> Option<()> {
    let number = |text: &str, max: u8| {
        let digits = text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
        (digits && text.parse::<u8>().is_ok_and(|n| n <= max)).then_some(())
    };
    let colon = |at: usize| (text.as_bytes().get(at) == Some(&b':')).then_some(());
    for (at, max) in [(0, 23), (3, 59), (6, 59)] {
        number(text.get(at..at + 2)?, max)?;
    }
    colon(2).and(colon(5))?;
    let mut rest = text.get(8..)?;
    if !rest.starts_with(['z', '+', '-']) || rest.get(1..).is_some_and(|r| r.ends_with('z')) {
        // Any character may separate the fraction.
        let fraction = rest.get(rest.chars().next()?.len_utf8()..)?;
        let len = fraction.bytes().take_while(u8::is_ascii_digit).count();
        rest = fraction.get(len..).filter(|_| len > 0)?;
    }
    match rest.strip_prefix(['+', '-']) {
        None => (rest == "z").then_some(()),
        Some(offset) => {
            let (hours, minutes) = offset.split_once(':')?;
            number(hours, 99).and(number(minutes, 99))
        }
    }
}
