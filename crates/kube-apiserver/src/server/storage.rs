//! The stores that the options ask for.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kevel_api::gvk::GroupResource;
use kevel_controlplane::StorageOptions;
use kevel_features::Feature;
use kevel_registry::backends::{Backend, Backends, Override};
use kevel_registry::resource::Resources;
use kevel_registry::storage::{Format, RegistryFlags, RegistryOptions, Storage};
use kevel_server::egress::{EgressSelector, EgressType};
use kevel_server::metrics::{Description, Metrics};
use kevel_store::Engine;
use kevel_store::cache::LOG_MAX_EVENTS;
use kevel_store::embedded::{self, Embedded, StoreMetrics};
use kevel_store::etcd::{self, Etcd};
use kevel_store::keys;

use super::etcd_metrics::EtcdMetrics;
use super::etcd_wait::{self, EtcdAway};
use super::own_metrics;
use super::stand_in::{StandIn, StandInError};
use crate::options::{CompletedOptions, StorageKind};

/// Encoding of built-in kinds in the store.
pub fn storage_options(options: &CompletedOptions) -> StorageOptions {
    let flags = &options.flags;
    // etcd holds what the reference would write there. The embedded store holds what is sent to
    // clients, so that nothing is decoded on the way.
    let json =
        options.storage != StorageKind::Etcd || flags.etcd.storage_media_type == "application/json";
    let format = if json { Format::Json } else { Format::Protobuf };
    let event_ttl = positive(flags.misc.event_ttl.0);
    let registry = registry_flags(options);
    StorageOptions {
        prefix: flags.etcd.etcd_prefix.clone(),
        format,
        event_ttl,
        registry,
        min_compatibility: options.effective_version.min_compatibility,
    }
}

/// Storage flags that apply to every resource.
fn registry_flags(options: &CompletedOptions) -> RegistryFlags {
    let flags = &options.flags.etcd;
    let sizes = options.watch_cache_sizes.iter();
    let uncached = sizes.filter(|(_, size)| **size <= 0).map(|(resource, _)| resource.clone());
    RegistryFlags {
        most: RegistryOptions {
            garbage_collection: flags.enable_garbage_collector,
            watch_cache: flags.watch_cache,
            delete_collection_workers: usize::try_from(flags.delete_collection_workers)
                .unwrap_or(1)
                .max(1),
            unsafe_deletion: options
                .feature_gates
                .enabled(Feature::AllowUnsafeMalformedObjectDeletion),
            clock: options.clock.clone(),
        },
        uncached: Arc::new(uncached.collect()),
    }
}

/// Opens the stores; `over` wraps each engine, such as with encryption.
pub async fn open(
    options: &CompletedOptions,
    stand_in: Option<&StandIn>,
    egress: &EgressSelector,
    metrics: &Metrics,
    over: impl Fn(Arc<dyn Engine>) -> Arc<dyn Engine>,
) -> Result<Backends, OpenError> {
    let etcd = &options.flags.etcd;
    let prefix = keys::root(&etcd.etcd_prefix);
    let own = embedded_options(options, metrics);
    let metrics = EtcdMetrics::new(metrics);
    let default = match stand_in {
        Some(stand_in) => stand_in.open(own)?,
        None => open_default(options, own, egress, &metrics).await?,
    };
    let mut backends = Backends::new(Backend::new(over(default), &prefix));
    let overrides = etcd.overrides().into_iter().enumerate();
    for (at, (servers, resources)) in overrides {
        let interval = positive(etcd.etcd_compaction_interval.0);
        let flag = "--etcd-servers-overrides";
        let connected = connect(flag, options, etcd_options(options, egress, servers, interval));
        let engine = metrics.measure(connected.await?, at + 1, &etcd.etcd_prefix).await;
        let backend = Backend::new(over(engine), &prefix);
        backends.overrides.push(Override { resources, backend });
    }
    Ok(backends)
}

/// Reason why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store of a stand-in for etcd cannot be opened.
    #[error("--etcd-servers: {0}")]
    StandIn(#[from] StandInError),
    /// The store in memory cannot be made.
    #[error("--storage=memory: {0}")]
    Memory(kevel_store::Error),
    /// The store in the data folder cannot be opened.
    #[error("cannot open the store in {} (--data-dir): {error}", folder.display())]
    Embedded {
        /// Folder of the store.
        folder: PathBuf,
        /// Reason of the error.
        error: kevel_store::Error,
    },
    /// An etcd does not answer.
    #[error(transparent)]
    EtcdAway(#[from] EtcdAway),
    /// The options of an etcd do not fit.
    #[error("{flag}={servers}: {error}")]
    Etcd {
        /// Flag that names the URLs.
        flag: &'static str,
        /// URLs of the members.
        servers: String,
        /// Reason of the error.
        error: kevel_store::Error,
    },
}

/// Connects to an etcd and waits until it answers.
async fn connect(
    flag: &'static str,
    options: &CompletedOptions,
    etcd: etcd::Options,
) -> Result<Etcd, OpenError> {
    let servers = etcd.endpoints.join(",");
    let connected = Etcd::connect(etcd).await;
    let etcd = connected.map_err(|error| OpenError::Etcd { flag, servers, error })?;
    etcd_wait::wait_for(&etcd, flag, &options.flags.etcd).await?;
    Ok(etcd)
}

/// The folder of the embedded store.
pub fn embedded_folder(options: &CompletedOptions) -> PathBuf {
    Path::new(&options.flags.kevel.data_dir).join("db")
}

fn embedded_options(options: &CompletedOptions, metrics: &Metrics) -> embedded::Options {
    let metrics = match options.storage {
        StorageKind::Embedded => own_metrics::store(metrics, Some(embedded_folder(options))),
        StorageKind::Memory => own_metrics::store(metrics, None),
        StorageKind::Etcd | StorageKind::StandIn => StoreMetrics::default(),
    };
    embedded::Options {
        metrics,
        compaction_interval: positive(options.flags.etcd.etcd_compaction_interval.0),
        clock: options.clock.clone(),
        ..embedded::Options::default()
    }
}

async fn open_default(
    options: &CompletedOptions,
    embedded_options: embedded::Options,
    egress: &EgressSelector,
    metrics: &EtcdMetrics,
) -> Result<Arc<dyn Engine>, OpenError> {
    let flags = &options.flags;
    let interval = positive(flags.etcd.etcd_compaction_interval.0);
    Ok(match options.storage {
        StorageKind::Memory => {
            Arc::new(Embedded::memory(embedded_options).map_err(OpenError::Memory)?)
        }
        StorageKind::Embedded => {
            let folder = embedded_folder(options);
            let opened = Embedded::open(&folder, embedded_options);
            Arc::new(opened.map_err(|error| OpenError::Embedded { folder, error })?)
        }
        StorageKind::Etcd | StorageKind::StandIn => {
            let servers = flags.etcd.etcd_servers.0.clone();
            let etcd = etcd_options(options, egress, servers, interval);
            let connected = connect("--etcd-servers", options, etcd).await?;
            metrics.measure(connected, 0, &flags.etcd.etcd_prefix).await
        }
    })
}

/// Counts the objects that cannot be read.
pub fn count_decode_errors(backends: &Backends, options: &CompletedOptions, metrics: &Metrics) {
    let errors = metrics.counter(Description {
        name: "apiserver_storage_decode_errors_total",
        help: "[ALPHA] Stored objects that could not be read, by resource.",
        labels: &["group", "resource"],
    });
    for backend in backends.all() {
        let (root, errors) = (options.flags.etcd.etcd_prefix.clone(), errors.clone());
        backend.caches.count_damaged(move |prefix| {
            let (group, resource) = group_resource(&root, prefix);
            errors.with(&[group, resource]).increment();
        });
    }
}

/// Shows how many objects of each resource there are, and how large they are together. The caches know it, so that it is
/// looked up when metrics are read, and not every `--etcd-count-metric-poll-period`.
pub fn count_objects(tables: Vec<Arc<Resources>>, metrics: &Metrics) {
    let by_group = &["group", "resource"];
    let old = metrics.gauge(Description {
        name: "apiserver_storage_objects",
        help: "[STABLE] (Deprecated since 1.34.0) Stored objects by resource: see \
               apiserver_resource_objects.",
        labels: &["resource"],
    });
    let objects = metrics.gauge(Description {
        name: "apiserver_resource_objects",
        help: "[ALPHA] Stored objects, by resource.",
        labels: by_group,
    });
    let bytes = metrics.gauge(Description {
        name: "apiserver_resource_size_estimate_bytes",
        help: "[ALPHA] Total size of the stored objects of a resource.",
        labels: by_group,
    });
    let revision = metrics.gauge(Description {
        name: "apiserver_watch_cache_resource_version",
        help: "[ALPHA] The revision that the watch cache has reached, by resource.",
        labels: by_group,
    });
    let capacity = metrics.gauge(Description {
        name: "watch_cache_capacity",
        help: "[ALPHA] Most events that the watch cache keeps, by resource.",
        labels: by_group,
    });
    let events = metrics.gauge(Description {
        name: "kevel_cache_events",
        help: "Recent events that the watch cache has, by resource.",
        labels: by_group,
    });
    let shown: Mutex<BTreeSet<GroupResource>> = Mutex::default();
    metrics.before_show(move || {
        let mut stored: BTreeMap<GroupResource, Arc<Storage>> = BTreeMap::new();
        let mut counted = HashSet::new();
        for table in &tables {
            for row in table.current().all() {
                // What is found out is not stored.
                let stored_in = row.storage.as_ref().filter(|_| row.lister.is_none());
                let Some(storage) = stored_in else { continue };
                // Objects of two groups are counted in the first.
                if counted.insert(Arc::as_ptr(storage)) {
                    stored.insert(row.group_resource(), storage.clone());
                }
            }
        }
        for (resource, storage) in &stored {
            let (count, size) = storage.cache.size();
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            let labels = [resource.group.as_ref(), resource.resource.as_ref()];
            old.with(&[&resource.to_string()]).set(count);
            objects.with(&labels).set(count);
            bytes.with(&labels).set(i64::try_from(size).unwrap_or(i64::MAX));
            let reached = storage.cache.latest().revision().0;
            revision.with(&labels).set(i64::try_from(reached).unwrap_or(i64::MAX));
            capacity.with(&labels).set(LOG_MAX_EVENTS as i64);
            events.with(&labels).set(storage.cache.recent_events() as i64);
        }
        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        for gone in shown.iter().filter(|resource| !stored.contains_key(*resource)) {
            let labels = [gone.group.as_ref(), gone.resource.as_ref()];
            old.remove(&[&gone.to_string()]);
            objects.remove(&labels);
            for family in [&bytes, &revision, &capacity, &events] {
                family.remove(&labels);
            }
        }
        *shown = stored.into_keys().collect();
    });
}

/// The group and resource whose objects are stored below a prefix.
pub fn group_resource<'p>(root: &str, prefix: &'p str) -> (&'p str, &'p str) {
    if let Some(built_in) = kevel_controlplane::group_resource(root, prefix) {
        return built_in;
    }
    let below = prefix.strip_prefix(&keys::root(root)).unwrap_or(prefix).trim_end_matches('/');
    below.split_once('/').unwrap_or(("", below))
}

fn etcd_options(
    options: &CompletedOptions,
    egress: &EgressSelector,
    endpoints: Vec<String>,
    interval: Option<Duration>,
) -> etcd::Options {
    let flags = &options.flags.etcd;
    let tls = (!flags.etcd_cafile.is_empty()).then(|| etcd::TlsFiles {
        trusted_ca: PathBuf::from(&flags.etcd_cafile),
        client: (!flags.etcd_certfile.is_empty())
            .then(|| (PathBuf::from(&flags.etcd_certfile), PathBuf::from(&flags.etcd_keyfile))),
    });
    let dialer = egress.dialer(EgressType::Etcd);
    let dial = (!dialer.is_direct()).then(|| {
        etcd::Dial::new(move |address| {
            let dialer = dialer.clone();
            async move { dialer.dial(&address).await.map_err(std::io::Error::other) }
        })
    });
    etcd::Options {
        endpoints,
        tls,
        dial,
        prefix: flags.etcd_prefix.clone(),
        compaction_interval: interval,
        leases: etcd::LeaseOptions {
            reuse: Duration::from_secs(
                u64::try_from(flags.lease_reuse_duration_seconds).unwrap_or(0),
            ),
            ..etcd::LeaseOptions::default()
        },
        ..etcd::Options::default()
    }
}

fn positive(nanoseconds: i64) -> Option<Duration> {
    u64::try_from(nanoseconds).ok().filter(|n| *n > 0).map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_counted_by_resource() {
        for (prefix, expected) in [
            ("/registry/pods/", ("", "pods")),
            ("/registry/services/specs/", ("", "services")),
            ("/registry/events/", ("", "events")),
            ("/registry/deployments/", ("apps", "deployments")),
            (
                "/registry/apiextensions.k8s.io/customresourcedefinitions/",
                ("apiextensions.k8s.io", "customresourcedefinitions"),
            ),
            ("/registry/example.com/widgets/", ("example.com", "widgets")),
            ("/registry/masterleases/", ("", "masterleases")),
        ] {
            assert_eq!(group_resource("/registry", prefix), expected, "{prefix}");
        }
    }
}
