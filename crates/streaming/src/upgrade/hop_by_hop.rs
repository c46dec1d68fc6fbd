//! Headers that are said to the next hop, and not passed on.

use http::{HeaderMap, HeaderName, header};

/// Headers about a connection rather than about what goes over it (RFC 9110, 7.6.1).
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "proxy-connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Takes out what is about a connection. Who sent it can list in `Connection` what it wants to be dropped: what is
/// this server's own comes after this.
pub fn drop_hop_by_hop(headers: &mut HeaderMap) {
    let listed = headers.get_all(header::CONNECTION).iter();
    let listed: Vec<HeaderName> = listed
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .collect();
    for name in listed {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}
