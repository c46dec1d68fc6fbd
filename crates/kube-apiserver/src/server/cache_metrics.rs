//! Metrics of the watch caches and of what they read from the store, by the reference's names.

use std::sync::Arc;

use kevel_registry::backends::{Backend, Backends};
use kevel_server::metrics::{Counter, Description, Family, Histogram, Metrics};
use kevel_store::cache::{CacheMetrics, ConsistentReads, READ_WAIT_SECONDS};
use kevel_store::etcd::LEASE_OBJECTS;

use super::storage::group_resource;
use crate::options::{CompletedOptions, StorageKind};

const RESOURCE: &[&str] = &["group", "resource"];
const INDEX: &[&str] = &["group", "resource", "index"];
/// Lists use no index: objects are sorted by namespace and name, which is the index of the reference without a name.
const NO_INDEX: &str = "";

/// CacheFamilies of all caches.
struct CacheFamilies {
    initializations: Arc<Family<Counter>>,
    storage_events: Arc<Family<Counter>>,
    events_received: Arc<Family<Counter>>,
    events_dispatched: Arc<Family<Counter>>,
    read_wait: Arc<Family<Histogram>>,
    lists: Arc<Family<Counter>>,
    list_fetched: Arc<Family<Counter>>,
    list_returned: Arc<Family<Counter>>,
    storage_lists: Arc<Family<Counter>>,
    storage_fetched: Arc<Family<Counter>>,
    storage_evaluated: Arc<Family<Counter>>,
    storage_returned: Arc<Family<Counter>>,
    consistent_reads: Arc<Family<Counter>>,
}

impl CacheFamilies {
    fn new(metrics: &Metrics) -> Self {
        let counter = |name, help, labels| metrics.counter(Description { name, help, labels });
        CacheFamilies {
            initializations: counter(
                "apiserver_watch_cache_initializations_total",
                "[ALPHA] Loads of the watch cache, by resource.",
                RESOURCE,
            ),
            storage_events: counter(
                "apiserver_storage_events_received_total",
                "[BETA] Events of the store's watch, by resource.",
                RESOURCE,
            ),
            events_received: counter(
                "apiserver_watch_cache_events_received_total",
                "[ALPHA] Events that the watch cache has taken in, by resource.",
                RESOURCE,
            ),
            events_dispatched: counter(
                "apiserver_watch_cache_events_dispatched_total",
                "[ALPHA] Events that were passed to watchers, by resource.",
                RESOURCE,
            ),
            read_wait: metrics.histogram(
                Description {
                    name: "apiserver_watch_cache_read_wait_seconds",
                    help: "[ALPHA] Seconds that reads waited for the cache, by resource.",
                    labels: RESOURCE,
                },
                READ_WAIT_SECONDS,
            ),
            lists: counter(
                "apiserver_cache_list_total",
                "[ALPHA] Lists from the watch cache, by resource and index.",
                INDEX,
            ),
            list_fetched: counter(
                "apiserver_cache_list_fetched_objects_total",
                "[ALPHA] Objects that lists from the watch cache looked at.",
                INDEX,
            ),
            list_returned: counter(
                "apiserver_cache_list_returned_objects_total",
                "[ALPHA] Objects that lists from the watch cache returned.",
                RESOURCE,
            ),
            storage_lists: counter(
                "apiserver_storage_list_total",
                "[ALPHA] Lists from the store, by resource.",
                RESOURCE,
            ),
            storage_fetched: counter(
                "apiserver_storage_list_fetched_objects_total",
                "[ALPHA] Objects that lists from the store read.",
                RESOURCE,
            ),
            storage_evaluated: counter(
                "apiserver_storage_list_evaluated_objects_total",
                "[ALPHA] Objects that lists from the store looked at.",
                RESOURCE,
            ),
            storage_returned: counter(
                "apiserver_storage_list_returned_objects_total",
                "[ALPHA] Objects that lists from the store returned.",
                RESOURCE,
            ),
            consistent_reads: counter(
                "apiserver_watch_cache_consistent_read_total",
                "[ALPHA] Consistent lists, by resource, success, and whether they went to the store.",
                &["group", "resource", "success", "fallback"],
            ),
        }
    }

    fn of(&self, group: &str, resource: &str) -> CacheMetrics {
        let labels = [group, resource];
        let indexed = [group, resource, NO_INDEX];
        let consistent =
            |success, fallback| self.consistent_reads.with(&[group, resource, success, fallback]);
        CacheMetrics {
            initializations: self.initializations.with(&labels),
            storage_events: self.storage_events.with(&labels),
            events_received: self.events_received.with(&labels),
            events_dispatched: self.events_dispatched.with(&labels),
            read_wait: self.read_wait.with(&labels),
            lists: self.lists.with(&indexed),
            list_fetched: self.list_fetched.with(&indexed),
            list_returned: self.list_returned.with(&labels),
            storage_lists: self.storage_lists.with(&labels),
            storage_fetched: self.storage_fetched.with(&labels),
            storage_evaluated: self.storage_evaluated.with(&labels),
            storage_returned: self.storage_returned.with(&labels),
            consistent_reads: ConsistentReads {
                cached: consistent("true", "false"),
                fallback: consistent("true", "true"),
                failed: consistent("false", "false"),
            },
        }
    }
}

/// Measures the caches of all stores. To be called before resources are added.
pub fn measure(backends: &Backends, options: &CompletedOptions, metrics: &Metrics) {
    let families = Arc::new(CacheFamilies::new(metrics));
    let bookmarks = (options.storage == StorageKind::Etcd).then(|| etcd_only(metrics));
    for Backend { caches, .. } in backends.all() {
        let (root, families) = (options.flags.etcd.etcd_prefix.clone(), families.clone());
        let bookmarks = bookmarks.clone().map(|family| (family, caches.bookmarks()));
        caches.measure(move |prefix| {
            let (group, resource) = group_resource(&root, prefix);
            // One watch serves all resources: its bookmarks are those of each.
            if let Some((family, count)) = &bookmarks {
                family.insert(&[group, resource], count.clone());
            }
            families.of(group, resource)
        });
    }
}

/// Registers what only etcd has; returns the counter of bookmarks.
fn etcd_only(metrics: &Metrics) -> Arc<Family<Counter>> {
    let leases = metrics.family(
        Description {
            name: "etcd_lease_object_counts",
            help: "[ALPHA] Keys that were attached to a lease.",
            labels: &[],
        },
        || Histogram::new(&[]),
    );
    leases.insert(&[], LEASE_OBJECTS.clone());
    metrics.counter(Description {
        name: "etcd_bookmark_total",
        help: "[ALPHA] Reports of progress from etcd, by resource.",
        labels: RESOURCE,
    })
}
