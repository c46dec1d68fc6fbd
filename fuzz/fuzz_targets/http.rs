//! Any request to the whole server, and any bytes on a connection: no panic, every answer is one that the
//! API has, and what a path means does not depend on how it is spelled.
#![no_main]

use std::cell::RefCell;
use std::sync::Arc;

use kevel_component::future::Pending;
use kevel_fuzz::api::{Api, request};
use kevel_registry::query::unescape;
use kevel_registry::resource::Cbor;
use kevel_server::body::Body;
use kevel_server::handler::{Handler, Response};
use kevel_server::negotiate::{self, Offer};
use kevel_server::request::Request;
use kevel_server::request_info::RequestInfo;
use kevel_server::serving::{Limits, serve_stream};
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

fuzz_target!(|data: &[u8]| {
    match data.split_first() {
        Some((0, bytes)) => connection(bytes, false),
        Some((1, bytes)) => connection(bytes, true),
        Some((2, bytes)) => connection(&frames(bytes), true),
        // What remains is text: a request.
        _ => whole_server(data),
    }
});

/// A request through the real chain and the real endpoints.
fn whole_server(text: &[u8]) {
    thread_local! {
        static API: RefCell<Option<Api>> = const { RefCell::new(None) };
    }
    let Some(request) = request(text) else { return };
    spelled_otherwise(&request);
    negotiated(&request);
    API.with_borrow_mut(|api| {
        if api.as_ref().is_some_and(Api::is_old) {
            *api = None;
        }
        let api = api.get_or_insert_with(Api::start);
        let Some((status, body)) = api.ask(request) else { return };
        let known = matches!(status.as_u16(), 101 | 200..=202 | 206 | 301 | 302 | 304 | 307 | 400..=431 | 500..=504);
        assert!(known, "{status}");
        let text = String::from_utf8_lossy(&body);
        assert!(!text.contains("panic"), "{status}: {text}");
    });
}

/// A path with every letter encoded is the same path.
fn spelled_otherwise(request: &Request) {
    let uri = &request.parts.uri;
    let encode = |part: &str| {
        let decoded = unescape(part, false)?;
        Some(decoded.bytes().map(|byte| format!("%{byte:02X}")).collect())
    };
    let path: Option<Vec<String>> = uri.path().split('/').map(encode).collect();
    let Some(path) = path.map(|parts| parts.join("/")) else { return };
    let encoded = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    let Ok(encoded) = encoded.parse() else { return };
    let means = |info: RequestInfo| RequestInfo { path: String::new(), ..info };
    let read = |uri| RequestInfo::new(&request.parts.method, uri).map(means);
    assert_eq!(read(uri), read(&encoded), "{uri}");
}

/// Of the forms that a client accepts, one that the server has is chosen, the same one each time.
fn negotiated(request: &Request) {
    let text = |name: http::HeaderName| {
        let value = request.parts.headers.get(name).map(|value| value.as_bytes());
        String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
    };
    let accept = text(http::header::ACCEPT);
    let objects =
        [false, true].map(|on| Offer::Objects { protobuf: on, table: on, cbor: Cbor(on) });
    for offer in objects.into_iter().chain([false, true].map(|on| Offer::Documents(Cbor(on)))) {
        let chosen = negotiate::accept(&accept, false, offer).ok();
        assert_eq!(negotiate::accept(&accept, false, offer).ok(), chosen);
    }
    for cbor in [false, true].map(Cbor) {
        if let Ok(media) = negotiate::body(&text(http::header::CONTENT_TYPE), cbor) {
            assert_eq!(negotiate::body(media.name(), cbor).ok(), Some(media));
        }
    }
}

/// Bytes on a connection whose requests are answered with what was understood of them.
fn connection(bytes: &[u8], http2: bool) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let output = runtime.block_on(async {
        let (mut client, server) = tokio::io::duplex(64 << 10);
        let server = serve_stream(server, http2, Arc::new(Echo), Limits::default());
        let client = async {
            let _ = client.write_all(bytes).await;
            let _ = client.shutdown().await;
            let mut output = Vec::new();
            let _ = client.read_to_end(&mut output).await;
            output
        };
        tokio::join!(server, client).1
    });
    let expected: &[u8] = if http2 { b"" } else { b"HTTP/1." };
    assert!(
        output.is_empty() || output.starts_with(expected),
        "{}",
        String::from_utf8_lossy(&output)
    );
}

/// HTTP/2 as bytes say it: a frame's type, flags, stream and length, and its content.
fn frames(mut bytes: &[u8]) -> Vec<u8> {
    let mut out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    while let Some(([kind, flags, stream, length], rest)) = bytes.split_first_chunk() {
        let (content, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        out.extend([0, 0, content.len() as u8, kind % 11, *flags, 0, 0, 0, *stream]);
        out.extend(content);
        bytes = rest;
    }
    out
}

/// Says what was asked, and how long its body is.
struct Echo;

impl Handler for Echo {
    fn handle<'a>(&'a self, mut request: Request) -> Pending<'a, Response> {
        Box::pin(async move {
            let read = request.read_body().await.map(|body| body.len());
            let told = format!("{:?} {read:?}\n", request.info);
            http::Response::new(Body::from(told))
        })
    }
}
