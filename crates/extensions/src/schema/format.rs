//! String formats of schemas (`format`). Unknown formats are ignored.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use kevel_api::duration::Duration;
use kevel_api::url::Url;
use regex::Regex;

use super::email::is_email;

/// Check of a string's format.
pub(crate) type Check = fn(&str) -> bool;

/// Check of a format by name; dashes in the name are ignored.
pub(crate) fn find(name: &str) -> Option<Check> {
    let name = name.replace('-', "");
    FORMATS.iter().find(|(known, _)| *known == name).map(|(_, check)| *check)
}

const FORMATS: &[(&str, Check)] = &[
    ("bsonobjectid", |text| text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit())),
    ("uri", |text| Url::parse_request(text).is_ok()),
    ("email", is_email),
    ("hostname", is_hostname),
    ("ipv4", |text| text.contains('.') && ip(text).is_some()),
    ("ipv6", |text| text.contains(':') && strict_ip(text).is_some()),
    ("cidr", is_cidr),
    ("mac", is_mac),
    ("uuid", |text| is_uuid(text, "", "")),
    ("uuid3", |text| is_uuid(text, "3", "")),
    ("uuid4", |text| is_uuid(text, "4", "89abAB")),
    ("uuid5", |text| is_uuid(text, "5", "89abAB")),
    ("isbn", |text| is_isbn10(text) || is_isbn13(text)),
    ("isbn10", is_isbn10),
    ("isbn13", is_isbn13),
    ("creditcard", is_credit_card),
    ("ssn", is_social_security_number),
    ("hexcolor", is_hex_color),
    ("rgbcolor", is_rgb_color),
    ("byte", |text| BASE64.is_match(text)),
    ("password", |_| true),
    ("date", is_date),
    ("duration", is_duration),
    ("datetime", is_date_time),
    ("k8sshortname", |text| kevel_api::name::is_short_name(text).is_empty()),
    ("k8slongname", |text| kevel_api::name::is_long_name(text).is_empty()),
];

/// Static regular expression; one that did not compile would match nothing.
macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).unwrap_or_else(|_| NOTHING.clone()));
    };
}

#[allow(clippy::unwrap_used)]
static NOTHING: LazyLock<Regex> = LazyLock::new(|| Regex::new("[^\\s\\S]").unwrap());

pattern!(
    HOSTNAME,
    concat!(
        r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)",
        r"|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}",
        r"([a-zA-Z\p{L}]){2,63})$"
    )
);
pattern!(
    BASE64,
    r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"
);
pattern!(
    CREDIT_CARD,
    concat!(
        r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}",
        r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$"
    )
);
pattern!(CLOCK, r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$");
pattern!(SPAN, r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)");

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && HOSTNAME.is_match(text)
}

/// Parses an IP address; leading zeros are allowed.
fn ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return strict_ip(text);
    }
    Some(IpAddr::V4(ipv4(text)?))
}

fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut bytes = [0; 4];
    let mut parts = text.split('.');
    for byte in &mut bytes {
        let part = parts.next()?;
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let number = part.bytes().fold(0_u32, |n, b| {
            n.saturating_mul(10).saturating_add(u32::from(b.wrapping_sub(b'0')))
        });
        *byte = u8::try_from(number).ok().filter(|_| digits)?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(bytes))
}

/// Parses an IP address as Go does since it refuses leading zeros; without zones.
fn strict_ip(text: &str) -> Option<IpAddr> {
    text.parse::<Ipv6Addr>().map(IpAddr::V6).or_else(|_| text.parse().map(IpAddr::V4)).ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = match ip(address) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    let digits = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
    digits
        && bits.trim_start_matches('0').len() <= 3
        && bits.parse::<u32>().is_ok_and(|n| n <= most)
}

/// EUI-48, EUI-64 or InfiniBand, in groups of two digits or four.
fn is_mac(text: &str) -> bool {
    let grouped = |separator: char, digits: usize| {
        let groups: Vec<&str> = text.split(separator).collect();
        let hex =
            |group: &&str| group.len() == digits && group.bytes().all(|b| b.is_ascii_hexdigit());
        groups.iter().all(hex) && matches!(groups.len() * digits / 2, 6 | 8 | 20)
    };
    grouped(':', 2) || grouped('-', 2) || grouped('.', 4)
}

/// Whether a text is a UUID, with or without dashes, whose third and fourth group begin with these digits.
fn is_uuid(text: &str, version: &str, variant: &str) -> bool {
    let mut rest = text;
    for (index, digits) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((group, after)) = rest.split_at_checked(digits) else { return false };
        let begins = match index {
            2 => version,
            3 => variant,
            _ => "",
        };
        if !group.bytes().all(|b| b.is_ascii_hexdigit())
            || !(begins.is_empty() || group.starts_with(|c| begins.contains(c)))
        {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

fn without_spaces_and_dashes(text: &str) -> Vec<u8> {
    text.bytes().filter(|b| !matches!(b, b'\t' | b'\n' | b'\x0c' | b'\r' | b' ' | b'-')).collect()
}

fn digit(byte: &u8) -> u32 {
    u32::from(byte.wrapping_sub(b'0'))
}

fn is_isbn10(text: &str) -> bool {
    let bytes = without_spaces_and_dashes(text);
    let [first @ .., last] = bytes.as_slice() else { return false };
    if first.len() != 9
        || !first.iter().all(u8::is_ascii_digit)
        || !(last.is_ascii_digit() || *last == b'X')
    {
        return false;
    }
    let sum: u32 = first.iter().zip(1..).map(|(byte, weight)| weight * digit(byte)).sum();
    let last = if *last == b'X' { 10 } else { digit(last) };
    (sum + 10 * last).is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let bytes = without_spaces_and_dashes(text);
    if bytes.len() != 13 || !bytes.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let weighted = bytes.iter().zip([1, 3].into_iter().cycle());
    weighted.map(|(byte, weight)| weight * digit(byte)).sum::<u32>().is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !CREDIT_CARD.is_match(&digits) {
        return false;
    }
    let luhn = digits.bytes().rev().enumerate().map(|(index, byte)| {
        let doubled = digit(&byte) * if index % 2 == 1 { 2 } else { 1 };
        doubled / 10 + doubled % 10
    });
    luhn.sum::<u32>().is_multiple_of(10)
}

fn is_social_security_number(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 11
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            3 | 6 => matches!(byte, b'-' | b' '),
            _ => byte.is_ascii_digit(),
        })
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

/// `rgb(255, 0, 12)`.
fn is_rgb_color(text: &str) -> bool {
    let parts = text.strip_prefix("rgb(").and_then(|text| text.strip_suffix(')'));
    let mut count = 0;
    let right = parts.is_some_and(|parts| {
        parts.split(',').all(|part| {
            count += 1;
            let part = part.trim_matches(['\t', '\n', '\x0c', '\r', ' ']);
            part.parse::<u8>().is_ok_and(|number| number.to_string() == part)
        })
    });
    right && count == 3
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let shape = bytes.len() == 10
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    let part = |from: usize, to: usize| text.get(from..to).and_then(|d| d.parse::<u32>().ok());
    let (Some(year), Some(month), Some(day)) = (part(0, 4), part(5, 7), part(8, 10)) else {
        return false;
    };
    let leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    shape && (1..=days).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let Some(found) = CLOCK.captures(time).filter(|_| is_date(date)) else { return false };
    let at_most =
        |group: usize, most: &str| found.get(group).is_some_and(|part| part.as_str() <= most);
    at_most(1, "23") && at_most(2, "59") && at_most(3, "59")
}

/// The units of durations beyond Go's own; the last spelling of each is a prefix.
const UNITS: &[&[&str]] = &[
    &["ns", "nano"],
    &["us", "µs", "micro"],
    &["ms", "milli"],
    &["s", "sec"],
    &["m", "min"],
    &["h", "hr", "hour"],
    &["d", "day"],
    &["w", "wk", "week"],
];

fn is_duration(text: &str) -> bool {
    if text.parse::<Duration>().is_ok() {
        return true;
    }
    let mut known = false;
    for span in SPAN.captures_iter(text) {
        let group = |index: usize| span.get(index).map_or("", |part| part.as_str());
        if group(1).parse::<i64>().is_err() {
            return false;
        }
        let unit = group(2).to_lowercase();
        known |= UNITS.iter().any(|spellings| {
            spellings.contains(&&*unit)
                || spellings.last().is_some_and(|prefix| unit.starts_with(prefix))
        });
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        for (format, right, wrong) in [
            ("date", &["2024-02-29", "2000-12-31"][..], &["2023-02-29", "2024-1-1", ""][..]),
            (
                "date-time",
                &["2014-12-15T19:30:20.000Z", "2014-12-15t19:30:20+01:00"],
                &["2014-12-15 19:30:20Z", "2014-12-15T24:30:20Z", "2014-12-15T19:30:20"],
            ),
            (
                "duration",
                &["22 ns", "1h", "3 days", "1.5h", "2 weeks"],
                &["ns", "", "5 lightyears"],
            ),
            ("ipv4", &["10.0.0.1", "010.0.0.1"], &["10.0.0", "::1", "256.1.1.1"]),
            ("ipv6", &["::1", "::ffff:1.2.3.4"], &["10.0.0.1", "::g", "fe80::1%eth0"]),
            ("cidr", &["10.0.0.0/8", "::/0"], &["10.0.0.0/33", "10.0.0.0", "::/129"]),
            ("mac", &["00:00:5e:00:53:01", "0000.5e00.5301"], &["00:00:5e:00:53", "zz"]),
            ("uuid", &["a8098c1a-f86e-11da-bd1a-00112444be1e"], &["a8098c1a"]),
            (
                "uuid4",
                &["025b0d74-00a2-4048-bf57-227c5111bb34"],
                &["025b0d74-00a2-3048-bf57-227c5111bb34"],
            ),
            ("isbn", &["0321751043", "978-0321751041"], &["0321751042", "x"]),
            ("creditcard", &["4111-1111-1111-1111"], &["4111-1111-1111-1112"]),
            ("ssn", &["111-11-1111"], &["1111-1111"]),
            ("hexcolor", &["#FFF", "ffffff"], &["#ffff", "#ggg"]),
            ("rgbcolor", &["rgb(255, 0,12)"], &["rgb(256,0,0)"]),
            ("byte", &["ZWxpemFiZXRocG9zZXk=", "YQ=="], &["YQ", "", "a"]),
            ("uri", &["https://a.example/b", "/path"], &["relative", ""]),
            ("email", &["a@example.com", "A <a@example.com>"], &["a", "@example.com", "a@"]),
            ("hostname", &["a.example.com", "localhost"], &["-a", "a..b", "a.b.c1"]),
            ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f1f77bcf86cd79943901"]),
            ("k8s-short-name", &["a-b"], &["a.b", "A"]),
            ("k8s-long-name", &["a.b"], &["a..b"]),
        ] {
            let check = find(format).unwrap();
            for (texts, expected) in [(right, true), (wrong, false)] {
                for text in texts {
                    assert_eq!(check(text), expected, "{format} {text:?}");
                }
            }
        }
        assert!(find("int32").is_none());
    }
}
