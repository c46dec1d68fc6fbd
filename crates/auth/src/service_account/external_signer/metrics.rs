//! Metrics of the external signer, with the reference's names.

use std::sync::Arc;
use std::time::Duration;

use kevel_api::time::Time;
use kevel_clock::Clock;
use kevel_server::metrics::{Counter, Description, Family, Gauge, Histogram, Metrics};

const SECONDS: &[f64] =
    &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Metrics of the external signer.
#[derive(Debug)]
pub(super) struct SignerMetrics {
    last_fetch: Arc<Family<Gauge>>,
    data: Arc<Family<Gauge>>,
    fetches: Arc<Family<Counter>>,
    signatures: Arc<Family<Counter>>,
    duration: Arc<Family<Histogram>>,
    clock: Clock,
}

impl SignerMetrics {
    pub fn new(metrics: &Metrics) -> Self {
        let describe = |name, help, labels| Description { name, help, labels };
        SignerMetrics {
            last_fetch: metrics.gauge(describe(
                "apiserver_externaljwt_fetch_keys_success_timestamp",
                "[ALPHA] Time of the last fetch of keys from the external signer.",
                &[],
            )),
            data: metrics.gauge(describe(
                "apiserver_externaljwt_fetch_keys_data_timestamp",
                "[ALPHA] Time at which the external signer says that its keys were read.",
                &[],
            )),
            fetches: metrics.counter(describe(
                "apiserver_externaljwt_fetch_keys_request_total",
                "[ALPHA] Attempts to fetch keys from the external signer, by code.",
                &["code"],
            )),
            signatures: metrics.counter(describe(
                "apiserver_externaljwt_sign_request_total",
                "[ALPHA] Attempts to have tokens signed, by code.",
                &["code"],
            )),
            duration: metrics.histogram(
                describe(
                    "apiserver_externaljwt_request_duration_seconds",
                    "[ALPHA] Seconds that calls of the external signer took, by code.",
                    &["method", "code"],
                ),
                SECONDS,
            ),
            clock: metrics.clock.clone(),
        }
    }

    pub fn fetched(&self, code: &str) {
        self.fetches.with(&[code]).increment();
        if code == "OK" {
            self.last_fetch.with(&[]).set(Time::now(&self.clock).seconds);
        }
    }

    pub fn data_as_of(&self, seconds: i64) {
        self.data.with(&[]).set(seconds);
    }

    pub fn signed(&self, code: &str) {
        self.signatures.with(&[code]).increment();
    }

    pub fn called(&self, method: &str, code: &str, took: Duration) {
        self.duration.with(&[method, code]).observe(took.as_secs_f64());
    }
}
