//! Host names of servers (upstream: `Certificate.VerifyHostname`).

use std::net::IpAddr;

use super::error::HostNameError;
use super::x509::X509;

/// Number of names from which on messages do not list them.
const MAX_NAMES_SHOWN: usize = 100;

/// Host name or address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// An address, matched by IP SANs only.
    Address(IpAddr),
    /// A DNS name, matched by DNS SANs only.
    Name(String),
}

impl Host {
    /// Parses a name or an address; an address may stand in brackets.
    pub fn parse(text: &str) -> Host {
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        match inner.unwrap_or(text).parse() {
            Ok(address) => Host::Address(address),
            Err(_) => Host::Name(text.to_owned()),
        }
    }

    fn shown(&self) -> String {
        match self {
            Host::Address(address) => address.to_string(),
            Host::Name(name) => name.clone(),
        }
    }
}

/// Verifies that a certificate is for a host.
pub(super) fn verify(certificate: &X509, host: &Host) -> Result<(), HostNameError> {
    let named = match host {
        Host::Address(address) => certificate.names.ips.iter().any(|own| same(*own, *address)),
        Host::Name(name) => certificate.names.dns_names.iter().any(|own| matches(own, name)),
    };
    if named { Ok(()) } else { Err(mismatch(certificate, host)) }
}

/// Compares addresses; both forms of IPv4 are the same.
fn same(own: IpAddr, wanted: IpAddr) -> bool {
    own.to_canonical() == wanted.to_canonical()
}

/// Wildcards and trailing dots count only in valid host names; other names are compared as they are.
fn matches(own: &str, wanted: &str) -> bool {
    if is_valid(wanted.strip_suffix('.').unwrap_or(wanted), false) && is_valid(own, true) {
        return matches_labels(own, wanted);
    }
    !matches!(own, "" | ".") && own.eq_ignore_ascii_case(wanted)
}

fn matches_labels(pattern: &str, host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    if pattern.is_empty() || host.is_empty() {
        return false;
    }
    let (pattern, host) = (pattern.split('.'), host.split('.'));
    pattern.clone().count() == host.clone().count()
        && pattern.zip(host).enumerate().all(|(place, (pattern, label))| {
            place == 0 && pattern == "*" || pattern.eq_ignore_ascii_case(label)
        })
}

fn is_valid(host: &str, is_pattern: bool) -> bool {
    let letter = |(place, byte): (usize, u8)| {
        byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' && place != 0
    };
    host != "*"
        && host.split('.').enumerate().all(|(place, label)| {
            let wildcard = is_pattern && place == 0 && label == "*";
            wildcard || !label.is_empty() && label.bytes().enumerate().all(letter)
        })
}

fn mismatch(certificate: &X509, host: &Host) -> HostNameError {
    let shown = host.shown();
    if certificate.alt_names.is_none() && matches_labels(&certificate.common_name, &shown) {
        return HostNameError::CommonNameOnly;
    }
    let (names, kind): (Vec<String>, _) = match host {
        Host::Address(_) if certificate.names.ips.is_empty() => {
            return HostNameError::NoAddresses(shown);
        }
        Host::Address(_) => (
            certificate.names.ips.iter().map(|ip| ip.to_canonical().to_string()).collect(),
            "IP SANs",
        ),
        Host::Name(_) => (certificate.names.dns_names.clone(), "names"),
    };
    match names.len() {
        count @ MAX_NAMES_SHOWN.. => HostNameError::TooManyNames { count, kind, host: shown },
        0 => HostNameError::NoNames(shown),
        _ => HostNameError::OtherNames { names: names.join(", "), host: shown },
    }
}
