//! Validation of addresses in Services and Endpoints.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use kevel_api::ip::{
    is_valid_cidr_for_legacy_field, is_valid_ip_for_legacy_field, parse_ip_sloppy,
};
use kevel_api::value::Value;

use crate::validation::Field;

/// Addresses of a list.
pub fn known<'v>(list: &Field<'v, '_>) -> HashSet<&'v str> {
    list.list().iter().filter_map(Value::as_str).collect()
}

/// An address in a field that is older than the strict rules. What was there before may stay.
pub fn legacy_ip(field: &Field, known: &HashSet<&str>) -> bool {
    if known.contains(field.str()) {
        return true;
    }
    let errors = is_valid_ip_for_legacy_field(&field.path(), field.str(), field.strict_ips());
    let valid = errors.is_empty();
    field.extend(errors);
    valid
}

/// Validates a network in CIDR notation with Go's old parser. `value` is the trimmed text.
pub fn legacy_cidr(field: &Field, value: &str) {
    field.extend(is_valid_cidr_for_legacy_field(&field.path(), value, field.strict_ips()));
}

/// An address that traffic can be sent to.
pub fn endpoint_ip(field: &Field) {
    let text = field.str();
    let Some(ip) = parse_ip_sloppy(text) else {
        return field.invalid_as(text, "must be a valid IP address");
    };
    let ip = ip.to_canonical();
    if ip.is_unspecified() {
        field.invalid_as(text, format!("may not be unspecified ({text})"));
    }
    if ip.is_loopback() {
        field.invalid_as(text, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    let (unicast, multicast) = match ip {
        IpAddr::V4(ip) => (
            ip.is_link_local(),
            ip.to_bits() & 0xffff_ff00 == Ipv4Addr::new(224, 0, 0, 0).to_bits(),
        ),
        IpAddr::V6(ip) => (
            ip.is_unicast_link_local(),
            ip.segments().first().is_some_and(|first| first & 0xff0f == 0xff02),
        ),
    };
    if unicast {
        let why = "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
        field.invalid_as(text, why);
    }
    if multicast {
        let why = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        field.invalid_as(text, why);
    }
}

/// Whether an address is of IPv6, or is none.
pub fn is_ipv6(text: &str) -> bool {
    parse_ip_sloppy(text).is_some_and(|ip| ip.to_canonical().is_ipv6())
}

/// Whether an address is of IPv4.
pub fn is_ipv4(text: &str) -> bool {
    parse_ip_sloppy(text).is_some_and(|ip| ip.to_canonical().is_ipv4())
}
