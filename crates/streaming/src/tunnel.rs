//! Port forwards of WebSocket clients: SPDY inside of binary messages, which is unwrapped and passed on to the kubelet
//! (upstream: TunnelingHandler).

use http::header::{
    CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, response};

use crate::upgrade::websocket::{accept_tunnel, protocols};
use crate::upgrade::{PROTOCOL_VERSION, Refusal, SPDY_31, is_spdy, refuse};

/// Protocol over SPDY for port forwarding.
pub const PORT_FORWARD: &str = "portforward.k8s.io";

/// Prefix of subprotocols that tunnel SPDY.
const PREFIX: &str = "SPDY/3.1+";
const SUFFIX: &str = ".k8s.io";

/// Protocol over SPDY in the tunnel of a subprotocol; `None` for other subprotocols.
///
/// ```
/// use kevel_streaming::tunnel::spdy_protocol;
/// assert_eq!(spdy_protocol("SPDY/3.1+portforward.k8s.io"), Some("portforward.k8s.io"));
/// assert_eq!(spdy_protocol("v5.channel.k8s.io"), None);
/// ```
pub fn spdy_protocol(name: &str) -> Option<&str> {
    name.strip_prefix(PREFIX).filter(|_| name.ends_with(SUFFIX))
}

/// Headers of the SPDY request that a tunnel request stands for; its method is POST. Headers other than WebSocket's are
/// kept.
pub fn spdy_headers(client: &HeaderMap) -> Result<HeaderMap, Refusal> {
    let mut headers = client.clone();
    for name in [SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, PROTOCOL_VERSION]
    {
        headers.remove(name);
    }
    headers.insert(UPGRADE, HeaderValue::from_static(SPDY_31));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    for protocol in protocols(client).filter_map(spdy_protocol) {
        if let Ok(protocol) = HeaderValue::from_str(protocol) {
            headers.append(PROTOCOL_VERSION, protocol);
        }
    }
    match headers.contains_key(PROTOCOL_VERSION) {
        true => Ok(headers),
        false => Err(refuse(
            StatusCode::BAD_REQUEST,
            "unable to upgrade: no tunneling spdy protocols provided".to_owned(),
        )),
    }
}

/// Head of the response to a client whose kubelet has agreed to SPDY. To be followed by
/// [`copy_bidirectional`](crate::copy::copy_bidirectional) between a [`Tunnel`](crate::websocket::Tunnel) and the
/// kubelet.
pub fn accept(
    method: &Method,
    client: &HeaderMap,
    kubelet: &response::Parts,
) -> Result<Response<()>, Refusal> {
    if !is_spdy(&kubelet.headers) {
        return Err(refuse(
            StatusCode::INTERNAL_SERVER_ERROR,
            "unable to upgrade: missing upgrade headers in response".to_owned(),
        ));
    }
    let chosen = kubelet.headers.get(PROTOCOL_VERSION).and_then(|value| value.to_str().ok());
    let chosen = chosen.map(str::trim).filter(|name| !name.is_empty());
    let protocol = chosen.map(|name| format!("{PREFIX}{name}"));
    accept_tunnel(method, client, protocol.as_deref())
}
