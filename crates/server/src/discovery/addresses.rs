//! Addresses of the server by client network (`serverAddressByClientCIDRs`).

use std::net::IpAddr;

/// Addresses that `/api` returns.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// `host:port` for all clients.
    pub default: String,
    /// Addresses for clients in certain networks, such as that of services.
    pub rules: Vec<Rule>,
}

/// Address for clients in a network.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Address of the network.
    pub network: IpAddr,
    /// Length of the network's prefix in bits.
    pub prefix_length: u8,
    /// Address of the server for clients in the network.
    pub address: String,
}

impl Addresses {
    /// Networks and addresses for a client.
    pub(super) fn of(&self, client: Option<IpAddr>) -> Vec<(String, String)> {
        let mut all = vec![("0.0.0.0/0".to_owned(), self.default.clone())];
        let rules = self.rules.iter().filter(|rule| client.is_some_and(|ip| rule.holds(ip)));
        all.extend(rules.map(|rule| {
            (format!("{}/{}", rule.network, rule.prefix_length), rule.address.clone())
        }));
        all
    }
}

impl Rule {
    fn holds(&self, ip: IpAddr) -> bool {
        let shift = |width: u8| width.saturating_sub(self.prefix_length);
        match (self.network, ip.to_canonical()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                (u64::from(a.to_bits()) ^ u64::from(b.to_bits())) >> shift(32) == 0
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                (a.to_bits() ^ b.to_bits()).checked_shr(shift(128).into()).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_in_a_network_get_its_address_too() {
        let rule = |network: &str, prefix_length, address: &str| Rule {
            network: network.parse().unwrap(),
            prefix_length,
            address: address.to_owned(),
        };
        let rules = vec![rule("10.0.0.0", 16, "10.0.0.1:443"), rule("fd00::", 64, "[fd00::1]:443")];
        let addresses = Addresses { default: "host:6443".to_owned(), rules };
        for (client, expected) in [
            (None, vec!["0.0.0.0/0"]),
            (Some("10.0.9.9"), vec!["0.0.0.0/0", "10.0.0.0/16"]),
            (Some("::ffff:10.0.9.9"), vec!["0.0.0.0/0", "10.0.0.0/16"]),
            (Some("10.1.0.1"), vec!["0.0.0.0/0"]),
            (Some("fd00::7"), vec!["0.0.0.0/0", "fd00::/64"]),
        ] {
            let found = addresses.of(client.map(|ip| ip.parse().unwrap()));
            let found: Vec<&str> = found.iter().map(|(cidr, _)| cidr.as_str()).collect();
            assert_eq!(found, expected, "{client:?}");
        }
    }
}
