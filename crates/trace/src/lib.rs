//! Spans of requests, in OpenTelemetry's terms (upstream: `k8s.io/component-base/tracing`).
//!
//! A request whose trace is recorded has a context, which is current while the request's future is polled. Code below
//! starts spans and adds events without being given anything: [`start`], [`event`]. Where nothing is recorded, a span is
//! one check: of a flag that is set once a context exists in this process, then of the thread's context. Neither names
//! nor attributes are made then.
//!
//! ```
//! let span = kevel_trace::start("Create", || vec![kevel_trace::text("resource", "pods")]);
//! span.event("About to store object in database");
//! assert!(!span.is_recording());
//! ```

mod calls;
#[cfg(feature = "export")]
mod export;
mod propagation;
mod provider;
mod span;
mod tracers;

pub use opentelemetry::trace::Status;
pub use opentelemetry::{KeyValue, Value};

pub use calls::{answered, call_span};
#[cfg(feature = "export")]
pub use export::{ExportError, export};
pub use propagation::{RemoteContext, inject, remote};
pub use provider::{Parent, Sampling, TraceProvider};
pub use span::{InContext, TraceSpan, client, event, event_with, in_current, is_recording, start};
pub use tracers::SpanScope;

/// Attribute of a text.
pub fn text(key: &'static str, value: impl Into<String>) -> KeyValue {
    KeyValue::new(key, value.into())
}

/// Attribute of a number; one that does not fit is the largest.
pub fn number(key: &'static str, value: impl TryInto<i64>) -> KeyValue {
    KeyValue::new(key, value.try_into().unwrap_or(i64::MAX))
}
