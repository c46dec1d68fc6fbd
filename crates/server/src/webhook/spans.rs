//! Spans of calls to other servers (upstream: `tracing.WrapperFor`).

use http::{Request, Response};
use kevel_trace::{Scope, Span, Status, number, text};

use super::error::Error;

/// Starts the span of a call, and writes it into the call's headers. What is not recorded here is passed on all the same.
pub fn of_call<B>(request: &mut Request<B>) -> Span {
    let (method, uri) = (request.method(), request.uri());
    let span = kevel_trace::client(
        Scope::Http,
        || format!("HTTP {method}").into(),
        || {
            let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
            vec![
                text("http.request.method", method.as_str()),
                text("url.full", uri.to_string()),
                text("server.address", uri.host().unwrap_or_default()),
                number("server.port", uri.port_u16().unwrap_or(default)),
            ]
        },
    );
    span.in_scope(|| kevel_trace::inject(request.headers_mut()));
    span
}

/// Notes the answer of a call, or why there is none.
pub(super) fn answered<B>(span: &Span, answer: &Result<Response<B>, Error>) {
    match answer {
        Ok(answer) => note_status(span, answer),
        Err(error) if span.is_recording() => span.set_status(Status::error(error.to_string())),
        Err(_) => {}
    }
}

/// Notes the status of an answer.
pub fn note_status<B>(span: &Span, answer: &Response<B>) {
    let code = answer.status();
    span.set(|| vec![number("http.response.status_code", code.as_u16())]);
    if code.is_client_error() || code.is_server_error() {
        span.set(|| vec![text("error.type", code.as_u16().to_string())]);
        span.set_status(Status::error(""));
    }
}
