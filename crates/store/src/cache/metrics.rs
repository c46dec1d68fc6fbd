//! Metrics of the caches.

use std::sync::{Arc, OnceLock};

use kevel_clock::Stopwatch;
use kevel_component::metrics::{Counter, Histogram};

use super::Caches;

/// Bounds of [`CacheMetrics::read_wait`], in seconds.
pub const READ_WAIT_SECONDS: &[f64] =
    &[0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0];

/// Metrics of the cache of one resource, made before it is used: counting looks nothing up.
#[derive(Clone, Debug)]
pub struct CacheMetrics {
    /// Loads that the cache has shown.
    pub initializations: Arc<Counter>,
    /// Events of the engine's watch.
    pub storage_events: Arc<Counter>,
    /// Events that the cache has taken in.
    pub events_received: Arc<Counter>,
    /// Events that were passed to watchers.
    pub events_dispatched: Arc<Counter>,
    /// Seconds that reads waited for their revision.
    pub read_wait: Arc<Histogram>,
    /// Lists from the cache.
    pub lists: Arc<Counter>,
    /// Objects that such lists looked at.
    pub list_fetched: Arc<Counter>,
    /// Objects that such lists returned.
    pub list_returned: Arc<Counter>,
    /// Reads of all objects from the engine.
    pub storage_lists: Arc<Counter>,
    /// Objects that such reads got.
    pub storage_fetched: Arc<Counter>,
    /// Objects among them that were looked at.
    pub storage_evaluated: Arc<Counter>,
    /// Objects among them that were kept.
    pub storage_returned: Arc<Counter>,
    /// Consistent lists.
    pub consistent_reads: ConsistentReads,
}

/// Counters of consistent lists by outcome.
#[derive(Clone, Debug, Default)]
pub struct ConsistentReads {
    /// Answered by the cache.
    pub cached: Arc<Counter>,
    /// Answered by the engine, since the cache was behind.
    pub fallback: Arc<Counter>,
    /// Failed.
    pub failed: Arc<Counter>,
}

impl Default for CacheMetrics {
    fn default() -> Self {
        CacheMetrics {
            initializations: Arc::default(),
            storage_events: Arc::default(),
            events_received: Arc::default(),
            events_dispatched: Arc::default(),
            read_wait: Arc::new(Histogram::new(READ_WAIT_SECONDS)),
            lists: Arc::default(),
            list_fetched: Arc::default(),
            list_returned: Arc::default(),
            storage_lists: Arc::default(),
            storage_fetched: Arc::default(),
            storage_evaluated: Arc::default(),
            storage_returned: Arc::default(),
            consistent_reads: ConsistentReads::default(),
        }
    }
}

impl CacheMetrics {
    /// Counts a list from the cache.
    pub fn count_list(&self, fetched: usize, returned: usize) {
        self.lists.increment();
        self.list_fetched.add(fetched as u64);
        self.list_returned.add(returned as u64);
    }

    /// Counts a read of all objects from the engine.
    pub(super) fn count_load(&self, fetched: usize, kept: usize) {
        self.storage_lists.increment();
        self.storage_fetched.add(fetched as u64);
        self.storage_evaluated.add(fetched as u64);
        self.storage_returned.add(kept as u64);
    }
}

type MakeMetrics = Box<dyn Fn(&str) -> CacheMetrics + Send + Sync>;

/// Maker of a cache's metrics, by the resource's prefix.
#[derive(Default)]
pub(super) struct MetricsOfCaches(OnceLock<MakeMetrics>);

impl MetricsOfCaches {
    /// Sets the maker. Only the first call has an effect.
    pub fn set(&self, make: impl Fn(&str) -> CacheMetrics + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(make));
    }

    /// Metrics of a new cache.
    pub fn of(&self, prefix: &str) -> CacheMetrics {
        self.0.get().map(|make| make(prefix)).unwrap_or_default()
    }
}

/// Records the time of a wait when it ends.
pub(super) struct Waited<'a>(pub &'a Histogram, pub Stopwatch);

impl Drop for Waited<'_> {
    fn drop(&mut self) {
        self.0.observe_seconds(self.1.elapsed());
    }
}

impl Caches {
    /// Sets the maker of the caches' metrics, by the resource's prefix. To be called before resources are added.
    pub fn measure(&self, make: impl Fn(&str) -> CacheMetrics + Send + Sync + 'static) {
        self.metrics.set(make);
    }

    /// Number of reports of progress without events.
    pub fn bookmarks(&self) -> Arc<Counter> {
        self.bookmarks.clone()
    }
}
