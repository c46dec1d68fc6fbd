//! Spans of calls to etcd, by the names of Go's gRPC instrumentation, which the reference uses.

use http::HeaderMap;
use kevel_trace::{KeyValue, SpanScope, Status as SpanStatus, TraceSpan, number, text};
use prost::Message;
use tonic::{Code, Status};

/// Starts the span of a call with a message of so many bytes, and writes it into the call's metadata.
pub(super) fn of_call(
    path: &'static str,
    sent: Option<usize>,
    metadata: &mut HeaderMap,
) -> TraceSpan {
    let method = path.trim_start_matches('/');
    let span = kevel_trace::client(
        SpanScope::Grpc,
        || method.into(),
        || vec![text("rpc.method", method), text("rpc.system.name", "grpc")],
    );
    span.in_scope(|| kevel_trace::inject(metadata));
    if let Some(size) = sent {
        span.event_with("message", || message("SENT", size));
    }
    span
}

/// Notes the answer of a call.
pub(super) fn answered<A: Message>(span: &TraceSpan, answer: &Result<A, Status>) {
    if !span.is_recording() {
        return;
    }
    match answer {
        Ok(answer) => {
            span.event_with("message", || message("RECEIVED", answer.encoded_len()));
            span.set(|| vec![text("rpc.response.status_code", "OK")]);
        }
        Err(status) => {
            span.set(|| vec![text("rpc.response.status_code", code(status.code()))]);
            span.set_status(SpanStatus::error(status.message().to_owned()));
        }
    }
}

/// Attributes of the event of a message, the only one in its direction.
fn message(direction: &'static str, size: usize) -> Vec<KeyValue> {
    vec![
        text("rpc.message.type", direction),
        number("rpc.message.id", 1u8),
        number("rpc.message.uncompressed_size", size),
    ]
}

/// Code as Go names it.
fn code(code: Code) -> String {
    match code {
        Code::Cancelled => "Canceled".to_owned(),
        code => format!("{code:?}"),
    }
}
