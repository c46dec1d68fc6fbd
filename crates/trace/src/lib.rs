//! Spans of requests, in OpenTelemetry's terms (upstream: `k8s.io/component-base/tracing`).
//!
//! A request whose trace is recorded has a context, which is current while the request's future is polled. Code below
//! starts spans and adds events without being given anything: [`start`], [`event`]. Where nothing is recorded, a span
//! is one check: of a flag that is set once a context exists in this process, then of the thread's context. Neither
//! names nor attributes are made then.
//!
//! ```
//! let span = kevel_trace::start("Create", || vec![kevel_trace::text("resource", "pods")]);
//! span.event("About to store object in database");
//! assert!(!span.is_recording());
//! ```
//!
//! # Design
//!
//! ```text
//! traceparent ─▶ chain::spans::Tracing ─ server span ─▶ InContext (current while polled) ─▶ start("Create"), event(...)
//!                                                                                          └▶ inject: webhooks, aggregated servers, etcd
//! Provider ─ sampler: the client's decision, if it is trusted, or the rate ─ batches ─▶ collector (egress: controlplane)
//! ```
//!
//! - Names, attributes and events of spans are the reference's, also with the embedded store (`Create etcd3`, without
//!   the calls of etcd below it). Steps that Kevel does not have (the watch cache's lock) are omitted.
//! - Only clients in `system:masters` or `system:monitoring` decide what is recorded. For other clients a new trace
//!   starts, which links theirs.
//! - A recorded GET without a resourceVersion reads the store, as the reference does with every such GET: otherwise its
//!   trace would not show reading and decryption. Other GETs are answered from the cache at the store's revision.

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
