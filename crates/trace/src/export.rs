//! OTLP over gRPC: the way of spans to a collector.

use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithTonicConfig as _};
use opentelemetry_sdk::trace::BatchSpanProcessor;
use tonic::transport::Channel;

use crate::provider::{Sampling, TraceProvider};

/// Reason why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
#[error("cannot export spans: {0}")]
pub struct ExportError(#[from] ExporterBuildError);

/// A recorder whose spans go to the collector behind a channel, in batches (`OTEL_BSP_*`). Must be called in a runtime.
pub fn export(
    channel: Channel,
    sampling: Sampling,
    instance: &str,
) -> Result<TraceProvider, ExportError> {
    let exporter = SpanExporter::builder().with_tonic().with_channel(channel).build()?;
    Ok(TraceProvider::new(BatchSpanProcessor::builder(exporter).build(), sampling, instance))
}
