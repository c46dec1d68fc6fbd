//! What is said between client and server, and what is between either and this server alone.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use kevel_server::request::Request;

use crate::identity;

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

/// What only this server may say about who may ask it from where.
const CORS: [HeaderName; 4] = [
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_ALLOW_HEADERS,
    header::ACCESS_CONTROL_ALLOW_METHODS,
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
];

/// The headers of a request as they are passed on to `host:port`.
pub(super) fn outgoing(request: &Request, address: &str) -> Result<HeaderMap, String> {
    let mut headers = common(request)?;
    let trailers = headers.get(header::TE).is_some_and(|te| contains(te, "trailers"));
    drop_hop_by_hop(&mut headers);
    if trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    for (name, text) in [
        ("x-forwarded-uri", request.parts.uri.path()),
        ("x-forwarded-host", address),
        ("x-forwarded-proto", "https"),
    ] {
        headers.insert(name, value(text)?);
    }
    Ok(headers)
}

/// The same for a request that asks to go on in another protocol.
pub(super) fn outgoing_upgrade(request: &Request) -> Result<HeaderMap, String> {
    common(request)
}

/// The headers of an answer as they are passed back.
pub(super) fn incoming(headers: &mut HeaderMap) {
    drop_hop_by_hop(headers);
    for name in CORS {
        headers.remove(name);
    }
}

fn common(request: &Request) -> Result<HeaderMap, String> {
    let user = request.user.as_ref().ok_or("missing user")?;
    let mut headers = request.parts.headers.clone();
    // It is the other server's, and credentials are nobody's but ours.
    headers.remove(header::HOST);
    headers.remove(header::AUTHORIZATION);
    const FORWARDED: HeaderName = HeaderName::from_static("x-forwarded-for");
    if let Some(peer) = request.connection.peer {
        let before = headers.get_all(&FORWARDED).iter().filter_map(|value| value.to_str().ok());
        let all: Vec<String> = before.map(str::to_owned).chain([peer.ip().to_string()]).collect();
        headers.insert(FORWARDED, value(&all.join(", "))?);
    }
    if !request.audit_id.is_empty() {
        headers.insert("audit-id", value(&request.audit_id)?);
    }
    identity::set(&mut headers, user);
    Ok(headers)
}

fn drop_hop_by_hop(headers: &mut HeaderMap) {
    let listed = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let listed: Vec<HeaderName> = listed
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in listed {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

fn contains(value: &HeaderValue, token: &str) -> bool {
    let text = value.to_str().unwrap_or_default();
    text.split(',').any(|part| part.trim().eq_ignore_ascii_case(token))
}

fn value(text: &str) -> Result<HeaderValue, String> {
    HeaderValue::from_str(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kevel_server::request::{Connection, RequestBody};
    use kevel_server::user::User;

    use super::*;

    #[test]
    fn what_belongs_to_a_connection_ends_with_it() {
        let parts = http::Request::get("/apis/a.io/v1/things?x=1")
            .header("host", "kubernetes.default")
            .header("authorization", "Bearer x")
            .header("connection", "close, X-Mine")
            .header("x-mine", "1")
            .header("te", "trailers, deflate")
            .header("upgrade", "h2c")
            .header("x-forwarded-for", "10.0.0.1")
            .header("accept", "application/json");
        let parts = parts.body(()).unwrap().into_parts().0;
        let peer = Some("10.0.0.2:5".parse().unwrap());
        let connection = Arc::new(Connection { peer, certificates: Vec::new() });
        let body = RequestBody::Bytes(bytes::Bytes::new());
        let mut request = Request::new(parts, body, connection);
        assert_eq!(outgoing(&request, "10.1.0.7:443"), Err("missing user".to_owned()));
        request.user = Some(Arc::new(User::anonymous()));
        request.audit_id = "7".to_owned();
        let headers = outgoing(&request, "10.1.0.7:443").unwrap();
        let mut found: Vec<_> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        found.sort();
        assert_eq!(
            found,
            [
                "accept: application/json",
                "audit-id: 7",
                "te: trailers",
                "x-forwarded-for: 10.0.0.1, 10.0.0.2",
                "x-forwarded-host: 10.1.0.7:443",
                "x-forwarded-proto: https",
                "x-forwarded-uri: /apis/a.io/v1/things",
                "x-remote-group: system:unauthenticated",
                "x-remote-user: system:anonymous",
            ]
        );
    }
}
