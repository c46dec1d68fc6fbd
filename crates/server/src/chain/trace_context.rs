//! `traceparent`: propagation of a client's trace context.

use http::HeaderValue;

use crate::future::Pending;
use crate::handler::{Filter, Handler, Response};
use crate::request::Request;

/// W3C trace context of a request, for calls to other servers on its behalf. Spans are not exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// Value of `traceparent`.
    pub parent: HeaderValue,
    /// Value of `tracestate`, if present.
    pub state: Option<HeaderValue>,
}

/// Keeps the trace context of requests that have one.
#[derive(Debug)]
pub(super) struct Tracing;

impl Filter for Tracing {
    fn filter<'a>(&'a self, mut request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        let headers = &request.parts.headers;
        let parent = headers.get("traceparent").filter(|parent| is_valid(parent.as_bytes()));
        if let Some(parent) = parent.cloned() {
            let state = headers.get("tracestate").cloned();
            request.parts.extensions.insert(TraceContext { parent, state });
        }
        next.handle(request)
    }
}

/// `00-<32 hex digits>-<16 hex digits>-<2 hex digits>`, the middle ones not all zero.
fn is_valid(parent: &[u8]) -> bool {
    let parts: Vec<&[u8]> = parent.split(|&byte| byte == b'-').collect();
    let hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let zero = |part: &[u8]| part.iter().all(|&byte| byte == b'0');
    let [version, trace, span, flags] = parts.as_slice() else { return false };
    let lengths = [version.len(), trace.len(), span.len(), flags.len()];
    lengths == [2, 32, 16, 2]
        && parts.iter().all(|part| part.iter().all(hex))
        && *version == b"00"
        && !zero(trace)
        && !zero(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_context_has_a_trace_and_a_span() {
        for (parent, valid) in [
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", true),
            ("00-00000000000000000000000000000000-b7ad6b7169203331-01", false),
            ("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", false),
            ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331", false),
            ("", false),
        ] {
            assert_eq!(is_valid(parent.as_bytes()), valid, "{parent}");
        }
    }
}
