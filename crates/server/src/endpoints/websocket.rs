//! Responses over a WebSocket, for browsers: watches, one message for each event, and logs.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{
    CONNECTION, CONTENT_TYPE, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use kevel_codec::{base64, cbor};
use kevel_streaming::channel::{NONE, Protocol};
use kevel_streaming::upgrade::websocket::{accept, accept_key};
use kevel_streaming::websocket::{CloseCode, Opcode, Received, Role, Socket};
use tokio::time::timeout;

use crate::body::Body;
use crate::handler::Response;
use crate::negotiate::MediaType;
use crate::proxy::refused;
use crate::serving::{Taken, Upgrade};

/// The only WebSocket version (RFC 6455).
const VERSION: &str = "13";
/// Time for the client to take the close frame.
const CLOSING: Duration = Duration::from_secs(1);
/// Bytes of a log per message: the reference's read size.
const LOG_MESSAGE: usize = 2048;
/// Bytes read at a time of data from the client, which is ignored.
const HEARD: usize = 4 << 10;

/// WebSocket subprotocols of logs: bytes, or base64.
const LOG_PROTOCOLS: &[Protocol] = &[
    NONE,
    Protocol { name: "binary.k8s.io", ..NONE },
    Protocol { name: "base64.binary.k8s.io", base64: true, ..NONE },
];

/// Conversion of the response's pieces into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageForm {
    /// A text message for each line: events in JSON.
    Lines,
    /// A message for each length-prefixed part: events in protobuf.
    Delimited,
    /// A message for each item: events in CBOR.
    Items,
    /// Binary messages.
    Binary,
    /// Base64 text messages.
    Base64,
}

/// Turns a watch's response into a WebSocket upgrade, or into a refusal.
pub(super) fn watch(headers: &HeaderMap, media: MediaType, mut watch: Response) -> Response {
    match handshake(headers) {
        Ok((accept, protocol)) => {
            let answered = watch.headers_mut();
            answered.insert(UPGRADE, HeaderValue::from_static("websocket"));
            answered.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
            answered.insert(SEC_WEBSOCKET_ACCEPT, accept);
            if let Some(protocol) = protocol {
                answered.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
            }
            let form = match media {
                MediaType::Protobuf => MessageForm::Delimited,
                MediaType::Cbor => MessageForm::Items,
                _ => MessageForm::Lines,
            };
            go_on(watch, form)
        }
        Err((code, said)) => {
            let mut response = http::Response::new(Body::from(said));
            *response.status_mut() = code;
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            if said == BAD_VERSION {
                let version = HeaderValue::from_static(VERSION);
                response.headers_mut().insert(SEC_WEBSOCKET_VERSION, version);
            }
            response
        }
    }
}

/// Turns a log's, or another byte stream's, response into a WebSocket upgrade, or into a refusal.
pub(super) fn bytes(method: &Method, headers: &HeaderMap, mut log: Response) -> Response {
    match accept(method, headers, LOG_PROTOCOLS) {
        Ok((accepted, protocol)) => {
            log.headers_mut().extend(accepted.into_parts().0.headers);
            go_on(log, if protocol.base64 { MessageForm::Base64 } else { MessageForm::Binary })
        }
        Err(refusal) => refused(*refusal),
    }
}

fn go_on(mut answer: Response, form: MessageForm) -> Response {
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    answer.headers_mut().remove(CONTENT_TYPE);
    let takeover = move |taken, body| converse(taken, body, form);
    answer.extensions_mut().insert(Upgrade::new(takeover));
    answer
}

const BAD_VERSION: &str = "missing or bad WebSocket Version";

/// Checks the handshake, and returns the accept key and the subprotocol. Any single subprotocol is accepted, since
/// nothing depends on it.
fn handshake(
    headers: &HeaderMap,
) -> Result<(HeaderValue, Option<HeaderValue>), (StatusCode, &'static str)> {
    let key = text(headers, SEC_WEBSOCKET_KEY);
    if key.is_empty() {
        return Err((StatusCode::BAD_REQUEST, "mismatch challenge/response"));
    }
    if text(headers, SEC_WEBSOCKET_VERSION) != VERSION {
        return Err((StatusCode::BAD_REQUEST, BAD_VERSION));
    }
    // Any origin is accepted, but the header is required; only browsers send it.
    let origin = text(headers, ORIGIN);
    let is_absolute = |uri: Uri| uri.scheme().is_some() || origin.starts_with('/');
    if !origin.parse().is_ok_and(is_absolute) {
        return Err((StatusCode::FORBIDDEN, ""));
    }
    let protocol = match text(headers, SEC_WEBSOCKET_PROTOCOL).trim() {
        "" => None,
        several if several.contains(',') => return Err((StatusCode::BAD_REQUEST, "")),
        protocol => HeaderValue::from_str(protocol).ok(),
    };
    let accept = HeaderValue::from_str(&accept_key(key));
    Ok((accept.map_err(|_| (StatusCode::INTERNAL_SERVER_ERROR, ""))?, protocol))
}

fn text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Sends the body and reads from the client until either side ends.
async fn converse(taken: Taken, mut body: Body, form: MessageForm) {
    let mut socket = Socket::new(taken, Role::Server);
    form.greet(&mut socket);
    let reason = poll_fn(|context| poll_converse(&mut socket, &mut body, form, context)).await;
    if let Some(reason) = reason {
        socket.close(reason);
        let _ = timeout(CLOSING, poll_fn(|context| socket.poll_shutdown(context))).await;
    }
}

/// Polls both directions; the result is the close code, or `None` if the client is gone or the body is incomplete.
fn poll_converse(
    socket: &mut Socket<Taken>,
    body: &mut Body,
    form: MessageForm,
    context: &mut Context<'_>,
) -> Poll<Option<CloseCode>> {
    loop {
        match socket.poll_receive(context, HEARD, |_, _, _| {}) {
            Poll::Ready(Ok(Ok(Received::Some))) => continue,
            Poll::Ready(Ok(Ok(Received::Closed(_)))) => {
                return Poll::Ready(Some(CloseCode::NORMAL));
            }
            Poll::Ready(Ok(Err(violation))) => return Poll::Ready(Some(violation.code)),
            Poll::Ready(Ok(Ok(Received::Gone)) | Err(_)) => return Poll::Ready(None),
            Poll::Pending => {}
        }
        match socket.poll_flush(context) {
            Poll::Ready(Err(_)) => return Poll::Ready(None),
            Poll::Pending if socket.is_full() => return Poll::Pending,
            _ => {}
        }
        match body.poll_piece(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(None) => return Poll::Ready(Some(CloseCode::NORMAL)),
            Poll::Ready(Some(Ok(piece))) if form.send(socket, &piece).is_some() => {}
            Poll::Ready(Some(_)) => return Poll::Ready(None),
        }
    }
}

impl MessageForm {
    /// Sends the empty message that announces a log.
    fn greet<IO>(self, socket: &mut Socket<IO>) {
        match self {
            MessageForm::Lines | MessageForm::Delimited | MessageForm::Items => {}
            MessageForm::Binary => socket.send(Opcode::Binary, &[], &[]),
            MessageForm::Base64 => socket.send(Opcode::Text, &[], &[]),
        }
    }

    /// Sends a piece; `None` if it is incomplete.
    fn send<IO>(self, socket: &mut Socket<IO>, piece: &[u8]) -> Option<()> {
        match self {
            MessageForm::Lines => piece
                .split_inclusive(|&byte| byte == b'\n')
                .for_each(|line| socket.send(Opcode::Text, &[], line)),
            MessageForm::Delimited => {
                let mut rest = piece;
                while let Some((length, after)) = rest.split_first_chunk() {
                    let length = u32::from_be_bytes(*length) as usize;
                    let (event, after) = after.split_at_checked(length)?;
                    socket.send(Opcode::Binary, &[], event);
                    rest = after;
                }
                return rest.is_empty().then_some(());
            }
            MessageForm::Items => {
                let mut rest = piece;
                while !rest.is_empty() {
                    let (event, after) = cbor::first_item(rest).ok()?;
                    socket.send(Opcode::Binary, &[], event);
                    rest = after;
                }
            }
            MessageForm::Binary => {
                piece.chunks(LOG_MESSAGE).for_each(|bytes| socket.send(Opcode::Binary, &[], bytes))
            }
            MessageForm::Base64 => piece
                .chunks(LOG_MESSAGE)
                .for_each(|bytes| socket.send(Opcode::Text, &[], base64::encode(bytes).as_bytes())),
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_says_where_it_comes_from() {
        let ask = |headers: &[(&'static str, &str)]| {
            let asked = [
                // The example of RFC 6455.
                ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
                ("sec-websocket-version", "13"),
                ("origin", "https://example.com"),
            ];
            let mut map = HeaderMap::new();
            for (name, value) in asked.iter().chain(headers) {
                map.insert(*name, value.parse().unwrap());
            }
            handshake(&map)
        };
        let accept = HeaderValue::from_static("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(ask(&[]), Ok((accept.clone(), None)));
        let one = [("sec-websocket-protocol", "v4.channel.k8s.io")];
        assert_eq!(ask(&one), Ok((accept, Some(HeaderValue::from_static("v4.channel.k8s.io")))));
        for (header, code, said) in [
            (("sec-websocket-key", ""), 400, "mismatch challenge/response"),
            (("sec-websocket-version", "8"), 400, "missing or bad WebSocket Version"),
            (("origin", ""), 403, ""),
            (("origin", "null"), 403, ""),
            (("sec-websocket-protocol", "a, b"), 400, ""),
        ] {
            let (found, text) = ask(&[header]).unwrap_err();
            assert_eq!((found.as_u16(), text), (code, said), "{header:?}");
        }
    }

    #[tokio::test]
    async fn a_piece_is_as_many_messages_as_it_has() {
        for (form, piece, expected) in [
            (MessageForm::Lines, &b"{}\n[]\n"[..], Some(&b"\x81\x03{}\n\x81\x03[]\n"[..])),
            (MessageForm::Delimited, b"\0\0\0\x01x\0\0\0\0", Some(b"\x82\x01x\x82\x00")),
            (MessageForm::Delimited, b"\0\0\0\x02x", None),
            (MessageForm::Delimited, b"\0\0", None),
            (MessageForm::Items, b"\x81\x01\x40", Some(b"\x82\x02\x81\x01\x82\x01\x40")),
            (MessageForm::Items, b"\x81", None),
            (MessageForm::Binary, b"ab", Some(b"\x82\x02ab")),
            (MessageForm::Base64, b"ab", Some(b"\x81\x04YWI=")),
        ] {
            let (near, mut far) = tokio::io::duplex(1024);
            let mut socket = Socket::new(near, Role::Server);
            let sent = form.send(&mut socket, piece);
            assert_eq!(sent.is_some(), expected.is_some(), "{form:?}");
            let Some(expected) = expected else { continue };
            poll_fn(|context| socket.poll_shutdown(context)).await.unwrap();
            let mut heard = Vec::new();
            tokio::io::AsyncReadExt::read_to_end(&mut far, &mut heard).await.unwrap();
            assert_eq!(heard, expected, "{form:?}");
        }
    }
}
