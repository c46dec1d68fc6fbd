//! The recorder of one server's spans.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    Link, SpanBuilder, SpanKind, TraceContextExt as _, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    Sampler, SdkTracer, SdkTracerProvider, Span as SdkSpan, SpanProcessor,
};

use crate::propagation::Remote;
use crate::span::{Span, current};

/// Value of `service.name`.
const SERVICE: &str = "apiserver";

/// Time in which the last spans are sent when the server stops.
const SHUTDOWN: Duration = Duration::from_secs(5);

/// The code that a span is of, by the reference's names of it, which collectors filter by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The work of a request.
    Component,
    /// Filters of the handler chain.
    Filter,
    /// HTTP requests, received and sent.
    Http,
    /// gRPC calls.
    Grpc,
}

impl Scope {
    /// All of them, in the order of the type.
    const NAMES: [&'static str; 4] = [
        "k8s.io/component-base/tracing",
        "k8s.op/apiserver/pkg/endpoints/filterlatency",
        "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp",
        "go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc",
    ];
}

/// Requests whose client has not decided that they are recorded, per million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampling(pub u32);

impl Sampling {
    const ALL: f64 = 1_000_000.0;

    /// A client's decision counts; without one, the rate.
    fn sampler(self) -> Sampler {
        let root = match self.0 {
            0 => Sampler::AlwaysOff,
            rate => Sampler::TraceIdRatioBased(f64::from(rate) / Self::ALL),
        };
        Sampler::ParentBased(Box::new(root))
    }
}

/// Parent of a request's span.
#[derive(Clone, Debug)]
pub enum Parent {
    /// The current span, or the client's if it has sent one.
    Trusted(Option<Remote>),
    /// None, as the client may not decide what is recorded; a span that it has sent is linked.
    Untrusted(Option<Remote>),
}

/// The recorder of one server's spans (upstream: `TracerProvider`).
#[derive(Clone)]
pub struct Provider(Arc<Inner>);

struct Inner {
    sdk: SdkTracerProvider,
    /// By [`Scope`].
    tracers: [SdkTracer; 4],
}

impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Provider")
    }
}

impl Provider {
    /// A recorder that hands spans of the server `instance` to a processor.
    pub fn new(
        processor: impl SpanProcessor + 'static,
        sampling: Sampling,
        instance: &str,
    ) -> Self {
        let attributes = [
            KeyValue::new("service.name", SERVICE),
            KeyValue::new("service.instance.id", instance.to_owned()),
        ];
        let resource = Resource::builder_empty().with_attributes(attributes).build();
        let sdk = SdkTracerProvider::builder()
            .with_sampler(sampling.sampler())
            .with_span_processor(processor)
            .with_resource(resource)
            .build();
        let tracers = Scope::NAMES.map(|name| sdk.tracer(name));
        Provider(Arc::new(Inner { sdk, tracers }))
    }

    /// Starts a span of the handler chain, a root if there is no current one.
    pub fn filter(&self, name: &'static str) -> Span {
        let parent = current().unwrap_or_default();
        let parent = self.known_to(parent);
        let span = self.start(Scope::Filter, SpanKind::Internal, name.into(), &parent);
        Span::of(parent.with_span(span))
    }

    /// Starts the span of a request that has been received `ago`.
    pub fn server(&self, name: String, parent: Parent, ago: Duration) -> Span {
        let (parent, link) = match parent {
            Parent::Trusted(Some(remote)) => (remote.context(), None),
            Parent::Trusted(None) => (current().unwrap_or_default(), None),
            Parent::Untrusted(remote) => (Context::new(), remote.map(|remote| remote.span())),
        };
        let parent = self.known_to(parent);
        let links = link.map(Link::with_context).into_iter().collect();
        let builder = builder(name.into(), SpanKind::Server).with_links(links);
        let now: SystemTime = opentelemetry::time::now();
        let began = now.checked_sub(ago).unwrap_or(now);
        let span = self.build(Scope::Http, builder.with_start_time(began), &parent);
        Span::of(parent.with_span(span))
    }

    /// Sends what is recorded, and stops. Blocks for some seconds if the collector does not answer.
    pub fn shut_down(&self) -> OTelSdkResult {
        self.0.sdk.shutdown_with_timeout(SHUTDOWN)
    }

    /// Starts a child of the parent's span.
    pub(crate) fn start(
        &self,
        scope: Scope,
        kind: SpanKind,
        name: Cow<'static, str>,
        parent: &Context,
    ) -> SdkSpan {
        self.build(scope, builder(name, kind), parent)
    }

    fn build(&self, scope: Scope, builder: SpanBuilder, parent: &Context) -> SdkSpan {
        let [component, filter, http, grpc] = &self.0.tracers;
        let tracer = match scope {
            Scope::Component => component,
            Scope::Filter => filter,
            Scope::Http => http,
            Scope::Grpc => grpc,
        };
        tracer.build_with_context(builder, parent)
    }

    /// A context whose spans are recorded here.
    fn known_to(&self, context: Context) -> Context {
        match context.get::<Provider>() {
            Some(_) => context,
            None => context.with_value(self.clone()),
        }
    }
}

fn builder(name: Cow<'static, str>, kind: SpanKind) -> SpanBuilder {
    SpanBuilder::from_name(name).with_kind(kind)
}
