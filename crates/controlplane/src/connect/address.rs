//! Check of proxy targets: refuses addresses at which the server would reach itself or its host.

use std::net::IpAddr;

use kevel_api::status::StatusError;

/// Message of a refused address.
const NOT_ALLOWED: &str = "address not allowed";

/// Refuses addresses that are not global unicast (Go's `IsGlobalUnicast`): loopback, link-local, multicast, broadcast
/// and unspecified ones.
pub fn check(address: &str) -> Result<(), StatusError> {
    match address.parse() {
        Ok(address) if is_global_unicast(address) => Ok(()),
        _ => Err(StatusError::bad_request(NOT_ALLOWED)),
    }
}

/// Checks all addresses of a host name.
pub async fn check_host(host: &str) -> Result<(), StatusError> {
    let unknown = |_| StatusError::bad_request(format!("lookup {host}: no such host"));
    let found = tokio::net::lookup_host((host, 0)).await.map_err(unknown)?;
    let addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    if addresses.is_empty() {
        return Err(StatusError::bad_request("no addresses for hostname"));
    }
    match addresses.into_iter().all(is_global_unicast) {
        true => Ok(()),
        false => Err(StatusError::bad_request(NOT_ALLOWED)),
    }
}

fn is_global_unicast(address: IpAddr) -> bool {
    // An IPv4 address may be mapped to IPv6.
    let address = address.to_canonical();
    let special = match address {
        IpAddr::V4(v4) => v4.is_broadcast() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    !special && !address.is_unspecified() && !address.is_loopback() && !address.is_multicast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_link_local_addresses_are_not_proxied() {
        for address in ["10.0.0.1", "192.168.1.1", "8.8.8.8", "fd00::1", "2001:db8::1"] {
            assert!(check(address).is_ok(), "{address}");
        }
        for address in [
            "127.0.0.1",
            "127.8.8.8",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "0.0.0.0",
            "::",
            "169.254.169.254",
            "fe80::1",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
            "",
            "localhost",
            "10.0.0.1:80",
            "0x7f.1",
        ] {
            let error = check(address).unwrap_err().into_status();
            assert_eq!((error.code, &*error.message), (400, NOT_ALLOWED), "{address}");
        }
    }
}
