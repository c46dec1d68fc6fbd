//! WebSocket handshake, as a server.

use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use kevel_codec::base64;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::{Refusal, is_upgrade_request, listed, refuse};
use crate::channel::{Protocol, V5};
use crate::tunnel;

/// The only WebSocket version.
const VERSION: &str = "13";
/// Suffix that a server appends to the client's key (RFC 6455).
const KEY_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Whether a request asks for a WebSocket.
pub fn is_request(headers: &HeaderMap) -> bool {
    text(headers, UPGRADE).eq_ignore_ascii_case("websocket") && is_upgrade_request(headers)
}

/// Whether a request asks for a WebSocket that the API server translates for the kubelet (upstream:
/// IsWebSocketRequestWithStreamCloseProtocol).
pub fn is_stream_close_request(headers: &HeaderMap) -> bool {
    is_request(headers) && protocols(headers).any(|protocol| protocol == V5.name)
}

/// Whether a request asks for a SPDY tunnel (upstream: IsWebSocketRequestWithTunnelingProtocol).
pub fn is_tunneling_request(headers: &HeaderMap) -> bool {
    is_request(headers) && protocols(headers).any(|name| tunnel::spdy_protocol(name).is_some())
}

/// Subprotocols of the client, in order of preference.
pub fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    listed(headers, SEC_WEBSOCKET_PROTOCOL)
}

/// Accepts a WebSocket with channels: the head of the 101 response, and the subprotocol, the first of the client's that
/// the server supports. Or a refusal.
pub fn accept(
    method: &Method,
    headers: &HeaderMap,
    server: &[Protocol],
) -> Result<(Response<()>, Protocol), Refusal> {
    check(method, headers)?;
    let known = |name: &str| server.iter().find(|protocol| protocol.name == name).copied();
    let protocol = match protocols(headers).next() {
        Some(_) => protocols(headers).find_map(known),
        None => known(""),
    };
    // The reference's refusal has no text.
    let protocol = protocol.ok_or_else(|| plain(StatusCode::FORBIDDEN, ""))?;
    Ok((answer(headers, protocol.name), protocol))
}

/// Checks the headers that every WebSocket needs. The texts are those of the library that the reference uses here.
fn check(method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
    if method != Method::GET {
        return Err(plain(StatusCode::METHOD_NOT_ALLOWED, "bad method"));
    }
    if !is_request(headers) {
        return Err(plain(StatusCode::BAD_REQUEST, "not websocket protocol"));
    }
    if text(headers, SEC_WEBSOCKET_KEY).is_empty() {
        return Err(plain(StatusCode::BAD_REQUEST, "mismatch challenge/response"));
    }
    if text(headers, SEC_WEBSOCKET_VERSION) != VERSION {
        let mut refusal = plain(StatusCode::BAD_REQUEST, "missing or bad WebSocket Version");
        let version = HeaderValue::from_static(VERSION);
        refusal.headers_mut().insert(SEC_WEBSOCKET_VERSION, version);
        return Err(refusal);
    }
    Ok(())
}

/// Accepts a WebSocket for a tunnel, with the given subprotocol if the client supports it. The reference uses another
/// library here, which is stricter and has shorter messages.
pub(crate) fn accept_tunnel(
    method: &Method,
    headers: &HeaderMap,
    protocol: Option<&str>,
) -> Result<Response<()>, Refusal> {
    let has = |name, token: &str| listed(headers, name).any(|t| t.eq_ignore_ascii_case(token));
    let mut key = Vec::new();
    let has_key = base64::decode_into(text(headers, SEC_WEBSOCKET_KEY), &mut key).is_ok();
    let status = if !has(CONNECTION, "upgrade") {
        StatusCode::BAD_REQUEST
    } else if !has(UPGRADE, "websocket") {
        StatusCode::UPGRADE_REQUIRED
    } else if method != Method::GET {
        StatusCode::METHOD_NOT_ALLOWED
    } else if !has(SEC_WEBSOCKET_VERSION, VERSION) || !has_key || key.len() != 16 {
        StatusCode::BAD_REQUEST
    } else {
        let protocol = protocol.filter(|name| protocols(headers).any(|known| known == *name));
        return Ok(answer(headers, protocol.unwrap_or_default()));
    };
    let mut refusal = refuse(status, status.canonical_reason().unwrap_or_default().to_owned());
    refusal.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static(VERSION));
    if status == StatusCode::UPGRADE_REQUIRED {
        refusal.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
    }
    Err(refusal)
}

/// Head of an accepting response.
fn answer(headers: &HeaderMap, protocol: &str) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answered = response.headers_mut();
    answered.insert(UPGRADE, HeaderValue::from_static("websocket"));
    answered.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    let key = accept_key(text(headers, SEC_WEBSOCKET_KEY));
    for (name, value) in [(SEC_WEBSOCKET_ACCEPT, &*key), (SEC_WEBSOCKET_PROTOCOL, protocol)] {
        if let Some(value) = HeaderValue::from_str(value).ok().filter(|value| !value.is_empty()) {
            answered.insert(name, value);
        }
    }
    response
}

/// Value of `Sec-WebSocket-Accept` for a client's key.
///
/// ```
/// // The example of RFC 6455.
/// let key = "dGhlIHNhbXBsZSBub25jZQ==";
/// let accept = kevel_streaming::upgrade::websocket::accept_key(key);
/// assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
/// ```
pub fn accept_key(key: &str) -> String {
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{KEY_SUFFIX}").as_bytes());
    base64::encode(hash.as_ref()).into()
}

/// A refusal with a plain text body, which closes the connection.
fn plain(status: StatusCode, message: &str) -> Refusal {
    let mut refusal = Box::new(Response::new(message.to_owned()));
    *refusal.status_mut() = status;
    refusal.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    refusal
}

fn text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
