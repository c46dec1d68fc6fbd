//! Ports, networks and the certificates that names are served with.

use super::number::parse_decimal;
use super::{Value, ValueType};
use std::fmt;
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::str::FromStr;

/// Ports that follow each other, both ends included: `30000-32767`, `30000+2767` or `30000`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortRange {
    /// The first port.
    pub base: i64,
    /// Number of ports in the range.
    pub size: i64,
}

impl PortRange {
    /// Whether the port is one of them.
    pub fn contains(&self, port: i64) -> bool {
        (self.base..self.base.saturating_add(self.size)).contains(&port)
    }
}

impl Value for PortRange {
    fn value_type(&self) -> ValueType {
        ValueType::new("portRange", "")
    }

    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        let text = text.trim();
        if text.is_empty() {
            *self = PortRange::default();
            return Ok(());
        }
        let (low, high) = match (text.split_once('-'), text.split_once('+')) {
            (Some(_), Some(_)) => return Err(format!("unable to parse port range: {text}")),
            (Some((low, high)), None) => (parse_decimal(low)?, parse_decimal(high)?),
            (None, Some((low, offset))) => {
                let (low, offset) = (parse_decimal(low)?, parse_decimal(offset)?);
                (low, low.saturating_add(offset))
            }
            (None, None) => (parse_decimal(text)?, parse_decimal(text)?),
        };
        if low > 65535 || high > 65535 {
            return Err(format!("the port range cannot be greater than 65535: {text}"));
        }
        if high < low {
            return Err(format!("end port cannot be less than start port: {text}"));
        }
        *self = PortRange { base: low, size: (high - low).saturating_add(1) };
        Ok(())
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.size {
            0 => Ok(()),
            size => write!(f, "{}-{}", self.base, self.base.saturating_add(size - 1)),
        }
    }
}

/// A certificate and its key, and the server names that they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedCertKey {
    /// The names; empty for those that the certificate itself has.
    pub names: Vec<String>,
    /// The file with the certificate.
    pub cert_file: String,
    /// The file with its private key.
    pub key_file: String,
}

impl FromStr for NamedCertKey {
    type Err = String;

    /// Reads `certfile,keyfile` and `certfile,keyfile:name,name`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (files, names) = match text.split_once(':') {
            Some((_, names)) if names.trim().is_empty() => {
                return Err("empty names list is not allowed".to_owned());
            }
            Some((files, names)) => {
                (files, names.trim().split(',').map(|name| name.trim().to_owned()).collect())
            }
            None => (text, Vec::new()),
        };
        let mut files = files.trim().split(',').map(str::trim);
        let (Some(cert_file), Some(key_file), None) = (files.next(), files.next(), files.next())
        else {
            return Err("expected comma separated certificate and key file paths".to_owned());
        };
        Ok(NamedCertKey { names, cert_file: cert_file.to_owned(), key_file: key_file.to_owned() })
    }
}

impl fmt::Display for NamedCertKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.cert_file, self.key_file)?;
        if !self.names.is_empty() {
            write!(f, ":{}", self.names.join(","))?;
        }
        Ok(())
    }
}

/// Certificates for server names (SNI), one for each time that the flag is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedCertKeys(pub Vec<NamedCertKey>);

impl Deref for NamedCertKeys {
    type Target = Vec<NamedCertKey>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for NamedCertKeys {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Value for NamedCertKeys {
    /// Type of the flag: its help shows `[]` as the default, as the reference's.
    fn value_type(&self) -> ValueType {
        ValueType::new("namedCertKey", "")
    }

    fn set(&mut self, text: &str, repeated: bool) -> Result<(), String> {
        let pair = text.parse()?;
        if !repeated {
            self.0.clear();
        }
        self.0.push(pair);
        Ok(())
    }

    fn text(&self) -> String {
        let pairs: Vec<String> = self.0.iter().map(NamedCertKey::to_string).collect();
        format!("[{}]", pairs.join(";"))
    }
}

/// A network, at its first address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The first address.
    pub address: IpAddr,
    /// Length of the network's prefix in bits.
    pub prefix_length: u32,
}

impl Cidr {
    /// Number of bits of an address behind the prefix.
    pub fn host_bits(&self) -> u32 {
        self.address_bits() - self.prefix_length
    }

    /// The bits of an address: 32 or 128.
    pub fn address_bits(&self) -> u32 {
        if self.address.is_ipv4() { 32 } else { 128 }
    }

    /// The address so many after the first one.
    pub fn nth(&self, index: u32) -> IpAddr {
        match self.address {
            IpAddr::V4(ip) => IpAddr::V4(ip.to_bits().wrapping_add(index).into()),
            IpAddr::V6(ip) => IpAddr::V6(ip.to_bits().wrapping_add(index.into()).into()),
        }
    }
}

impl FromStr for Cidr {
    type Err = ();

    /// Reads a network by any of its addresses: `10.0.0.7/24` is `10.0.0.0/24`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, length) = text.split_once('/').ok_or(())?;
        let address = parse_ip(address).ok_or(())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(());
        }
        let prefix_length = length.parse::<u32>().ok().filter(|&length| length <= bits).ok_or(())?;
        let host_bits = bits - prefix_length;
        let address = match address {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(host_bits).unwrap_or(0);
                IpAddr::V4((ip.to_bits() & mask).into())
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
                IpAddr::V6((ip.to_bits() & mask).into())
            }
        };
        Ok(Cidr { address, prefix_length })
    }
}

/// Reads an address; the numbers of an IPv4 address may begin with zeros, which mean nothing.
fn parse_ip(text: &str) -> Option<IpAddr> {
    let trimmed = |number: &str| match number.trim_start_matches('0') {
        "" if !number.is_empty() => "0".to_owned(),
        digits => digits.to_owned(),
    };
    let text = match text.contains(':') {
        true => text.to_owned(),
        false => text.split('.').map(trimmed).collect::<Vec<_>>().join("."),
    };
    text.parse().ok()
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_ranges() {
        for (text, printed) in [
            ("30000-32767", "30000-32767"),
            (" 30000+10 ", "30000-30010"),
            ("80", "80-80"),
            ("", ""),
        ] {
            let mut range = PortRange::default();
            range.set(text, false).unwrap();
            assert_eq!(range.text(), printed, "{text}");
        }
        for (text, message) in [
            ("1-2+3", "unable to parse port range: 1-2+3"),
            ("1-65536", "the port range cannot be greater than 65535: 1-65536"),
            ("5-4", "end port cannot be less than start port: 5-4"),
            ("a", "strconv.Atoi: parsing \"a\": invalid syntax"),
            ("-1", "strconv.Atoi: parsing \"\": invalid syntax"),
        ] {
            assert_eq!(PortRange::default().set(text, false), Err(message.to_owned()), "{text}");
        }
    }

    #[test]
    fn certificates_with_names() {
        for (text, printed) in [
            ("foo.crt,foo.key", "foo.crt,foo.key"),
            ("foo.crt, foo.key : *.foo.com, foo.com", "foo.crt,foo.key:*.foo.com,foo.com"),
        ] {
            assert_eq!(text.parse::<NamedCertKey>().unwrap().to_string(), printed);
        }
        for (text, message) in [
            ("foo.crt", "expected comma separated certificate and key file paths"),
            ("foo.crt,foo.key,bar", "expected comma separated certificate and key file paths"),
            ("foo.crt,foo.key:", "empty names list is not allowed"),
        ] {
            assert_eq!(text.parse::<NamedCertKey>(), Err(message.to_owned()), "{text}");
        }
    }

    #[test]
    fn networks() {
        for (text, printed) in [
            ("10.0.0.7/24", Some("10.0.0.0/24")),
            ("10.0.0.0/0", Some("0.0.0.0/0")),
            ("fd00::1/108", Some("fd00::/108")),
            ("010.00.0.010/24", Some("10.0.0.0/24")),
            ("10.0.0.0/33", None),
            ("10.0.0.0/+8", None),
            ("10.0.0.0", None),
        ] {
            let network = text.parse::<Cidr>().ok().map(|network| network.to_string());
            assert_eq!(network.as_deref(), printed, "{text}");
        }
    }
}
