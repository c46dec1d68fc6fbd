//! Named formats of strings.

use kevel_api::name;

use super::url::Url;
use super::{Extension, Row, ordered, row};
use crate::error::Error;
use crate::value::{Timestamp, Value};

/// A format by name.
#[derive(Debug)]
pub struct Format {
    /// As the format library calls it.
    name: &'static str,
    /// As messages call it.
    pub title: &'static str,
    check: fn(&str) -> Vec<String>,
    /// The length of the expression that cost is counted by.
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
    format("uuid", "uuid", |s| problem(is_uuid(s), "does not match the UUID format"), 86),
    format("byte", "byte", |s| problem(is_base64(s), "invalid base64"), 84),
    format("date", "date", |s| problem(is_date(s), "invalid date"), 142),
    format("datetime", "datetime", |s| problem(is_datetime(s), "invalid datetime"), 142),
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

/// Groups of 8, 4, 4, 4 and 12 hexadecimal digits; the dashes may be left out.
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

/// RFC 3339 with either case, seconds up to 60.
fn is_datetime(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    Timestamp::parse(&upper).is_some()
}
