//! Source IPs of a request, with those that proxies report.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use http::{HeaderMap, HeaderName};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// Source IPs: those in proxy headers, then the peer's, which alone is certain.
pub(crate) fn source_ips(headers: &HeaderMap, peer: Option<SocketAddr>) -> Vec<IpAddr> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let forwarded = header(FORWARDED_FOR).split(',');
    let mut ips: Vec<IpAddr> = forwarded.filter_map(|ip| parse(ip.trim())).collect();
    if let Some(ip) = parse(header(REAL_IP)).filter(|ip| !ips.contains(ip)) {
        ips.push(ip);
    }
    let peer = peer.map(|peer| peer.ip().to_canonical());
    if let Some(peer) = peer.filter(|peer| ips.last() != Some(peer)) {
        ips.push(peer);
    }
    ips
}

/// Parses an address; IPv4 parts may have leading zeros.
fn parse(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(ip.to_canonical());
    }
    let mut parts = text.split('.').map(|part| {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| part.parse::<u8>().ok()).flatten()
    });
    let mut next = || parts.next().flatten();
    let ip = Ipv4Addr::new(next()?, next()?, next()?, next()?);
    parts.next().is_none().then_some(IpAddr::V4(ip))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_listed_before_the_peer() {
        for (forwarded, real, peer, expected) in [
            ("", "", "172.16.0.1:443", "172.16.0.1"),
            ("", "", "[::ffff:172.16.0.1]:443", "172.16.0.1"),
            ("", "10.0.0.1", "172.16.0.1:443", "10.0.0.1 172.16.0.1"),
            ("10.0.0.1, 010.0.0.2, x", "", "172.16.0.1:443", "10.0.0.1 10.0.0.2 172.16.0.1"),
            ("10.0.0.1,10.0.0.2", "10.0.0.1", "10.0.0.2:1", "10.0.0.1 10.0.0.2"),
            ("10.0.0.1", "x", "10.0.0.1:1", "10.0.0.1"),
            ("2001:db8::1", "", "[::1]:1", "2001:db8::1 ::1"),
            ("256.0.0.1,1.2.3,1.2.3.4.5,+1.2.3.4", "", "10.0.0.1:1", "10.0.0.1"),
        ] {
            let request = http::Request::builder()
                .header(FORWARDED_FOR, forwarded)
                .header(REAL_IP, real)
                .body(())
                .unwrap();
            let found = source_ips(request.headers(), peer.parse().ok());
            let found: Vec<String> = found.iter().map(IpAddr::to_string).collect();
            assert_eq!(found.join(" "), expected, "{forwarded} {real} {peer}");
        }
    }
}
