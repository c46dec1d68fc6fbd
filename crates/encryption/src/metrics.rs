//! Metrics of encryption, with the reference's names.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kevel_api::time::Time;
use kevel_clock::{Clock, Stopwatch, monotonic_now};
use kevel_server::metrics::{Counter, Description, Family, FloatGauge, Gauge, Histogram, Metrics};

use crate::transformer::TransformError;

/// Maximum number of key IDs in labels; the least recently used is removed.
const KEY_IDS: usize = 100;

const TRANSFORMATION_SECONDS: &[f64] = &exponential::<25>(5e-6);
const GENERATION_SECONDS: &[f64] = &exponential::<14>(5e-6);
const OPERATION_SECONDS: &[f64] = &exponential::<20>(1e-4);
const INTER_ARRIVAL_SECONDS: &[f64] = &exponential::<10>(60.0);

/// Bounds of which each is twice the one before.
const fn exponential<const N: usize>(first: f64) -> [f64; N] {
    let mut bounds = [first; N];
    let mut place = 1;
    while place < N {
        bounds[place] = bounds[place - 1] * 2.0;
        place += 1;
    }
    bounds
}

/// Metrics of encryption.
#[derive(Debug)]
pub struct EncryptionMetrics {
    clock: Clock,
    duration: Arc<Family<Histogram>>,
    operations: Arc<Family<Counter>>,
    cache_misses: Arc<Family<Counter>>,
    dek_cache_fill: Arc<Family<FloatGauge>>,
    inter_arrival: Arc<Family<Histogram>>,
    /// Time of the last value, by transformation type.
    arrivals: Mutex<HashMap<&'static str, Instant>>,
    generation: Arc<Family<Histogram>>,
    generation_failures: Arc<Family<Counter>>,
    dek_sources: Arc<Family<Gauge>>,
    key_ids: KeyIds,
    key_id_uses: Arc<Family<Counter>>,
    key_id_last: Arc<Family<Gauge>>,
    status_key_ids: KeyIds,
    status_key_id_last: Arc<Family<Gauge>>,
    invalid_key_ids: Arc<Family<Counter>>,
    plugin_latency: Arc<Family<Histogram>>,
}

/// Labels of key IDs, the least recently used first.
#[derive(Debug, Default)]
struct KeyIds(Mutex<VecDeque<Vec<String>>>);

impl KeyIds {
    /// Records a use of labels; returns the labels that are removed for it.
    fn note(&self, labels: &[&str]) -> Option<Vec<String>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Almost always the last one.
        if let Some(place) = known.iter().rposition(|known| known == labels) {
            let found = known.remove(place)?;
            known.push_back(found);
            return None;
        }
        known.push_back(labels.iter().map(|label| (*label).to_owned()).collect());
        if known.len() > KEY_IDS { known.pop_front() } else { None }
    }
}

impl EncryptionMetrics {
    /// Registers the metrics.
    pub fn new(metrics: &Metrics) -> Self {
        const USE: &[&str] =
            &["transformation_type", "provider_name", "key_id_hash", "apiserver_id_hash"];
        let describe = |name, help, labels| Description { name, help, labels };
        let cache_misses = metrics.counter(describe(
            "apiserver_storage_envelope_transformation_cache_misses_total",
            "[ALPHA] Keys that were not cached and were decrypted by a KMS plug-in.",
            &[],
        ));
        cache_misses.with(&[]);
        let generation = metrics.histogram(
            describe(
                "apiserver_storage_data_key_generation_duration_seconds",
                "[ALPHA] Seconds that the making of keys for data took.",
                &[],
            ),
            GENERATION_SECONDS,
        );
        generation.with(&[]);
        let generation_failures = metrics.counter(describe(
            "apiserver_storage_data_key_generation_failures_total",
            "[ALPHA] Keys for data that could not be made.",
            &[],
        ));
        generation_failures.with(&[]);
        // Dashboards expect it at zero without KMS v1.
        let dek_cache_fill = metrics.family(
            describe(
                "apiserver_envelope_encryption_dek_cache_fill_percent",
                "[ALPHA] Fill level of the cache of data keys (KMS v1).",
                &[],
            ),
            FloatGauge::default,
        );
        dek_cache_fill.with(&[]).set(0.0);
        EncryptionMetrics {
            clock: metrics.clock.clone(),
            duration: metrics.histogram(
                describe(
                    "apiserver_storage_transformation_duration_seconds",
                    "[ALPHA] Seconds that values took to be encrypted or decrypted.",
                    &["transformation_type", "transformer_prefix"],
                ),
                TRANSFORMATION_SECONDS,
            ),
            operations: metrics.counter(describe(
                "apiserver_storage_transformation_operations_total",
                "[ALPHA] Encrypted and decrypted values, by result.",
                &["resource", "transformation_type", "transformer_prefix", "status"],
            )),
            cache_misses,
            dek_cache_fill,
            inter_arrival: metrics.histogram(
                describe(
                    "apiserver_envelope_encryption_dek_cache_inter_arrival_time_seconds",
                    "[ALPHA] Seconds between one value and the next (KMS v1).",
                    &["transformation_type"],
                ),
                INTER_ARRIVAL_SECONDS,
            ),
            arrivals: Mutex::default(),
            generation,
            generation_failures,
            dek_sources: metrics.gauge(describe(
                "apiserver_envelope_encryption_dek_source_cache_size",
                "[ALPHA] Decrypted keys in the cache.",
                &["provider_name"],
            )),
            key_ids: KeyIds::default(),
            key_id_uses: metrics.counter(describe(
                "apiserver_envelope_encryption_key_id_hash_total",
                "[ALPHA] Values by the ID of their key.",
                USE,
            )),
            key_id_last: metrics.gauge(describe(
                "apiserver_envelope_encryption_key_id_hash_last_timestamp_seconds",
                "[ALPHA] Time of the last use of a key ID.",
                USE,
            )),
            status_key_ids: KeyIds::default(),
            status_key_id_last: metrics.gauge(describe(
                "apiserver_envelope_encryption_key_id_hash_status_last_timestamp_seconds",
                "[ALPHA] Time of the last status with the key ID from a KMS plug-in.",
                &["provider_name", "key_id_hash", "apiserver_id_hash"],
            )),
            invalid_key_ids: metrics.counter(describe(
                "apiserver_envelope_encryption_invalid_key_id_from_status_total",
                "[ALPHA] Invalid key IDs from a KMS plug-in.",
                &["provider_name", "error"],
            )),
            plugin_latency: metrics.histogram(
                describe(
                    "apiserver_envelope_encryption_kms_operations_latency_seconds",
                    "[ALPHA] Seconds that calls of plug-ins took, by code.",
                    &["provider_name", "method_name", "grpc_status_code"],
                ),
                OPERATION_SECONDS,
            ),
        }
    }

    pub(crate) fn written(
        &self,
        resource: &str,
        prefix: &str,
        started: Stopwatch,
        error: Option<&TransformError>,
    ) {
        self.transformed(resource, "to_storage", prefix, started, error);
    }

    pub(crate) fn read(
        &self,
        resource: &str,
        prefix: &str,
        started: Stopwatch,
        error: Option<&TransformError>,
    ) {
        self.transformed(resource, "from_storage", prefix, started, error);
    }

    fn transformed(
        &self,
        resource: &str,
        what: &str,
        prefix: &str,
        started: Stopwatch,
        error: Option<&TransformError>,
    ) {
        let code = error.map_or("OK", TransformError::code);
        self.operations.with(&[resource, what, prefix, code]).increment();
        if error.is_none() {
            self.duration.with(&[what, prefix]).observe(started.elapsed().as_secs_f64());
        }
    }

    /// Counts a transformation with a v1 plug-in.
    pub(crate) fn arrived(&self, what: &'static str) {
        let now = monotonic_now();
        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        let last = arrivals.insert(what, now).unwrap_or(now);
        self.inter_arrival.with(&[what]).observe((now - last).as_secs_f64());
    }

    /// Sets the fill ratio of the key cache (v1).
    pub(crate) fn dek_cache_filled(&self, count: usize, size: usize) {
        self.dek_cache_fill.with(&[]).set(count as f64 / size as f64);
    }

    pub(crate) fn missed(&self) {
        self.cache_misses.with(&[]).increment();
    }

    pub(crate) fn generated(&self, took: Option<Duration>) {
        match took {
            Some(took) => self.generation.with(&[]).observe(took.as_secs_f64()),
            None => self.generation_failures.with(&[]).increment(),
        }
    }

    pub(crate) fn dek_sources(&self, provider: &str, count: usize) {
        self.dek_sources.with(&[provider]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts a transformation with a key ID.
    pub(crate) fn used_key(&self, what: &str, provider: &str, key_id: &str, server: &str) {
        let labels = [what, provider, key_id, server];
        if let Some(old) = self.key_ids.note(&labels) {
            let old: Vec<&str> = old.iter().map(String::as_str).collect();
            self.key_id_uses.remove(&old);
            self.key_id_last.remove(&old);
        }
        self.key_id_uses.with(&labels).increment();
        self.key_id_last.with(&labels).set(Time::now(&self.clock).seconds);
    }

    /// Records a key ID of a plug-in's status.
    pub(crate) fn told_key(&self, provider: &str, key_id: &str, server: &str) {
        let labels = [provider, key_id, server];
        if let Some(old) = self.status_key_ids.note(&labels) {
            let old: Vec<&str> = old.iter().map(String::as_str).collect();
            self.status_key_id_last.remove(&old);
        }
        self.status_key_id_last.with(&labels).set(Time::now(&self.clock).seconds);
    }

    pub(crate) fn told_invalid_key(&self, provider: &str, why: &str) {
        self.invalid_key_ids.with(&[provider, why]).increment();
    }

    pub(crate) fn called(&self, provider: &str, method: &str, code: &str, took: Duration) {
        self.plugin_latency.with(&[provider, method, code]).observe(took.as_secs_f64());
    }
}
