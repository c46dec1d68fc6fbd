//! Bearer tokens of browsers, which cannot send an `Authorization` header with a WebSocket: the token is among the
//! offered subprotocols.

use http::HeaderValue;
use http::header::SEC_WEBSOCKET_PROTOCOL;
use kevel_codec::base64::decode_url;

use super::bearer_token::BearerToken;
use super::{AuthError, Authenticated, Authenticator};
use crate::request::Request;
use kevel_component::future::Pending;

const PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// Authenticates the token in a WebSocket's subprotocols like [`BearerToken`].
#[derive(Clone, Debug)]
pub struct WebSocketToken(pub BearerToken);

impl Authenticator for WebSocketToken {
    fn authenticate<'a>(&'a self, request: &'a mut Request) -> Pending<'a, Authenticated> {
        Box::pin(async move {
            if !request.is_websocket() {
                return Ok(None);
            }
            let headers = &mut request.parts.headers;
            let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
            let offered: Vec<_> =
                offered.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
            let offered = extract(&offered.join(",")).map_err(|error| AuthError(error.into()))?;
            let Some((token, others)) = offered else {
                return Ok(None);
            };
            let user = self.0.user_of(&token, &request.warnings, &request.audit).await?;
            // The token is removed; the server chooses among the other subprotocols.
            if let Ok(others) = HeaderValue::from_str(&others) {
                headers.insert(SEC_WEBSOCKET_PROTOCOL, others);
            }
            Ok(user)
        })
    }
}

/// The token among the subprotocols, and the others.
fn extract(offered: &str) -> Result<Option<(String, String)>, &'static str> {
    let mut token = None;
    let mut others = Vec::new();
    for protocol in offered.split(',').map(str::trim) {
        match protocol.strip_prefix(PREFIX) {
            None => others.push(protocol),
            Some(_) if token.is_some() => {
                return Err("multiple base64.bearer.authorization tokens specified");
            }
            Some(encoded) => {
                let bytes = decode_url(encoded)
                    .ok_or("invalid base64.bearer.authorization token encoding")?;
                let text = String::from_utf8(bytes);
                token = Some(text.map_err(|_| "invalid base64.bearer.authorization token")?);
            }
        }
    }
    match token.filter(|token| !token.is_empty()) {
        None => Ok(None),
        // The server must have a subprotocol to respond with.
        Some(_) if others.is_empty() => Err("missing additional subprotocol"),
        Some(token) => Ok(Some((token, others.join(",")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stands_among_the_protocols() {
        let found = |token: &str, others: &str| Ok(Some((token.to_owned(), others.to_owned())));
        for (offered, expected) in [
            ("v5.channel.k8s.io", Ok(None)),
            ("", Ok(None)),
            ("a, base64url.bearer.authorization.k8s.io.YWJj, b", found("abc", "a,b")),
            ("base64url.bearer.authorization.k8s.io.Pz8_,a", found("???", "a")),
            ("base64url.bearer.authorization.k8s.io.YWJj", Err("missing additional subprotocol")),
            (
                "base64url.bearer.authorization.k8s.io.YQ==,a",
                Err("invalid base64.bearer.authorization token encoding"),
            ),
            (
                "base64url.bearer.authorization.k8s.io._w,a",
                Err("invalid base64.bearer.authorization token"),
            ),
            (
                "base64url.bearer.authorization.k8s.io.YQ,base64url.bearer.authorization.k8s.io.YQ",
                Err("multiple base64.bearer.authorization tokens specified"),
            ),
        ] {
            assert_eq!(extract(offered), expected, "{offered}");
        }
    }
}
