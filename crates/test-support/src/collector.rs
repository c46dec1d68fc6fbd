//! A collector of OpenTelemetry: OTLP over gRPC.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::net::TcpListener;

type TraceAttributes = BTreeMap<String, String>;

/// A collector of a test.
#[derive(Debug)]
pub struct TraceCollector {
    /// Address of its gRPC server.
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<ReceivedSpan>>>,
}

/// A span that was received. Identifiers are hexadecimal.
#[derive(Clone, Debug)]
pub struct ReceivedSpan {
    /// Name.
    pub name: String,
    /// Trace.
    pub trace: String,
    /// Identifier.
    pub id: String,
    /// Span that it is a part of; empty if there is none.
    pub parent: String,
    /// Names of its events.
    pub events: Vec<String>,
    /// Attributes, as text.
    pub attributes: TraceAttributes,
    /// Attributes of the server, as text.
    pub resource: TraceAttributes,
    /// Name of the code that it is of.
    pub scope: String,
    /// Traces that are linked.
    pub links: Vec<String>,
    /// Nanoseconds from its start to its end.
    pub nanos: u64,
}

impl TraceCollector {
    /// Starts a collector.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::<Mutex<Vec<ReceivedSpan>>>::default();
        let service = TraceServiceServer::new(TraceReceiver(received.clone()));
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let service = TowerToHyperService::new(service.clone());
                let server = http2::Builder::new(TokioExecutor::new());
                tokio::spawn(server.serve_connection(TokioIo::new(connection), service));
            }
        });
        TraceCollector { address, received }
    }

    /// Writes a configuration of traces into a folder; returns the flag that names it.
    pub fn flag(&self, folder: &Path, per_million: u32) -> String {
        let path = folder.join("tracing.yaml");
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n\
             endpoint: {}\nsamplingRatePerMillion: {per_million}\n",
            self.address
        );
        std::fs::write(&path, text).unwrap();
        format!("--tracing-config-file={}", path.display())
    }

    /// Spans that were received so far, in the order of their arrival.
    pub fn spans(&self) -> Vec<ReceivedSpan> {
        self.received.lock().unwrap().clone()
    }

    /// Spans of a trace.
    pub fn of(&self, trace: &str) -> Vec<ReceivedSpan> {
        self.spans().into_iter().filter(|span| span.trace == trace).collect()
    }
}

struct TraceReceiver(Arc<Mutex<Vec<ReceivedSpan>>>);

#[tonic::async_trait]
impl TraceService for TraceReceiver {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        let mut received = self.0.lock().unwrap();
        for of_resource in request.into_inner().resource_spans {
            let resource = attributes(of_resource.resource.unwrap_or_default().attributes);
            for of_scope in of_resource.scope_spans {
                let scope = of_scope.scope.unwrap_or_default();
                let spans = of_scope.spans.into_iter();
                received.extend(spans.map(|span| ReceivedSpan::new(span, &scope, &resource)));
            }
        }
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

impl ReceivedSpan {
    fn new(span: Span, scope: &InstrumentationScope, resource: &TraceAttributes) -> Self {
        ReceivedSpan {
            name: span.name,
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            events: span.events.into_iter().map(|event| event.name).collect(),
            attributes: attributes(span.attributes),
            resource: resource.clone(),
            scope: scope.name.clone(),
            links: span.links.iter().map(|link| hex(&link.trace_id)).collect(),
            nanos: span.end_time_unix_nano.saturating_sub(span.start_time_unix_nano),
        }
    }
}

fn attributes(attributes: Vec<KeyValue>) -> TraceAttributes {
    let text = |value: Option<Value>| match value {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    let pairs = attributes.into_iter().map(|pair| {
        let value = pair.value.and_then(|value| value.value);
        (pair.key, text(value))
    });
    pairs.collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
