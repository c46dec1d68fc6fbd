//! Spans of calls to other servers (upstream: `tracing.WrapperFor`).

use std::fmt::Display;

use http::{Request, Response};
use opentelemetry::trace::Status;

use crate::propagation::inject;
use crate::span::{TraceSpan, client};
use crate::tracers::SpanScope;
use crate::{number, text};

/// Starts the span of a call, and writes it into the call's headers. What is not recorded here is passed on all the same.
pub fn call_span<B>(request: &mut Request<B>) -> TraceSpan {
    let (method, uri) = (request.method(), request.uri());
    let span = client(
        SpanScope::Http,
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
    span.in_scope(|| inject(request.headers_mut()));
    span
}

/// Notes the answer of a call, or why there is none.
pub fn answered<B>(span: &TraceSpan, answer: &Result<Response<B>, impl Display>) {
    match answer {
        Ok(answer) => note_status(span, answer),
        Err(error) if span.is_recording() => span.set_status(Status::error(error.to_string())),
        Err(_) => {}
    }
}

/// Notes the status of an answer.
fn note_status<B>(span: &TraceSpan, answer: &Response<B>) {
    let code = answer.status();
    span.set(|| vec![number("http.response.status_code", code.as_u16())]);
    if code.is_client_error() || code.is_server_error() {
        span.set(|| vec![text("error.type", code.as_u16().to_string())]);
        span.set_status(Status::error(""));
    }
}
