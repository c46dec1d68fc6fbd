//! Watches over a WebSocket (RFC 6455), for pages in a browser: each event is a message.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_TYPE, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use http_body_util::BodyExt as _;
use kevel_codec::base64;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, sink};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::body::{Body, Broken, Piece, Pieces};
use crate::handler::Response;
use crate::negotiate::MediaType;
use crate::serving::{Taken, Upgrade};

/// The only version there is.
const VERSION: &str = "13";
/// What a server adds to the client's key, by the RFC.
const KEY_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The kinds of frames.
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;

/// Why a connection is closed.
const NORMAL: u16 = 1000;
const PROTOCOL_ERROR: u16 = 1002;

/// The most that a ping may carry.
const MAX_CONTROL: usize = 125;
/// A client need not send anything at all; one that sends a message of more than this is not heard
/// any further.
const MAX_MESSAGE: u64 = 32 << 20;
/// How long a client has to take the close frame.
const CLOSING: Duration = Duration::from_secs(1);

/// Turns a watch's answer into one that goes on as a WebSocket, or into a refusal.
pub(super) fn upgrade(headers: &HeaderMap, media: MediaType, watch: Response) -> Response {
    match handshake(headers) {
        Ok((accept, protocol)) => {
            let mut response = watch.map(|body| Body::pieces(Messages { body, media }));
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            let answered = response.headers_mut();
            answered.remove(CONTENT_TYPE);
            answered.insert(UPGRADE, HeaderValue::from_static("websocket"));
            answered.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
            answered.insert(SEC_WEBSOCKET_ACCEPT, accept);
            if let Some(protocol) = protocol {
                answered.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
            }
            response.extensions_mut().insert(Upgrade::new(converse));
            response
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

const BAD_VERSION: &str = "missing or bad WebSocket Version";

/// The answer to the client's key and the protocol, or what is wrong. Whatever single protocol the
/// client names is fine: nothing depends on it here.
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
    // Pages of any origin are served, but must name it: only browsers send this.
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
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{KEY_SUFFIX}").as_bytes());
    let accept = HeaderValue::from_str(&base64::encode(hash.as_ref()));
    Ok((accept.map_err(|_| (StatusCode::INTERNAL_SERVER_ERROR, ""))?, protocol))
}

fn text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The events of a watch, each in a frame.
struct Messages {
    body: Body,
    media: MediaType,
}

impl Pieces for Messages {
    fn poll_piece(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        let piece = ready!(self.body.poll_piece(context));
        Poll::Ready(piece.map(|piece| {
            let framed = match self.media {
                MediaType::Protobuf => delimited(&piece?),
                _ => lines(&piece?),
            };
            framed.map(Bytes::from).ok_or(Broken("an event is not whole"))
        }))
    }
}

/// JSON has one event on each line.
fn lines(piece: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(piece.len() + 64);
    for line in piece.split_inclusive(|&byte| byte == b'\n') {
        frame(TEXT, line, &mut out);
    }
    Some(out)
}

/// Protobuf has events behind their lengths, which messages do not need.
fn delimited(mut piece: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(piece.len() + 64);
    while let Some((length, rest)) = piece.split_first_chunk() {
        let (event, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        frame(BINARY, event, &mut out);
        piece = rest;
    }
    piece.is_empty().then_some(out)
}

fn frame(kind: u8, payload: &[u8], out: &mut Vec<u8>) {
    const LAST: u8 = 0x80;
    out.push(LAST | kind);
    match payload.len() {
        length @ 0..=125 => out.push(length as u8),
        length @ 126..=0xffff => {
            out.push(126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(payload);
}

/// What a client says.
enum Heard {
    Ping(Vec<u8>),
    End(u16),
}

/// Sends what the body has, and listens, until either side has had enough.
async fn converse(taken: Taken, body: Body) {
    let (input, output) = tokio::io::split(taken);
    let (say, heard) = mpsc::channel(1);
    let listening = async {
        let reason = listen(input, &say).await;
        let _ = say.send(Heard::End(reason.unwrap_or(NORMAL))).await;
        std::future::pending::<()>().await
    };
    tokio::select! {
        // An error is the client's absence.
        _ = speak(output, body, heard) => {}
        () = listening => {}
    }
}

async fn speak(
    mut output: impl AsyncWrite + Unpin,
    mut body: Body,
    mut heard: mpsc::Receiver<Heard>,
) -> std::io::Result<()> {
    let mut out = Vec::new();
    let reason = loop {
        tokio::select! {
            heard = heard.recv() => match heard {
                Some(Heard::Ping(payload)) => {
                    out.clear();
                    frame(PONG, &payload, &mut out);
                    output.write_all(&out).await?;
                }
                Some(Heard::End(reason)) => break reason,
                None => break NORMAL,
            },
            piece = body.frame() => match piece {
                Some(Ok(piece)) => {
                    output.write_all(&piece.into_data().unwrap_or_default()).await?;
                }
                // One that is not whole just ends: there is no telling what is missing.
                Some(Err(_)) => return Ok(()),
                None => break NORMAL,
            },
        }
        output.flush().await?;
    };
    out.clear();
    frame(CLOSE, &reason.to_be_bytes(), &mut out);
    let close = async {
        output.write_all(&out).await?;
        output.shutdown().await
    };
    timeout(CLOSING, close).await.unwrap_or(Ok(()))
}

/// Listens until the client closes, which it may do without a word. Says why the connection is to
/// be closed.
async fn listen(
    mut input: impl AsyncRead + Unpin,
    say: &mpsc::Sender<Heard>,
) -> std::io::Result<u16> {
    loop {
        let (kind, length) = (input.read_u8().await? & 0x0f, input.read_u8().await?);
        let masked = length & 0x80 != 0;
        let length = match length & 0x7f {
            126 => u64::from(input.read_u16().await?),
            127 => input.read_u64().await?,
            length => u64::from(length),
        };
        if !masked {
            return Ok(PROTOCOL_ERROR);
        }
        let mask = input.read_u32().await?.to_be_bytes();
        match kind {
            CLOSE => return Ok(NORMAL),
            _ if length > MAX_MESSAGE => return Ok(NORMAL),
            PING if length <= MAX_CONTROL as u64 => {
                let mut payload = vec![0; length as usize];
                input.read_exact(&mut payload).await?;
                let mask = mask.iter().cycle();
                payload.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
                if say.send(Heard::Ping(payload)).await.is_err() {
                    return Ok(NORMAL);
                }
            }
            _ => {
                tokio::io::copy(&mut (&mut input).take(length), &mut sink()).await?;
            }
        }
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

    #[test]
    fn an_event_is_a_message() {
        assert_eq!(lines(b"{}\n[]\n").unwrap(), b"\x81\x03{}\n\x81\x03[]\n");
        assert_eq!(delimited(b"\0\0\0\x01x\0\0\0\0").unwrap(), b"\x82\x01x\x82\x00");
        assert_eq!(delimited(b"\0\0\0\x02x"), None);
        assert_eq!(delimited(b"\0\0"), None);
        let long = |length: usize| {
            let mut out = Vec::new();
            frame(TEXT, &vec![b'x'; length], &mut out);
            out[..out.len() - length].to_vec()
        };
        assert_eq!(long(125), b"\x81\x7d");
        assert_eq!(long(126), b"\x81\x7e\x00\x7e");
        assert_eq!(long(65536), b"\x81\x7f\0\0\0\0\0\x01\0\0");
    }
}
