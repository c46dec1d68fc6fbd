//! The recorder of one server's spans.

use std::time::{Duration, SystemTime};

use opentelemetry::trace::{Link, SpanKind, TraceContextExt as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanProcessor};

use crate::propagation::RemoteContext;
use crate::span::{TraceSpan, current};
use crate::tracers::{SpanScope, Tracers, builder};

/// Value of `service.name`.
const SERVICE: &str = "apiserver";

/// Time in which the last spans are sent when the server stops.
const SHUTDOWN: Duration = Duration::from_secs(5);

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
    Trusted(Option<RemoteContext>),
    /// No parent, because the client may not decide about recording; its own span is linked.
    Untrusted(Option<RemoteContext>),
}

/// The recorder of one server's spans (upstream: `TracerProvider`).
#[derive(Clone)]
pub struct TraceProvider {
    sdk: SdkTracerProvider,
    tracers: Tracers,
}

impl std::fmt::Debug for TraceProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TraceProvider")
    }
}

impl TraceProvider {
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
        let tracers = Tracers::of(&sdk);
        TraceProvider { sdk, tracers }
    }

    /// Starts a span of the handler chain, a root if there is no current one.
    pub fn filter(&self, name: &'static str) -> TraceSpan {
        let parent = current().unwrap_or_default();
        if parent.span().span_context().is_valid() && !parent.span().is_recording() {
            return TraceSpan::default();
        }
        let parent = self.known_to(parent);
        let span = self.tracers.start(SpanScope::Filter, SpanKind::Internal, name.into(), &parent);
        TraceSpan::of(parent.with_span(span))
    }

    /// Starts the span of a request that has been received `ago`.
    pub fn server(&self, name: String, parent: Parent, ago: Duration) -> TraceSpan {
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
        let span = self.tracers.build(SpanScope::Http, builder.with_start_time(began), &parent);
        TraceSpan::of(parent.with_span(span))
    }

    /// Sends the recorded spans, and stops. Blocks for some seconds if the collector does not answer.
    pub fn shut_down(&self) -> OTelSdkResult {
        self.sdk.shutdown_with_timeout(SHUTDOWN)
    }

    /// A context whose spans are recorded here.
    fn known_to(&self, context: Context) -> Context {
        match context.get::<Tracers>() {
            Some(_) => context,
            None => context.with_value(self.tracers.clone()),
        }
    }
}
