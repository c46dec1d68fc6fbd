//! Spans, and the context in which they are started.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll};

use opentelemetry::trace::{SpanKind, Status, TraceContextExt as _};
use opentelemetry::{Context, KeyValue};
use pin_project_lite::pin_project;

use crate::tracers::{SpanScope, Tracers};

/// Whether any request of this process has had a context. Until then no thread's context is looked at.
static USED: AtomicBool = AtomicBool::new(false);

/// A span, ended when dropped; nothing if it is not recorded.
#[derive(Debug, Default)]
#[must_use = "a span ends when it is dropped"]
pub struct TraceSpan(Option<Context>);

/// Starts a child of the current span (upstream: `tracing.Start`).
pub fn start(
    name: impl Into<Cow<'static, str>>,
    attributes: impl FnOnce() -> Vec<KeyValue>,
) -> TraceSpan {
    child(SpanScope::Component, SpanKind::Internal, || name.into(), attributes)
}

/// Starts the span of a call to another server, a child of the current one.
pub fn client(
    scope: SpanScope,
    name: impl FnOnce() -> Cow<'static, str>,
    attributes: impl FnOnce() -> Vec<KeyValue>,
) -> TraceSpan {
    child(scope, SpanKind::Client, name, attributes)
}

fn child(
    scope: SpanScope,
    kind: SpanKind,
    name: impl FnOnce() -> Cow<'static, str>,
    attributes: impl FnOnce() -> Vec<KeyValue>,
) -> TraceSpan {
    let Some(parent) = recorded() else { return TraceSpan(None) };
    let Some(tracers) = parent.get::<Tracers>().cloned() else { return TraceSpan(None) };
    let span = tracers.start(scope, kind, name(), &parent);
    let context = parent.with_span(span);
    context.span().set_attributes(attributes());
    TraceSpan(Some(context))
}

/// Adds an event to the current span.
pub fn event(name: &'static str) {
    event_with(name, Vec::new);
}

/// Adds an event with attributes to the current span.
pub fn event_with(name: &'static str, attributes: impl FnOnce() -> Vec<KeyValue>) {
    if let Some(current) = recorded() {
        current.span().add_event(name, attributes());
    }
}

/// Whether the current span is recorded.
pub fn is_recording() -> bool {
    recorded().is_some()
}

/// Keeps the current context in a future that another task runs.
pub fn in_current<F: Future>(future: F) -> InContext<F> {
    InContext { future, context: current() }
}

/// Current context, if there is any.
pub(crate) fn current() -> Option<Context> {
    current_if(|_| true)
}

/// Current context, if its span is recorded.
fn recorded() -> Option<Context> {
    current_if(|context| context.span().is_recording())
}

fn current_if(wanted: impl FnOnce(&Context) -> bool) -> Option<Context> {
    if !USED.load(Ordering::Relaxed) {
        return None;
    }
    Context::map_current(|current| {
        (current.has_active_span() && wanted(current)).then(|| current.clone())
    })
}

impl TraceSpan {
    /// A span that is active in a context of its own.
    pub(crate) fn of(context: Context) -> Self {
        TraceSpan(Some(context))
    }

    /// Whether it is recorded: what is not recorded need not be described.
    pub fn is_recording(&self) -> bool {
        self.0.as_ref().is_some_and(|context| context.span().is_recording())
    }

    /// Adds an event.
    pub fn event(&self, name: &'static str) {
        self.event_with(name, Vec::new);
    }

    /// Adds an event with attributes.
    pub fn event_with(&self, name: &'static str, attributes: impl FnOnce() -> Vec<KeyValue>) {
        if let Some(context) = self.0.as_ref().filter(|_| self.is_recording()) {
            context.span().add_event(name, attributes());
        }
    }

    /// Adds attributes.
    pub fn set(&self, attributes: impl FnOnce() -> Vec<KeyValue>) {
        if let Some(context) = self.0.as_ref().filter(|_| self.is_recording()) {
            context.span().set_attributes(attributes());
        }
    }

    /// Sets the status.
    pub fn set_status(&self, status: Status) {
        if let Some(context) = &self.0 {
            context.span().set_status(status);
        }
    }

    /// Records an error as an event `exception` (upstream: `RecordError`).
    pub fn record_error(&self, error: &impl std::fmt::Display) {
        self.event_with("exception", || {
            vec![KeyValue::new("exception.message", error.to_string())]
        });
    }

    /// Shared handle to the span, which ends with the first handle that is dropped.
    pub fn share(&self) -> TraceSpan {
        TraceSpan(self.0.clone())
    }

    /// Makes the span current while a future is polled.
    pub fn scope<F: Future>(&self, future: F) -> InContext<F> {
        InContext { future, context: self.0.clone() }
    }

    /// Makes the span current while a function runs.
    pub fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        let _current = self.0.clone().map(attach);
        work()
    }
}

impl Drop for TraceSpan {
    fn drop(&mut self) {
        if let Some(context) = &self.0 {
            context.span().end();
        }
    }
}

pin_project! {
    /// A future with a context of its own.
    #[derive(Debug)]
    pub struct InContext<F> {
        #[pin]
        future: F,
        context: Option<Context>,
    }
}

impl<F> InContext<F> {
    /// A future in a context.
    pub(crate) fn new(future: F, context: Context) -> Self {
        InContext { future, context: Some(context) }
    }
}

impl<F: Future> Future for InContext<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _current = this.context.clone().map(attach);
        this.future.poll(task)
    }
}

fn attach(context: Context) -> opentelemetry::ContextGuard {
    USED.store(true, Ordering::Relaxed);
    context.attach()
}
