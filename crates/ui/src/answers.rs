//! Responses of the page's own endpoints, and the headers that all of its responses have.

use bytes::Bytes;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, StatusCode};
use kevel_api::value::{Map, Value};
use kevel_server::body::Body;
use kevel_server::handler::Response;

/// Policy of the page: its own files and endpoints, nothing inline, no frames, and no text that becomes markup.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'";
/// Policy of data, which must not do anything even if a browser shows it as a page.
const DATA_POLICY: &str = "default-src 'none'; sandbox; frame-ancestors 'none'";

/// Headers of all responses under `/ui/`.
const ALWAYS: [(HeaderName, &str); 5] = [
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// A file of the page.
pub(crate) fn page(media: &'static str, content: &'static [u8]) -> Response {
    let mut response = http::Response::new(Body::from(Bytes::from_static(content)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
    always(headers);
    response
}

/// Restricts what a browser may do with data of the API.
pub(crate) fn sealed(mut response: Response) -> Response {
    let headers = response.headers_mut();
    // A server behind the aggregation layer must not set cookies of this origin.
    headers.remove(header::SET_COOKIE);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(DATA_POLICY));
    always(headers);
    response
}

/// An object in JSON.
pub(crate) fn json(code: StatusCode, fields: Map) -> Response {
    let mut text = Vec::with_capacity(256);
    kevel_codec::json::encode_any(&Value::Map(fields), &mut text);
    let mut response = http::Response::new(Body::from(text));
    *response.status_mut() = code;
    let media = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    sealed(response)
}

/// A refusal, with a message for the user.
pub(crate) fn refusal(code: StatusCode, message: &str) -> Response {
    let mut fields = Map::new();
    fields.insert("message", Value::String(message.into()));
    json(code, fields)
}

/// A response without a body.
pub(crate) fn empty(code: StatusCode) -> Response {
    let mut response = http::Response::new(Body::empty());
    *response.status_mut() = code;
    sealed(response)
}

fn always(headers: &mut HeaderMap) {
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
