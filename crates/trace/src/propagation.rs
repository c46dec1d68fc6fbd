//! Contexts in headers: W3C trace context and baggage (upstream: `tracing.Propagators`).

use std::future::Future;

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::Context;
use opentelemetry::baggage::BaggageExt as _;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator as _};
use opentelemetry::trace::{SpanContext, TraceContextExt as _};
use opentelemetry_sdk::propagation::{BaggagePropagator, TraceContextPropagator};

use crate::span::{InContext, current};

const TRACE_PARENT: &str = "traceparent";
const BAGGAGE: &str = "baggage";

/// Context that a client has sent.
#[derive(Clone, Debug)]
pub struct RemoteContext(Context);

/// Reads the context in a request's headers, if they have a valid one.
pub fn remote(headers: &HeaderMap) -> Option<RemoteContext> {
    if !headers.contains_key(TRACE_PARENT) {
        return None;
    }
    let headers = Headers(headers);
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &headers);
    if !context.span().span_context().is_valid() {
        return None;
    }
    Some(RemoteContext(BaggagePropagator::new().extract_with_context(&context, &headers)))
}

/// Writes the current context into the headers of a request to another server; nothing if there is none.
pub fn inject(headers: &mut HeaderMap) {
    let Some(context) = current() else { return };
    TraceContextPropagator::new().inject_context(&context, &mut HeadersMut(headers));
    if !context.baggage().is_empty() {
        BaggagePropagator::new().inject_context(&context, &mut HeadersMut(headers));
    } else {
        headers.remove(BAGGAGE);
    }
}

impl RemoteContext {
    /// Passes the context on to servers that a future calls, without spans of its own.
    pub fn scope<F: Future>(self, future: F) -> InContext<F> {
        InContext::new(future, self.0)
    }

    /// The client's span.
    pub(crate) fn span(&self) -> SpanContext {
        self.0.span().span_context().clone()
    }

    /// The context itself.
    pub(crate) fn context(self) -> Context {
        self.0
    }
}

struct Headers<'h>(&'h HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

struct HeadersMut<'h>(&'h mut HeaderMap);

impl Injector for HeadersMut<'_> {
    fn set(&mut self, key: &str, value: String) {
        let name = HeaderName::from_bytes(key.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(value)) {
            self.0.insert(name, value);
        }
    }
}
