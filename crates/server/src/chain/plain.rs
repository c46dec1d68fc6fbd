//! Plain-text failures, sent before content negotiation.

use http::{HeaderValue, StatusCode, Uri, header};
use kevel_api::quote::quote;

use crate::authorization::without_markup;
use crate::body::Body;
use crate::handler::Response;

/// A failure with a line of text.
pub(super) fn text(code: StatusCode, message: &str) -> Response {
    let mut response = http::Response::new(Body::from(format!("{message}\n")));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
    response
}

/// The 500 for a failure of the server itself.
pub(super) fn internal_error(uri: &Uri, error: &str) -> Response {
    tracing::error!(error, "Internal Server Error");
    let asked = uri.path_and_query().map_or("", |asked| asked.as_str());
    let message = format!("Internal Server Error: {}: {error}", quote(asked));
    text(StatusCode::INTERNAL_SERVER_ERROR, &without_markup(&message))
}

/// Value of `X-Content-Type-Options`.
pub(super) const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// Value of `Connection` that ends the connection after the response. HTTP/2 has no such header: the serving layer
/// removes it there and sends GOAWAY.
pub(super) const CLOSE: HeaderValue = HeaderValue::from_static("close");
