//! Metrics of connections to nodes and pods, with the reference's names.

use std::sync::Arc;

use http::StatusCode;
use kevel_server::metrics::{Counter, Description, Family, Metrics};

/// Counters of connections.
#[derive(Clone, Debug)]
pub(super) struct ConnectMetrics {
    translated: Arc<Family<Counter>>,
    tunneled: Arc<Family<Counter>>,
    streams: Arc<Family<Counter>>,
    logs: Arc<Family<Counter>>,
    log_tls_failures: Arc<Family<Counter>>,
}

impl ConnectMetrics {
    /// Registers the counters; must be called once per server.
    pub fn new(metrics: &Metrics) -> Self {
        let counter = |name, help, labels| metrics.counter(Description { name, help, labels });
        ConnectMetrics {
            translated: counter(
                "apiserver_stream_translator_requests_total",
                "[ALPHA] Commands whose WebSockets were translated to SPDY, by result.",
                &["code"],
            ),
            tunneled: counter(
                "apiserver_stream_tunnel_requests_total",
                "[ALPHA] Port forwards over WebSockets, by response code.",
                &["code"],
            ),
            streams: counter(
                "apiserver_websocket_streaming_requests_total",
                "[ALPHA] Streams into pods, by the place where WebSockets are translated: this server or the kubelet.",
                &["subresource", "proxy_type"],
            ),
            logs: counter(
                "kube_apiserver_pod_logs_insecure_backend_total",
                "[ALPHA] Requests for logs, by use of insecureSkipTLSVerifyBackend.",
                &["usage"],
            ),
            log_tls_failures: counter(
                "kube_apiserver_pod_logs_backend_tls_failure_total",
                "[ALPHA] Requests for logs that failed because of the kubelet's certificate.",
                &[],
            ),
        }
    }

    /// Counts a command that has ended or was refused.
    pub fn translated(&self, code: StatusCode) {
        self.translated.with(&[code.as_str()]).increment();
    }

    /// Counts a tunnel that was answered.
    pub fn tunneled(&self, code: StatusCode) {
        self.tunneled.with(&[code.as_str()]).increment();
    }

    /// Counts a stream. `here` is true if this server translates the WebSocket.
    pub fn stream(&self, subresource: &str, here: bool) {
        let by = if here { "translated_at_apiserver" } else { "proxied_to_kubelet" };
        self.streams.with(&[subresource, by]).increment();
    }

    /// Counts a log request.
    pub fn log(&self, insecure: bool) {
        let usage = if insecure { "skip_tls_allowed" } else { "enforce_tls" };
        self.logs.with(&[usage]).increment();
    }

    /// Counts a kubelet certificate that could not be verified.
    pub fn log_tls_failure(&self) {
        self.log_tls_failures.with(&[]).increment();
    }
}
