//! Tracers: what starts spans, by the code that they are of.

use std::borrow::Cow;
use std::sync::Arc;

use opentelemetry::Context;
use opentelemetry::trace::{SpanBuilder, SpanKind, Tracer as _, TracerProvider as _};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span as SdkSpan};

/// The code that a span is of, by the reference's names of it, which collectors filter by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanScope {
    /// The work of a request.
    Component,
    /// Filters of the handler chain.
    Filter,
    /// HTTP requests, received and sent.
    Http,
    /// gRPC calls.
    Grpc,
}

impl SpanScope {
    /// All of them, in the order of the type.
    const NAMES: [&'static str; 4] = [
        "k8s.io/component-base/tracing",
        "k8s.op/apiserver/pkg/endpoints/filterlatency",
        "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp",
        "go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc",
    ];
}

/// The tracers of a server, part of every context in which spans are recorded.
#[derive(Clone, Debug)]
pub(crate) struct Tracers(Arc<[SdkTracer; 4]>);

impl Tracers {
    /// Tracers whose spans go where the provider sends them.
    pub fn of(sdk: &SdkTracerProvider) -> Self {
        Tracers(Arc::new(SpanScope::NAMES.map(|name| sdk.tracer(name))))
    }

    /// Starts a child of the parent's span.
    pub fn start(
        &self,
        scope: SpanScope,
        kind: SpanKind,
        name: Cow<'static, str>,
        parent: &Context,
    ) -> SdkSpan {
        self.build(scope, builder(name, kind), parent)
    }

    /// Starts a span that a builder describes.
    pub fn build(&self, scope: SpanScope, builder: SpanBuilder, parent: &Context) -> SdkSpan {
        let [component, filter, http, grpc] = &*self.0;
        let tracer = match scope {
            SpanScope::Component => component,
            SpanScope::Filter => filter,
            SpanScope::Http => http,
            SpanScope::Grpc => grpc,
        };
        tracer.build_with_context(builder, parent)
    }
}

/// Builder of a span.
pub(crate) fn builder(name: Cow<'static, str>, kind: SpanKind) -> SpanBuilder {
    SpanBuilder::from_name(name).with_kind(kind)
}
