//! Range of allocatable addresses in a network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kevel_api::ip::Cidr;

/// Shortest prefix of an IPv6 network.
const SHORTEST_IPV6_PREFIX: u32 = 64;

/// Allocatable addresses of a network: without the network and broadcast addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpRange {
    cidr: Cidr,
    first: u128,
    last: u128,
    /// Number of lowest addresses that dynamic allocation uses last, so that clients can request them explicitly.
    reserved: u128,
}

impl IpRange {
    /// Parses `10.0.0.0/24`. `None` if the network cannot be used for Services.
    pub fn parse(text: &str) -> Option<Self> {
        const FEWEST: u128 = 16;
        const MOST: u128 = 256;
        const SHARE: u128 = 16;
        let cidr = Cidr::parse_sloppy(text)?;
        if cidr.ip.is_ipv6() && cidr.prefix_length < SHORTEST_IPV6_PREFIX {
            return None;
        }
        let size = 1u128 << cidr.host_bits();
        let network = bits(cidr.first());
        // The network address is not allocatable, and neither is the IPv4 broadcast address.
        let unused_at_end = if cidr.ip.is_ipv4() { 2 } else { 1 };
        let (first, last) = (network + 1, (network + size).checked_sub(unused_at_end)?);
        let reserved = if size <= FEWEST { 0 } else { (size / SHARE).clamp(FEWEST, MOST) };
        Some(IpRange { cidr, first, last, reserved })
    }

    pub fn is_ipv6(&self) -> bool {
        self.cidr.ip.is_ipv6()
    }

    /// Network address.
    pub fn network(&self) -> IpAddr {
        self.cidr.first()
    }

    /// True if an address is allocatable.
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.cidr.contains(ip) && (self.first..=self.last).contains(&bits(ip))
    }

    /// Number of allocatable addresses, at most so many less the network address.
    pub fn len(&self, most: usize) -> usize {
        let size = (self.last + 1).saturating_sub(self.first);
        usize::try_from(size).unwrap_or(usize::MAX).min(most.saturating_sub(1))
    }

    /// Number of lowest addresses that dynamic allocation uses last.
    pub fn reserved(&self) -> usize {
        usize::try_from(self.reserved).unwrap_or(usize::MAX)
    }

    /// Position of an allocatable address.
    pub fn offset(&self, ip: IpAddr) -> Option<usize> {
        let offset = self.contains(ip).then(|| bits(ip) - self.first)?;
        usize::try_from(offset).ok()
    }

    /// Address at a position.
    pub fn at(&self, offset: usize) -> IpAddr {
        self.address(self.first + offset as u128)
    }

    fn address(&self, bits: u128) -> IpAddr {
        match self.is_ipv6() {
            true => IpAddr::V6(Ipv6Addr::from_bits(bits)),
            false => IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(bits).unwrap_or_default())),
        }
    }

    /// All addresses: the upper ones from a random one on, then the reserved lower ones.
    pub fn shuffled(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let middle = self.first + self.reserved;
        let upper = rotated(middle, self.last);
        let lower = rotated(self.first, middle - 1);
        upper.chain(lower).map(|bits| self.address(bits))
    }
}

/// Numbers of an inclusive range, starting at a random one and wrapping around.
fn rotated(first: u128, last: u128) -> impl Iterator<Item = u128> {
    let size = (last + 1).saturating_sub(first);
    let start = if size == 0 { 0 } else { u128::from(super::random()) % size };
    (0..size).map(move |step| first + (start + step) % size)
}

fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_host_comes_once_and_the_upper_ones_first() {
        for (network, hosts, upper) in [
            ("10.0.0.0/24", 254, "10.0.0.17"),
            ("10.0.0.0/29", 6, "10.0.0.1"),
            ("fd00::/120", 255, "fd00::11"),
            ("10.0.0.0/16", 65534, "10.0.1.1"),
        ] {
            let range = IpRange::parse(network).unwrap();
            let addresses: Vec<IpAddr> = range.shuffled().collect();
            assert_eq!(addresses.len(), hosts, "{network}");
            assert_eq!(addresses.iter().collect::<HashSet<_>>().len(), hosts);
            assert!(addresses.iter().all(|ip| range.contains(*ip)));
            let upper: IpAddr = upper.parse().unwrap();
            let first = addresses.iter().position(|ip| *ip < upper).unwrap_or(hosts);
            assert!(addresses[..first].iter().all(|ip| *ip >= upper));
            assert!(addresses[first..].iter().all(|ip| *ip < upper));
        }
    }

    #[test]
    fn networks_without_hosts_or_with_too_many_are_none() {
        for network in ["x", "fd00::/63", "10.0.0.0/33"] {
            assert_eq!(IpRange::parse(network), None, "{network}");
        }
        assert_eq!(IpRange::parse("10.0.0.0/32").map(|range| range.shuffled().count()), Some(0));
        assert!(IpRange::parse("fd00::/64").is_some_and(|range| range.shuffled().next().is_some()));
    }
}
