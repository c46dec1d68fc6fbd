//! Metrics of manifest folders, with the names of the reference.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kevel_api::time::Time;
use kevel_clock::Clock;
use kevel_server::config_file::sha256;
use kevel_server::metrics::{Counter, Description, Family, Gauge, Metrics};

/// Reloads of the manifest folders of all plug-ins. Without a folder they have no series.
#[derive(Clone, Debug)]
pub struct ManifestMetrics {
    total: Arc<Family<Counter>>,
    last: Arc<Family<Gauge>>,
    info: Arc<Family<Gauge>>,
    /// Hash of the server's ID.
    server: String,
    /// Time of the server.
    pub(super) clock: Clock,
    /// Hash of the content in force, by plug-in.
    hashes: Arc<Mutex<HashMap<&'static str, String>>>,
}

impl ManifestMetrics {
    /// Registers the metrics: once per server.
    pub fn new(metrics: &Metrics, server_id: &str) -> Self {
        const STATUS: &[&str] = &["status", "plugin", "apiserver_id_hash"];
        ManifestMetrics {
            total: metrics.counter(Description {
                name: "apiserver_manifest_admission_config_controller_automatic_reloads_total",
                help: "[ALPHA] Loads of admission manifests that succeeded or failed, by plug-in.",
                labels: STATUS,
            }),
            last: metrics.gauge(Description {
                name: "apiserver_manifest_admission_config_controller_automatic_reload_last_timestamp_seconds",
                help: "[ALPHA] Time of the last load of admission manifests that succeeded or failed, by plug-in.",
                labels: STATUS,
            }),
            info: metrics.gauge(Description {
                name: "apiserver_manifest_admission_config_controller_last_config_info",
                help: "[ALPHA] Hash of the admission manifests in effect, by plug-in.",
                labels: &["plugin", "apiserver_id_hash", "hash"],
            }),
            server: sha256(server_id.as_bytes()),
            clock: metrics.clock.clone(),
            hashes: Arc::default(),
        }
    }

    /// Records that content with this hash is in force.
    pub(super) fn succeeded(&self, plugin: &'static str, hash: &str) {
        self.record("success", plugin);
        let mut hashes = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = hashes.insert(plugin, hash.to_owned()) {
            self.info.remove(&[plugin, &self.server, &before]);
        }
        self.info.with(&[plugin, &self.server, hash]).set(1);
    }

    /// Records that a folder was refused.
    pub(super) fn failed(&self, plugin: &'static str) {
        self.record("failure", plugin);
    }

    fn record(&self, status: &str, plugin: &str) {
        let labels = [status, plugin, &self.server];
        self.total.with(&labels).increment();
        self.last.with(&labels).set(Time::now(&self.clock).seconds);
    }
}
