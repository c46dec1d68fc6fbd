//! Metrics of JWT authenticators, with the reference's names.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kevel_api::time::Time;
use kevel_clock::Clock;
use kevel_server::metrics::{Description, Family, Gauge, Histogram, Metrics};

use kevel_server::config_file::{Reloads, sha256};

const SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Metrics of a server's JWT authenticators.
#[derive(Debug)]
pub struct JwtMetrics {
    latency: Arc<Family<Histogram>>,
    last_fetch: Arc<Family<Gauge>>,
    last_keys: Arc<Family<Gauge>>,
    /// Hash of the published keys, by hash of the issuer.
    keys: Mutex<BTreeMap<String, String>>,
    /// Reloads of the configuration file.
    pub(super) reloads: Reloads,
    /// Hash of the server's ID.
    server: String,
    pub(super) clock: Clock,
    key_sets: bool,
}

impl JwtMetrics {
    /// Registers the metrics of a server with this ID.
    /// `key_sets`: fetches of key sets are measured (`StructuredAuthenticationConfigurationJWKSMetrics`).
    pub fn new(metrics: &Metrics, server_id: &str, key_sets: bool) -> Self {
        let describe = |name, help, labels| Description { name, help, labels };
        JwtMetrics {
            latency: metrics.histogram(
                describe(
                    "apiserver_authentication_jwt_authenticator_latency_seconds",
                    "[ALPHA] Seconds of verifying a token that was not cached.",
                    &["result", "jwt_issuer_hash"],
                ),
                SECONDS,
            ),
            last_fetch: metrics.gauge(describe(
                "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds",
                "[ALPHA] Time of the last fetch of an issuer's keys, by result.",
                &["result", "jwt_issuer_hash", "apiserver_id_hash"],
            )),
            last_keys: metrics.gauge(describe(
                "apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info",
                "[ALPHA] Hash of the issuer's keys that were fetched last.",
                &["jwt_issuer_hash", "apiserver_id_hash", "hash"],
            )),
            keys: Mutex::default(),
            reloads: Reloads::authentication(metrics, server_id),
            server: sha256(server_id.as_bytes()),
            clock: metrics.clock.clone(),
            key_sets,
        }
    }

    /// Removes the metrics of an issuer that is no longer configured.
    pub(super) fn forget(&self, issuer: &str) {
        let issuer = sha256(issuer.as_bytes());
        for result in ["success", "failure"] {
            self.last_fetch.remove(&[result, &issuer, &self.server]);
        }
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hash) = keys.remove(&issuer) {
            self.last_keys.remove(&[&issuer, &self.server, &hash]);
        }
    }
}

/// Metrics of one issuer.
#[derive(Clone, Debug)]
pub(super) struct IssuerMetrics {
    metrics: Arc<JwtMetrics>,
    /// Hash of the issuer's URL.
    issuer: String,
}

impl IssuerMetrics {
    pub fn new(metrics: &Arc<JwtMetrics>, url: &str) -> Self {
        IssuerMetrics { metrics: metrics.clone(), issuer: sha256(url.as_bytes()) }
    }

    /// Records the authentication of a token.
    pub fn looked(&self, success: bool, took: Duration) {
        let latency = self.metrics.latency.with(&[result(success), &self.issuer]);
        latency.observe(took.as_secs_f64());
    }

    /// Records a fetch of the key set; `None` if it failed.
    pub fn fetched(&self, set: Option<&[u8]>) {
        let IssuerMetrics { metrics, issuer } = self;
        if !metrics.key_sets {
            return;
        }
        let (server, now) = (metrics.server.as_str(), Time::now(&metrics.clock).seconds);
        metrics.last_fetch.with(&[result(set.is_some()), issuer, server]).set(now);
        let Some(hash) = set.map(sha256) else { return };
        let mut keys = metrics.keys.lock().unwrap_or_else(PoisonError::into_inner);
        metrics.last_keys.with(&[issuer, server, &hash]).set(1);
        let before = keys.insert(issuer.clone(), hash.clone());
        if let Some(before) = before.filter(|before| *before != hash) {
            metrics.last_keys.remove(&[issuer, server, &before]);
        }
    }
}

fn result(success: bool) -> &'static str {
    if success { "success" } else { "failure" }
}
