//! IP and CIDR libraries.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kevel_api::quote::quote;

use super::{Extension, Row, row};
use crate::error::Error;
use crate::value::Value;

pub(super) const ROWS: &[Row] = &[
    row("ip", "string_to_ip", "(string) -> net.IP", |args| {
        Ok(address_value(parse_address(text(args)?)?))
    }),
    row("isIP", "is_ip", "(string) -> bool", |args| {
        Ok(Value::Bool(parse_address(text(args)?).is_ok()))
    }),
    row("ip.isCanonical", "ip_is_canonical", "(string) -> bool", |args| {
        let text = text(args)?;
        Ok(Value::Bool(parse_address(text)?.to_string() == text))
    }),
    row("string", "ip_to_string", "(net.IP) -> string", |args| {
        Ok(Value::string(address(args)?.to_string()))
    }),
    row("family", "ip_family", "net.IP.() -> int", |args| {
        Ok(Value::Int(if address(args)?.0.is_ipv4() { 4 } else { 6 }))
    }),
    row("isUnspecified", "ip_is_unspecified", IS, |args| test(args, |ip| ip.is_unspecified())),
    row("isLoopback", "ip_is_loopback", IS, |args| test(args, |ip| ip.is_loopback())),
    row("isLinkLocalMulticast", "ip_is_link_local_multicast", IS, |args| {
        test(args, is_link_local_multicast)
    }),
    row("isLinkLocalUnicast", "ip_is_link_local_unicast", IS, |args| {
        test(args, is_link_local_unicast)
    }),
    row("isGlobalUnicast", "ip_is_global_unicast", IS, |args| test(args, is_global_unicast)),
    row("cidr", "string_to_cidr", "(string) -> net.CIDR", |args| {
        Ok(network_value(parse_network(text(args)?)?))
    }),
    row("isCIDR", "is_cidr", "(string) -> bool", |args| {
        Ok(Value::Bool(parse_network(text(args)?).is_ok()))
    }),
    row("string", "cidr_to_string", "(net.CIDR) -> string", |args| {
        Ok(Value::string(network(args)?.to_string()))
    }),
    row("containsIP", "cidr_contains_ip_string", "net.CIDR.(string) -> bool", contains_ip),
    row("containsIP", "cidr_contains_ip_ip", "net.CIDR.(net.IP) -> bool", contains_ip),
    row("containsCIDR", "cidr_contains_cidr_string", "net.CIDR.(string) -> bool", contains_network),
    row("containsCIDR", "cidr_contains_cidr", "net.CIDR.(net.CIDR) -> bool", contains_network),
    row("ip", "cidr_ip", "net.CIDR.() -> net.IP", |args| {
        Ok(address_value(Address(network(args)?.address)))
    }),
    row("prefixLength", "cidr_prefix_length", "net.CIDR.() -> int", |args| {
        Ok(Value::Int(i64::from(network(args)?.prefix)))
    }),
    row("masked", "cidr_masked", "net.CIDR.() -> net.CIDR", |args| {
        let Network { address, prefix } = network(args)?;
        Ok(network_value(Network { address: mask(address, prefix), prefix }))
    }),
];

const IS: &str = "net.IP.() -> bool";

/// IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub IpAddr);

/// CIDR: an address with the length of its network prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    pub address: IpAddr,
    pub prefix: u8,
}

impl Address {
    pub(super) fn size(&self) -> u64 {
        if self.0.is_ipv4() { 4 } else { 16 }
    }
}

impl Network {
    pub(super) fn size(&self) -> u64 {
        u64::from(self.prefix.div_ceil(8))
    }

    fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && mask(address, self.prefix) == mask(self.address, self.prefix)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

fn address_value<'a>(address: Address) -> Value<'a> {
    Value::Extension(Extension::Address(address))
}

fn network_value<'a>(network: Network) -> Value<'a> {
    Value::Extension(Extension::Network(network))
}

fn text<'v>(args: &'v [Value<'_>]) -> Result<&'v str, Error> {
    args.first().and_then(Value::as_str).ok_or_else(Error::no_such_overload)
}

fn address(args: &[Value<'_>]) -> Result<Address, Error> {
    match args.first() {
        Some(Value::Extension(Extension::Address(address))) => Ok(*address),
        _ => Err(Error::no_such_overload()),
    }
}

fn network(args: &[Value<'_>]) -> Result<Network, Error> {
    match args.first() {
        Some(Value::Extension(Extension::Network(network))) => Ok(*network),
        _ => Err(Error::no_such_overload()),
    }
}

fn test<'a>(args: &[Value<'_>], test: fn(IpAddr) -> bool) -> Result<Value<'a>, Error> {
    Ok(Value::Bool(test(address(args)?.0)))
}

fn contains_ip<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let address = match args.get(1) {
        Some(Value::String(text)) => parse_address(text).map_err(|_| Error::no_such_overload())?.0,
        Some(Value::Extension(Extension::Address(address))) => address.0,
        _ => return Err(Error::no_such_overload()),
    };
    Ok(Value::Bool(network(args)?.contains(address)))
}

fn contains_network<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let other = match args.get(1) {
        Some(Value::String(text)) => parse_network(text)?,
        Some(Value::Extension(Extension::Network(network))) => *network,
        _ => return Err(Error::no_such_overload()),
    };
    let network = network(args)?;
    Ok(Value::Bool(network.prefix <= other.prefix && network.contains(other.address)))
}

fn parse_address(text: &str) -> Result<Address, Error> {
    let quoted = quote(text);
    let Some((address, _)) = text.split_once('%').or(Some((text, ""))) else {
        return Err(Error::no_such_overload());
    };
    let parsed: IpAddr = address.parse().map_err(|_| {
        Error::new(format!(
            "IP Address {quoted} parse error during conversion from string: ParseAddr({quoted}): {}",
            why_no_address(text)
        ))
    })?;
    if text.contains('%') {
        return Err(match parsed.is_ipv6() && !text.ends_with('%') {
            true => Error::new(format!("IP address {quoted} with zone value is not allowed")),
            false => Error::new(format!(
                "IP Address {quoted} parse error during conversion from string: ParseAddr({quoted}): {}",
                if parsed.is_ipv6() {
                    "zone must be a non-empty string".to_owned()
                } else {
                    why_no_address(text)
                }
            )),
        });
    }
    if is_mapped(parsed) {
        return Err(Error::new(format!("IPv4-mapped IPv6 address {quoted} is not allowed")));
    }
    Ok(Address(parsed))
}

/// Parse error of an IP address, in Go's words.
fn why_no_address(text: &str) -> String {
    match text.find(['.', ':', '%']).and_then(|at| text.get(at..=at)) {
        Some(".") => why_no_ipv4(text),
        Some(":") => why_no_ipv6(text),
        Some(_) => "missing IPv6 address".to_owned(),
        None => "unable to parse IP".to_owned(),
    }
}

fn why_no_ipv4(text: &str) -> String {
    let mut at = 0;
    for (i, part) in text.split('.').enumerate() {
        let reason = match part {
            _ if i == 4 => "IPv4 address too long",
            "" => "IPv4 field must have at least one digit",
            _ if part.contains(|c: char| !c.is_ascii_digit()) => {
                let bad = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
                let rest = text.get(at + bad..).unwrap_or_default();
                return format!("unexpected character (at {})", quote(rest));
            }
            _ if part.len() > 1 && part.starts_with('0') => {
                "IPv4 field has octet with leading zero"
            }
            _ if part.parse::<u8>().is_err() => "IPv4 field has value >255",
            _ => "",
        };
        if !reason.is_empty() {
            // A field that is missing at the end is reported at the dot before it.
            let at = if at == text.len() { at.saturating_sub(1) } else { at };
            let rest = quote(text.get(at..).unwrap_or_default());
            return match reason {
                "IPv4 field must have at least one digit" => format!("{reason} (at {rest})"),
                _ => reason.to_owned(),
            };
        }
        at += part.len() + 1;
    }
    "IPv4 address too short".to_owned()
}

fn why_no_ipv6(text: &str) -> String {
    let (mut rest, mut fields, mut ellipsis) = (text, 0, false);
    if let Some(after) = rest.strip_prefix("::") {
        (rest, ellipsis) = (after, true);
    }
    while fields < 8 {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits > 4 {
            return format!("each group must have 4 or less digits (at {})", quote(rest));
        }
        if digits == 0 {
            let reason = "each colon-separated field must have at least one digit";
            return format!("{reason} (at {})", quote(rest));
        }
        let after = rest.get(digits..).unwrap_or_default();
        if after.starts_with('.') {
            return why_no_ipv4(rest);
        }
        fields += 1;
        rest = after;
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix(':') else {
            return format!("unexpected character, want colon (at {})", quote(rest));
        };
        if after.is_empty() {
            return format!("colon must be followed by more characters (at {})", quote(rest));
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if ellipsis {
                return format!("multiple :: in address (at {})", quote(rest));
            }
            (rest, ellipsis) = (after, true);
            if rest.is_empty() {
                break;
            }
        }
    }
    match rest.is_empty() {
        true => "address string too short".to_owned(),
        false => format!("trailing garbage after address (at {})", quote(rest)),
    }
}

fn parse_network(text: &str) -> Result<Network, Error> {
    const WRAPPED: &str = "network address parse error during conversion from string: ";
    let quoted = quote(text);
    let fail = |reason: String| {
        Error::new(format!("{WRAPPED}{WRAPPED}netip.ParsePrefix({quoted}): {reason}"))
    };
    let (address, length) = text.rsplit_once('/').ok_or_else(|| fail("no '/'".to_owned()))?;
    if address.contains('%') && address.contains(':') {
        return Err(fail("IPv6 zones cannot be present in a prefix".to_owned()));
    }
    let parsed: IpAddr = address.parse().map_err(|_| {
        let reason = why_no_address(address);
        fail(format!("ParseAddr({}): {reason}", quote(address)))
    })?;
    if is_mapped(parsed) {
        return Err(Error::new(format!(
            "{WRAPPED}IPv4-mapped IPv6 address {quoted} is not allowed"
        )));
    }
    let digits = length.bytes().all(|b| b.is_ascii_digit());
    if !digits || length.is_empty() || (length.len() > 1 && length.starts_with('0')) {
        return Err(fail(format!("bad bits after slash: {}", quote(length))));
    }
    let most = if parsed.is_ipv4() { 32 } else { 128 };
    match length.parse::<u8>() {
        Ok(prefix) if prefix <= most => Ok(Network { address: parsed, prefix }),
        _ => Err(fail("prefix length out of range".to_owned())),
    }
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

fn mask(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from(u32::from(address) & mask))
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(address) & mask))
        }
    }
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_global_unicast(address: IpAddr) -> bool {
    let broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    !broadcast
        && !address.is_unspecified()
        && !address.is_loopback()
        && !address.is_multicast()
        && !is_link_local_unicast(address)
}
