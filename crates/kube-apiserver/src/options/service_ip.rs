//! The networks of the services, and the server's own address among them.

use crate::flags::Cidr;
use std::net::{IpAddr, Ipv4Addr};

/// The networks of the services, and the server's own address among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceIps {
    /// The network of services that do not ask for a family.
    pub primary: Cidr,
    /// The network of the other family.
    pub secondary: Option<Cidr>,
    /// The address of the kubernetes service.
    pub api_server: IpAddr,
}

/// Default network of Services.
const DEFAULT: Cidr = Cidr { address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), prefix_length: 24 };

/// The fewest addresses that a network of services may have, as bits.
const MIN_BITS: u32 = 3;

/// The most addresses that a network of services may have, as bits, while a bitmap of them is kept.
const MAX_BITS: u32 = 20;

impl ServiceIps {
    /// The networks that `--service-cluster-ip-range` names.
    pub fn new(flag: &str) -> Result<Self, String> {
        let mut ranges = flag.split(',');
        let primary = match ranges.next() {
            Some("") if flag.is_empty() => DEFAULT,
            first => first
                .and_then(|first| first.parse().ok())
                .ok_or("service-cluster-ip-range[0] is not a valid cidr")?,
        };
        if primary.host_bits() < MIN_BITS {
            let what = if flag.is_empty() { "" } else { " for primary service cidr" };
            return Err(format!(
                "error determining service IP ranges{what}: the service cluster IP range must be \
                 at least {} IP addresses",
                1 << MIN_BITS
            ));
        }
        let secondary = ranges
            .next()
            .map(|second| {
                second.parse().map_err(|()| "service-cluster-ip-range[1] is not an ip net")
            })
            .transpose()?;
        Ok(ServiceIps { primary, secondary, api_server: primary.nth(1) })
    }

    /// Validation errors of the networks. Their size is limited only while their addresses are kept in a bitmap.
    pub(super) fn validate(&self, flag: &str, bitmap: bool) -> Vec<String> {
        let mut errors = Vec::new();
        if flag.split(',').count() > 2 {
            errors.push(
                "--service-cluster-ip-range must not contain more than two entries".to_owned(),
            );
        }
        let too_large = |network: &Cidr, name: &str| {
            let bits = network.address_bits();
            (bitmap && network.host_bits() > MAX_BITS).then(|| {
                format!(
                    "specified {name} is too large; for {bits}-bit addresses, the mask must be >= \
                     {}",
                    bits - MAX_BITS
                )
            })
        };
        errors.extend(too_large(&self.primary, "--service-cluster-ip-range"));
        if let Some(secondary) = &self.secondary {
            if self.primary.address.is_ipv4() == secondary.address.is_ipv4() {
                errors.push(
                    "--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of \
                     different IP family"
                        .to_owned(),
                );
            }
            errors.extend(too_large(secondary, "--service-cluster-ip-range[1]"));
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_has_the_first_address() {
        for (flag, primary, api_server) in [
            ("", "10.0.0.0/24", "10.0.0.1"),
            ("10.96.0.0/12", "10.96.0.0/12", "10.96.0.1"),
            ("10.96.0.9/12,fd00::/108", "10.96.0.0/12", "10.96.0.1"),
            ("fd00::/108,10.96.0.0/12", "fd00::/108", "fd00::1"),
        ] {
            let ips = ServiceIps::new(flag).unwrap();
            assert_eq!(ips.primary.to_string(), primary, "{flag}");
            assert_eq!(ips.api_server.to_string(), api_server, "{flag}");
        }
    }

    #[test]
    fn mistakes_are_told_as_the_reference_tells_them() {
        for (flag, message) in [
            ("x", "service-cluster-ip-range[0] is not a valid cidr"),
            ("10.0.0.0/24,x", "service-cluster-ip-range[1] is not an ip net"),
            (
                "10.0.0.0/30",
                "error determining service IP ranges for primary service cidr: the service cluster \
                 IP range must be at least 8 IP addresses",
            ),
        ] {
            assert_eq!(ServiceIps::new(flag), Err(message.to_owned()), "{flag}");
        }
        let families = "--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of \
                        different IP family";
        for (flag, bitmap, message) in [
            ("10.0.0.0/8", false, &[][..]),
            (
                "10.0.0.0/8",
                true,
                &["specified --service-cluster-ip-range is too large; for 32-bit addresses, the \
                   mask must be >= 12"],
            ),
            ("10.0.0.0/16,10.1.0.0/16", false, &[families]),
            (
                "10.0.0.0/16,fd00::/64",
                true,
                &["specified --service-cluster-ip-range[1] is too large; for 128-bit addresses, \
                   the mask must be >= 108"],
            ),
            (
                "10.0.0.0/16,fd00::/108,fd01::/108",
                false,
                &["--service-cluster-ip-range must not contain more than two entries"],
            ),
        ] {
            assert_eq!(ServiceIps::new(flag).unwrap().validate(flag, bitmap), message, "{flag}");
        }
    }
}
