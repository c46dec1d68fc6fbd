//! Validation of IP addresses and CIDRs in fields. Fields from before the strict rules are "legacy": they also accept
//! addresses with leading zeros, which the reference parses as decimal.

use crate::field_error::{FieldError, Path};
use crate::quote::quote;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Validates an address in canonical form: `10.9.8.7`, `2001:db8::ffff`.
pub fn is_valid_ip(path: &Path<'_>, value: &str) -> Vec<FieldError> {
    let Some(ip) = parse_ip_sloppy(value) else {
        return vec![not_an_ip(path, value)];
    };
    let errors = strict_ip_errors(path, value);
    if !errors.is_empty() {
        return errors;
    }
    not_canonical(path, value, &ip.to_canonical().to_string())
}

/// Validates an address in a legacy field; with `strict`, leading zeros and IPv4-mapped IPv6 are errors.
pub fn is_valid_ip_for_legacy_field(path: &Path<'_>, value: &str, strict: bool) -> Vec<FieldError> {
    match parse_ip_sloppy(value) {
        None => vec![not_an_ip(path, value)],
        Some(_) if strict => strict_ip_errors(path, value),
        Some(_) => Vec::new(),
    }
}

/// Validates a CIDR in canonical form: `10.9.8.0/24`, `2001:db8::/64`.
pub fn is_valid_cidr(path: &Path<'_>, value: &str) -> Vec<FieldError> {
    let errors = is_valid_cidr_for_legacy_field(path, value, true);
    match parse_cidr_sloppy(value) {
        Some(cidr) if errors.is_empty() => not_canonical(path, value, &cidr.network()),
        _ => errors,
    }
}

/// Validates a CIDR in a legacy field; with `strict`, leading zeros, IPv4-mapped IPv6 and bits beyond the prefix are
/// errors.
pub fn is_valid_cidr_for_legacy_field(
    path: &Path<'_>,
    value: &str,
    strict: bool,
) -> Vec<FieldError> {
    let Some(cidr) = parse_cidr_sloppy(value) else {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        return vec![FieldError::invalid(path, value, detail)];
    };
    let detail = match value.split_once('/') {
        _ if !strict => return Vec::new(),
        Some((address, length))
            if address.parse::<IpAddr>().is_err() || (length.starts_with('0') && length != "0") =>
        {
            "must not have leading 0s in IP or prefix length"
        }
        _ if is_ipv4_mapped(cidr.ip) => "must not have an IPv4-mapped IPv6 address",
        _ if mask(cidr.ip, cidr.prefix_length) != cidr.ip => {
            "must not have bits set beyond the prefix length"
        }
        _ => return Vec::new(),
    };
    vec![FieldError::invalid(path, value, detail)]
}

/// Validates an interface address with the length of its subnet, in canonical form: `10.9.8.7/24`.
pub fn is_valid_interface_address(path: &Path<'_>, value: &str) -> Vec<FieldError> {
    let Some(cidr) = parse_cidr_sloppy(value) else {
        let detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
        return vec![FieldError::invalid(path, value, detail)];
    };
    let ip = cidr.ip.to_canonical();
    // The length of an IPv4-mapped address includes the 96 bits of the mapping. The reference does not check that it
    // does, and may suggest a negative length.
    let length = match i64::from(cidr.prefix_length) {
        length if ip.is_ipv4() && length > 32 => length - 96,
        length => length,
    };
    not_canonical(path, value, &format!("{ip}/{length}"))
}

fn not_an_ip(path: &Path<'_>, value: &str) -> FieldError {
    let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    FieldError::invalid(path, value, detail)
}

fn strict_ip_errors(path: &Path<'_>, value: &str) -> Vec<FieldError> {
    match value.parse::<IpAddr>() {
        Err(_) => vec![FieldError::invalid(path, value, "must not have leading 0s")],
        Ok(ip) if is_ipv4_mapped(ip) => {
            vec![FieldError::invalid(path, value, "must not be an IPv4-mapped IPv6 address")]
        }
        Ok(_) => Vec::new(),
    }
}

fn not_canonical(path: &Path<'_>, value: &str, canonical: &str) -> Vec<FieldError> {
    if value == canonical {
        return Vec::new();
    }
    let detail = format!("must be in canonical form ({})", quote(canonical));
    vec![FieldError::invalid(path, value, detail)]
}

fn is_ipv4_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}

/// CIDR: an address and the length of its network prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// An address in the network.
    pub ip: IpAddr,
    /// Length of the network prefix in bits.
    pub prefix_length: u32,
}

impl Cidr {
    /// Parses a CIDR; leading zeros are ignored.
    pub fn parse_sloppy(text: &str) -> Option<Self> {
        parse_cidr_sloppy(text)
    }

    /// CIDR of the network in canonical form.
    fn network(&self) -> String {
        format!("{}/{}", self.first(), self.prefix_length)
    }

    /// First address of the network.
    pub fn first(&self) -> IpAddr {
        mask(self.ip, self.prefix_length)
    }

    /// Number of host bits.
    pub fn host_bits(&self) -> u32 {
        (if self.ip.is_ipv4() { 32 } else { 128 }) - self.prefix_length
    }

    /// Whether the network contains an address.
    pub fn contains(&self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.ip.is_ipv4() && mask(ip, self.prefix_length) == self.first()
    }
}

/// Warnings about the form of an address in a legacy field.
pub fn ip_warnings(path: &Path<'_>, value: &str) -> Vec<String> {
    let Some(ip) = parse_ip_sloppy(value) else { return Vec::new() };
    let preferred = ip.to_canonical().to_string();
    let (given, preferred) = (quote(value), quote(&preferred));
    match value.parse::<IpAddr>() {
        Ok(ip) if is_ipv4_mapped(ip) => {}
        Ok(ip) if ip.is_ipv6() && ip.to_string() != value => {
            return vec![format!(
                "{path}: IPv6 address {given} should be in RFC 5952 canonical format ({preferred})"
            )];
        }
        Ok(_) => return Vec::new(),
        Err(_) => {}
    }
    vec![format!("{path}: non-standard IP address {given} is invalid: use {preferred}")]
}

/// Warnings about the form of a CIDR in a legacy field.
pub fn cidr_warnings(path: &Path<'_>, value: &str) -> Vec<String> {
    let Some(cidr) = parse_cidr_sloppy(value) else { return Vec::new() };
    let (given, preferred) = (quote(value), quote(&cidr.network()));
    let mut warnings = Vec::new();
    if cidr.first() != cidr.ip {
        let bits = cidr.host_bits() + cidr.prefix_length;
        let single = quote(&format!("{}/{bits}", cidr.ip.to_canonical()));
        warnings.push(format!(
            "{path}: CIDR value {given} is ambiguous in this context (should be {preferred} or \
             {single}?)"
        ));
    }
    let plain = value.split_once('/').is_some_and(|(address, length)| {
        address.parse::<IpAddr>().is_ok() && (length == "0" || !length.starts_with('0'))
    });
    if !plain || is_ipv4_mapped(cidr.ip) {
        warnings
            .push(format!("{path}: non-standard CIDR value {given} is invalid: use {preferred}"));
    }
    if warnings.is_empty() && cidr.ip.is_ipv6() && cidr.network() != value {
        warnings.push(format!(
            "{path}: IPv6 CIDR value {given} should be in RFC 5952 canonical format ({preferred})"
        ));
    }
    warnings
}

fn mask(ip: IpAddr, length: u32) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            Ipv4Addr::from_bits(ip.to_bits() & mask).into()
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            Ipv6Addr::from_bits(ip.to_bits() & mask).into()
        }
    }
}

fn parse_cidr_sloppy(text: &str) -> Option<Cidr> {
    let (address, length) = text.split_once('/')?;
    let ip = parse_ip_sloppy(address)?;
    let max = if ip.is_ipv4() { 32 } else { 128 };
    let prefix_length = parse_decimal(length, max)?;
    Some(Cidr { ip, prefix_length })
}

/// Parses an address; leading zeros are ignored.
pub fn parse_ip_sloppy(text: &str) -> Option<IpAddr> {
    match text.bytes().find(|b| matches!(b, b'.' | b':'))? {
        b'.' => parse_ipv4_sloppy(text).map(IpAddr::V4),
        _ => parse_ipv6_sloppy(text).map(IpAddr::V6),
    }
}

fn parse_ipv4_sloppy(text: &str) -> Option<Ipv4Addr> {
    let mut parts = text.split('.');
    let mut octets = [0; 4];
    for octet in &mut octets {
        *octet = parse_decimal(parts.next()?, 255)? as u8;
    }
    parts.next().is_none().then(|| octets.into())
}

/// Parses an IPv6 address after removing leading zeros from its groups, for the standard library.
fn parse_ipv6_sloppy(text: &str) -> Option<Ipv6Addr> {
    let groups = text.split(':').map(|group| {
        if group.contains('.') {
            return parse_ipv4_sloppy(group).map(|ip| ip.to_string());
        }
        let trimmed = group.trim_start_matches('0');
        Some(if trimmed.is_empty() && !group.is_empty() { "0" } else { trimmed }.to_owned())
    });
    groups.collect::<Option<Vec<_>>>()?.join(":").parse().ok()
}

/// Parses digits within a limit, with any number of leading zeros.
fn parse_decimal(text: &str, max: u32) -> Option<u32> {
    if text.is_empty() {
        return None;
    }
    text.bytes().try_fold(0, |sum: u32, byte| {
        let sum = sum * 10 + u32::from(byte.is_ascii_digit().then(|| byte - b'0')?);
        (sum <= max).then_some(sum)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOT_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    const NOT_CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    const CIDR_ZEROS: &str = "must not have leading 0s in IP or prefix length";

    fn details(errors: Vec<FieldError>) -> Vec<String> {
        errors.into_iter().map(|error| error.detail.into_owned()).collect()
    }

    #[test]
    fn addresses() {
        let path = Path::new("ip");
        for (value, problem) in [
            ("1.2.3.4", ""),
            ("::1", ""),
            ("2001:db8::ffff", ""),
            ("::", ""),
            ("01.2.3.4", "must not have leading 0s"),
            ("2001:00db8::1", "must not have leading 0s"),
            ("2001:0db8::1", "must be in canonical form (\"2001:db8::1\")"),
            ("2001:DB8::1", "must be in canonical form (\"2001:db8::1\")"),
            ("0:0:0:0:0:0:0:1", "must be in canonical form (\"::1\")"),
            ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
            ("::1.2.3.4", "must be in canonical form (\"::102:304\")"),
            ("", NOT_IP),
            ("1.2.3", NOT_IP),
            ("1.2.3.4.5", NOT_IP),
            ("1.2.3.256", NOT_IP),
            ("1.2.3.+4", NOT_IP),
            ("1.2.3.4:80", NOT_IP),
            ("::1%lo", NOT_IP),
            ("1:2:3:4:5:6:7:8:9", NOT_IP),
            (":::", NOT_IP),
            ("12345::", NOT_IP),
            ("host", NOT_IP),
        ] {
            let expected: Vec<_> = [problem].into_iter().filter(|p| !p.is_empty()).collect();
            assert_eq!(details(is_valid_ip(&path, value)), expected, "{value}");
        }
        assert!(is_valid_ip_for_legacy_field(&path, "001.002.003.004", false).is_empty());
        assert!(is_valid_ip_for_legacy_field(&path, "::ffff:1.2.3.04", false).is_empty());
        assert_eq!(is_valid_ip_for_legacy_field(&path, "01.2.3.4", true).len(), 1);
    }

    #[test]
    fn networks() {
        let path = Path::new("cidr");
        for (value, problem) in [
            ("10.9.8.0/24", ""),
            ("0.0.0.0/0", ""),
            ("1.2.3.4/32", ""),
            ("2001:db8::/64", ""),
            ("::/0", ""),
            ("10.9.8.7/24", "must not have bits set beyond the prefix length"),
            ("2001:db8::1/64", "must not have bits set beyond the prefix length"),
            ("010.9.8.0/24", CIDR_ZEROS),
            ("10.9.8.0/024", CIDR_ZEROS),
            ("::ffff:1.2.3.0/120", "must not have an IPv4-mapped IPv6 address"),
            ("2001:0db8::/64", "must be in canonical form (\"2001:db8::/64\")"),
            ("10.9.8.0", NOT_CIDR),
            ("10.9.8.0/33", NOT_CIDR),
            ("10.9.8.0/", NOT_CIDR),
            ("10.9.8.0/-1", NOT_CIDR),
            ("10.9.8.0/2/4", NOT_CIDR),
            ("::/129", NOT_CIDR),
            ("", NOT_CIDR),
        ] {
            let expected: Vec<_> = [problem].into_iter().filter(|p| !p.is_empty()).collect();
            assert_eq!(details(is_valid_cidr(&path, value)), expected, "{value}");
        }
        assert!(is_valid_cidr_for_legacy_field(&path, "010.9.8.7/024", false).is_empty());
    }

    #[test]
    fn interface_addresses() {
        let path = Path::new("address");
        for (value, problem) in [
            ("10.9.8.7/24", ""),
            ("2001:db8::1/64", ""),
            ("10.9.8.07/24", "must be in canonical form (\"10.9.8.7/24\")"),
            ("::ffff:1.2.3.4/120", "must be in canonical form (\"1.2.3.4/24\")"),
            ("x", "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"),
        ] {
            let expected: Vec<_> = [problem].into_iter().filter(|p| !p.is_empty()).collect();
            assert_eq!(details(is_valid_interface_address(&path, value)), expected, "{value}");
        }
    }
}
