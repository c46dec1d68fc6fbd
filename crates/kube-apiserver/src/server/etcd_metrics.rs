//! Metrics of etcd: its size, and how long requests to it take.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use kevel_clock::Stopwatch;
use kevel_compute::Metered;
use kevel_server::metrics::{Counter, Description, Family, Gauge, Histogram, Metrics};
use kevel_store::etcd::Etcd;
use kevel_store::{
    Engine, GetResponse, Pending, RangeOptions, RangeResponse, Result, Revision, Watch, keys,
};

use super::storage::group_resource;

/// Interval at which the size is read. The reference reads it at every scrape, which waits for etcd then.
const SIZE_INTERVAL: Duration = Duration::from_secs(30);

const SECONDS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];
const LABELS: &[&str] = &["operation", "group", "resource"];

/// Metrics of all etcd clusters of a server.
pub struct EtcdMetrics {
    seconds: Arc<Family<Histogram>>,
    requests: Arc<Family<Counter>>,
    errors: Arc<Family<Counter>>,
    size: Arc<Family<Gauge>>,
}

impl EtcdMetrics {
    pub fn new(metrics: &Metrics) -> Self {
        EtcdMetrics {
            seconds: metrics.histogram(
                Description {
                    name: "etcd_request_duration_seconds",
                    help: "[ALPHA] Seconds that requests to etcd took, by operation and resource.",
                    labels: LABELS,
                },
                SECONDS,
            ),
            requests: metrics.counter(Description {
                name: "etcd_requests_total",
                help: "[ALPHA] Requests to etcd, by operation and resource.",
                labels: LABELS,
            }),
            errors: metrics.counter(Description {
                name: "etcd_request_errors_total",
                help: "[ALPHA] Failed requests to etcd, by operation and resource.",
                labels: LABELS,
            }),
            size: metrics.gauge(Description {
                name: "apiserver_storage_size_bytes",
                help: "[STABLE] Bytes that the database file of the storage takes.",
                labels: &["storage_cluster_id"],
            }),
        }
    }

    /// The engine of a cluster, measured. Clusters are numbered in the order of their flags.
    pub async fn measure(&self, etcd: Etcd, number: usize, prefix: &str) -> Arc<dyn Engine> {
        let etcd = Arc::new(etcd);
        let size = self.size.with(&[&format!("etcd-{number}")]);
        read_size(&etcd, &size).await;
        let follow = follow_size(Arc::downgrade(&etcd), size);
        tokio::spawn(Metered::task(Box::pin(follow), "etcd-size"));
        Arc::new(Measured {
            inner: etcd,
            root: prefix.to_owned(),
            seconds: self.seconds.clone(),
            requests: self.requests.clone(),
            errors: self.errors.clone(),
            series: RwLock::default(),
        })
    }
}

async fn read_size(etcd: &Etcd, size: &Gauge) {
    match etcd.db_size().await {
        Ok(bytes) => size.set(bytes),
        Err(error) => tracing::info!(%error, "failed to get storage metrics"),
    }
}

async fn follow_size(etcd: Weak<Etcd>, size: Arc<Gauge>) {
    loop {
        tokio::time::sleep(SIZE_INTERVAL).await;
        let Some(etcd) = etcd.upgrade() else { return };
        read_size(&etcd, &size).await;
    }
}

/// Metrics of one operation on one resource.
struct RequestSeries {
    seconds: Arc<Histogram>,
    requests: Arc<Counter>,
    errors: Arc<Counter>,
}

/// An etcd whose requests are measured.
struct Measured {
    inner: Arc<Etcd>,
    /// `--etcd-prefix`
    root: String,
    seconds: Arc<Family<Histogram>>,
    requests: Arc<Family<Counter>>,
    errors: Arc<Family<Counter>>,
    /// Histograms by operation and resource.
    series: RwLock<HashMap<(&'static str, String), Arc<RequestSeries>>>,
}

impl Measured {
    async fn timed<T>(
        &self,
        operation: &'static str,
        key: &[u8],
        request: Pending<'_, Result<T>>,
    ) -> Result<T> {
        let start = Stopwatch::start();
        let outcome = request.await;
        let series = self.series(operation, &String::from_utf8_lossy(key));
        series.seconds.observe(start.elapsed().as_secs_f64());
        series.requests.increment();
        if outcome.is_err() {
            series.errors.increment();
        }
        outcome
    }

    fn series(&self, operation: &'static str, key: &str) -> Arc<RequestSeries> {
        let place = (operation, stored_below(&keys::root(&self.root), key).to_owned());
        let known = self.series.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(series) = known.get(&place) {
            return series.clone();
        }
        drop(known);
        let (group, resource) = group_resource(&self.root, &place.1);
        let labels = [operation, group, resource];
        let series = Arc::new(RequestSeries {
            seconds: self.seconds.with(&labels),
            requests: self.requests.with(&labels),
            errors: self.errors.with(&labels),
        });
        let mut known = self.series.write().unwrap_or_else(PoisonError::into_inner);
        known.entry(place).or_insert(series).clone()
    }
}

/// The prefix of a key that names its resource: `/registry/pods/`, `/registry/example.com/widgets/`. Groups have dots
/// in their names; of built-in resources, only Services and Endpoints have two parts without.
fn stored_below<'k>(root: &str, key: &'k str) -> &'k str {
    let below = key.strip_prefix(root).unwrap_or(key);
    let first = below.split('/').next().unwrap_or_default();
    let parts = if first.contains('.') || first == "services" { 2 } else { 1 };
    let ends = below.match_indices('/').map(|(at, _)| at + 1);
    let end = ends.take(parts).last().unwrap_or(below.len());
    &key[..key.len() - below.len() + end]
}

impl Engine for Measured {
    fn get<'a>(
        &'a self,
        key: &'a [u8],
        revision: Option<Revision>,
    ) -> Pending<'a, Result<GetResponse>> {
        Box::pin(self.timed("get", key, self.inner.get(key, revision)))
    }

    fn range<'a>(
        &'a self,
        prefix: &'a [u8],
        options: RangeOptions,
    ) -> Pending<'a, Result<RangeResponse>> {
        Box::pin(self.timed("list", prefix, self.inner.range(prefix, options)))
    }

    fn count<'a>(&'a self, prefix: &'a [u8]) -> Pending<'a, Result<u64>> {
        Box::pin(self.timed("count", prefix, self.inner.count(prefix)))
    }

    fn create<'a>(
        &'a self,
        key: &'a [u8],
        value: Bytes,
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<Revision>> {
        Box::pin(self.timed("create", key, self.inner.create(key, value, ttl)))
    }

    fn update<'a>(
        &'a self,
        key: &'a [u8],
        value: Bytes,
        expected: Revision,
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<Revision>> {
        Box::pin(self.timed("update", key, self.inner.update(key, value, expected, ttl)))
    }

    fn is_stale<'a>(&'a self, key: &'a [u8]) -> Pending<'a, Result<bool>> {
        self.inner.is_stale(key)
    }

    fn delete<'a>(&'a self, key: &'a [u8], expected: Revision) -> Pending<'a, Result<Revision>> {
        Box::pin(self.timed("delete", key, self.inner.delete(key, expected)))
    }

    fn watch<'a>(&'a self, prefix: &'a [u8], after: Revision) -> Pending<'a, Result<Watch>> {
        self.inner.watch(prefix, after)
    }

    fn current_revision(&self) -> Pending<'_, Result<Revision>> {
        self.inner.current_revision()
    }

    fn reports_progress(&self) -> bool {
        self.inner.reports_progress()
    }

    fn compacted_revision(&self) -> Revision {
        self.inner.compacted_revision()
    }

    fn compact(&self, revision: Revision) -> Pending<'_, Result<()>> {
        self.inner.compact(revision)
    }

    fn health(&self) -> Pending<'_, Result<()>> {
        self.inner.health()
    }

    fn close(&self) -> Pending<'_, ()> {
        self.inner.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_their_resource() {
        for (key, expected) in [
            ("/registry/pods/default/a", ("", "pods")),
            ("/registry/pods/", ("", "pods")),
            ("/registry/services/specs/default/a", ("", "services")),
            ("/registry/services/endpoints/default/a", ("", "endpoints")),
            ("/registry/minions/a", ("", "nodes")),
            ("/registry/example.com/widgets/default/a", ("example.com", "widgets")),
            (
                "/registry/apiextensions.k8s.io/customresourcedefinitions/a.b",
                ("apiextensions.k8s.io", "customresourcedefinitions"),
            ),
            ("/registry/deployments/default/a", ("apps", "deployments")),
        ] {
            let prefix = stored_below(&keys::root("/registry"), key);
            assert_eq!(group_resource("/registry", prefix), expected, "{key}");
        }
    }
}
