//! Headers of proxied requests and responses.

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use kevel_streaming::upgrade::drop_hop_by_hop;

use crate::request::Request;

/// CORS headers, which only this server may set.
const CORS: [HeaderName; 4] = [
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_ALLOW_HEADERS,
    header::ACCESS_CONTROL_ALLOW_METHODS,
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
];

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Headers of a proxied request: without hop-by-hop headers and the length of the body, which the next connection sets.
pub fn outgoing(request: &Request) -> HeaderMap {
    let mut headers = request.parts.headers.clone();
    let trailers = headers.get(header::TE).is_some_and(|te| has_token(te, "trailers"));
    drop_hop_by_hop(&mut headers);
    for name in [header::CONTENT_LENGTH, header::EXPECT] {
        headers.remove(name);
    }
    if trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    forwarded_for(request, &mut headers);
    let host = HeaderValue::from_str(host(request)).ok();
    if let Some(host) = host.filter(|host| !host.is_empty()) {
        headers.insert(header::HOST, host);
    }
    headers
}

/// Headers of a proxied upgrade request.
pub fn outgoing_upgrade(request: &Request) -> HeaderMap {
    let mut headers = request.parts.headers.clone();
    let protocols: Vec<HeaderValue> = headers.get_all(header::UPGRADE).iter().cloned().collect();
    drop_hop_by_hop(&mut headers);
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    for protocol in protocols {
        headers.append(header::UPGRADE, protocol);
    }
    forwarded_for(request, &mut headers);
    headers
}

/// Prepares the headers of a proxied response. Announced trailers are kept.
pub fn incoming(headers: &mut HeaderMap) {
    let announced: Vec<HeaderValue> = headers.get_all(header::TRAILER).iter().cloned().collect();
    drop_hop_by_hop(headers);
    for trailers in announced {
        headers.append(header::TRAILER, trailers);
    }
    strip_cors(headers);
}

/// Removes CORS headers.
pub fn strip_cors(headers: &mut HeaderMap) {
    for name in CORS {
        headers.remove(name);
    }
}

/// Host of this server as the client named it; in HTTP/2 it is the authority.
pub(super) fn host(request: &Request) -> &str {
    let authority = request.parts.uri.authority().map(|authority| authority.as_str());
    authority.unwrap_or_else(|| request.header(header::HOST))
}

/// Appends the client's address to `X-Forwarded-For`.
fn forwarded_for(request: &Request, headers: &mut HeaderMap) {
    let Some(peer) = request.connection.peer else { return };
    let before = headers.get_all(&FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
    let all: Vec<String> = before.map(str::to_owned).chain([peer.ip().to_string()]).collect();
    if let Ok(value) = HeaderValue::from_str(&all.join(", ")) {
        headers.insert(FORWARDED_FOR, value);
    }
}

/// Whether a request is a GET or HEAD, which can be redirected.
pub(super) fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

fn has_token(value: &HeaderValue, token: &str) -> bool {
    let text = value.to_str().unwrap_or_default();
    text.split(',').any(|part| part.trim().eq_ignore_ascii_case(token))
}
