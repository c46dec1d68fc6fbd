//! Metrics of calls that the process makes, whatever makes them: one set for all servers of a process.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use kevel_component::metrics::{Counter, Histogram};
use kevel_pki::verify::{HostNameError, VerifyError};

use super::Metrics;
use super::family::{Description, Family};

const CALL_SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
const CALL_BYTES: &[f64] = &[
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];

/// Metrics of requests to servers: webhooks, issuers, and this server itself (upstream: client-go's).
#[derive(Debug)]
pub struct RestClientMetrics {
    requests: Arc<Family<Counter>>,
    duration: Arc<Family<Histogram>>,
    request_bytes: Arc<Family<Histogram>>,
    response_bytes: Arc<Family<Histogram>>,
}

/// Metrics of all calls of the process.
pub static REST_CLIENT: LazyLock<RestClientMetrics> = LazyLock::new(|| {
    let host = &["host", "verb"];
    let histogram = |name, help, bounds| {
        let description = Description { name, help, labels: host };
        Arc::new(Family::new(description, move || Histogram::new(bounds)))
    };
    let requests = Description {
        name: "rest_client_requests_total",
        help: "[ALPHA] Requests sent, by host, method and the code of the answer.",
        labels: &["code", "method", "host"],
    };
    RestClientMetrics {
        requests: Arc::new(Family::new(requests, Counter::default)),
        duration: histogram(
            "rest_client_request_duration_seconds",
            "[ALPHA] Seconds that requests took, by host and verb.",
            CALL_SECONDS,
        ),
        request_bytes: histogram(
            "rest_client_request_size_bytes",
            "[ALPHA] Bytes of the bodies of requests, by host and verb.",
            CALL_BYTES,
        ),
        response_bytes: histogram(
            "rest_client_response_size_bytes",
            "[ALPHA] Bytes of the bodies of answers, by host and verb.",
            CALL_BYTES,
        ),
    }
});

/// Code of a call without an answer.
const NO_ANSWER: &str = "<error>";

/// A call that was made. Sizes that are not known are left out: inside of the process, objects are passed as trees.
#[derive(Clone, Copy, Debug)]
pub struct RestCall<'a> {
    /// Host and port.
    pub host: &'a str,
    /// HTTP method.
    pub method: &'a str,
    /// Code of the answer; `None` without one.
    pub code: Option<u16>,
    /// Time that it took.
    pub took: Duration,
    /// Bytes of the body that was sent.
    pub sent: Option<usize>,
    /// Bytes of the body that was received.
    pub received: Option<usize>,
}

impl RestClientMetrics {
    /// Records a call.
    pub fn record(&self, call: RestCall<'_>) {
        let code = call.code.map(|code| code.to_string());
        let code = code.as_deref().unwrap_or(NO_ANSWER);
        self.requests.with(&[code, call.method, call.host]).increment();
        let labels = [call.host, call.method];
        self.duration.with(&labels).observe_seconds(call.took);
        if let Some(bytes) = call.sent {
            self.request_bytes.with(&labels).observe(bytes as f64);
        }
        if let Some(bytes) = call.received {
            self.response_bytes.with(&labels).observe(bytes as f64);
        }
    }
}

/// Counters of servers that were refused for certificates of an outdated form.
#[derive(Debug)]
pub struct RefusedCertificates {
    missing_san: Arc<Family<Counter>>,
    insecure_sha1: Arc<Family<Counter>>,
}

/// Certificates of webhooks.
pub static OF_WEBHOOKS: LazyLock<RefusedCertificates> = LazyLock::new(|| {
    RefusedCertificates::new(
        "apiserver_webhooks_x509_missing_san_total",
        "apiserver_webhooks_x509_insecure_sha1_total",
    )
});

/// Certificates of extension API servers.
pub static OF_AGGREGATED: LazyLock<RefusedCertificates> = LazyLock::new(|| {
    RefusedCertificates::new(
        "apiserver_kube_aggregator_x509_missing_san_total",
        "apiserver_kube_aggregator_x509_insecure_sha1_total",
    )
});

impl RefusedCertificates {
    fn new(missing_san: &'static str, insecure_sha1: &'static str) -> Self {
        let counter = |name, help| {
            let family = Family::new(Description { name, help, labels: &[] }, Counter::default);
            family.with(&[]);
            Arc::new(family)
        };
        RefusedCertificates {
            missing_san: counter(
                missing_san,
                "[ALPHA] Servers refused whose certificates have a name, but no alternative names.",
            ),
            insecure_sha1: counter(
                insecure_sha1,
                "[ALPHA] Servers refused whose certificates have signatures with SHA-1.",
            ),
        }
    }

    /// Counts a refusal, if it has such a reason.
    pub fn count(&self, refusal: Option<&VerifyError>) {
        match refusal {
            Some(VerifyError::HostName(HostNameError::CommonNameOnly)) => {
                self.missing_san.with(&[]).increment();
            }
            Some(VerifyError::InsecureAlgorithm(name)) if name.contains("SHA1") => {
                self.insecure_sha1.with(&[]).increment();
            }
            _ => {}
        }
    }
}

/// Documents of aggregated discovery that were made.
pub static AGGREGATIONS: LazyLock<Arc<Family<Counter>>> = LazyLock::new(|| {
    let family = Family::new(
        Description {
            name: "aggregator_discovery_aggregation_count_total",
            help: "[ALPHA] How often documents of aggregated discovery were made.",
            labels: &[],
        },
        Counter::default,
    );
    family.with(&[]);
    Arc::new(family)
});

/// Shows all of them in a server's metrics.
pub(super) fn show_in(metrics: &Metrics) {
    let RestClientMetrics { requests, duration, request_bytes, response_bytes } = &*REST_CLIENT;
    metrics.share(requests.clone());
    metrics.share(AGGREGATIONS.clone());
    for family in [duration, request_bytes, response_bytes] {
        metrics.share(family.clone());
    }
    for RefusedCertificates { missing_san, insecure_sha1 } in [&*OF_WEBHOOKS, &*OF_AGGREGATED] {
        metrics.share(missing_san.clone());
        metrics.share(insecure_sha1.clone());
    }
}
