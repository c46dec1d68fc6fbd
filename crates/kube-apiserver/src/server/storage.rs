//! The engine that the options ask for.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kevel_controlplane::StorageOptions;
use kevel_server::metrics::{Description, Metrics};
use kevel_server::storage::Format;
use kevel_store::Engine;
use kevel_store::cache::Caches;
use kevel_store::embedded::{self, Embedded};
use kevel_store::etcd::{self, Etcd};
use kevel_store::keys;

use crate::options::{CompletedOptions, StorageKind};

/// Opens the store, and says how built-in kinds are written to it.
pub async fn open(options: &CompletedOptions) -> Result<(Arc<dyn Engine>, StorageOptions), String> {
    let flags = &options.flags;
    let interval = positive(flags.etcd.etcd_compaction_interval.0);
    let embedded_options =
        embedded::Options { compaction_interval: interval, ..embedded::Options::default() };
    let engine: Arc<dyn Engine> = match options.storage {
        StorageKind::Memory => {
            Arc::new(Embedded::memory(embedded_options).map_err(|error| error.to_string())?)
        }
        StorageKind::Embedded => {
            let folder = Path::new(&flags.kevel.data_dir).join("db");
            let opened = Embedded::open(&folder, embedded_options);
            Arc::new(opened.map_err(|error| error.to_string())?)
        }
        StorageKind::Etcd => {
            let connected = Etcd::connect(etcd_options(options, interval)).await;
            Arc::new(connected.map_err(|error| error.to_string())?)
        }
    };
    // etcd holds what the reference would write there. The embedded store holds what is sent to
    // clients, so that nothing is decoded on the way.
    let json =
        options.storage != StorageKind::Etcd || flags.etcd.storage_media_type == "application/json";
    let format = if json { Format::Json } else { Format::Protobuf };
    Ok((engine, StorageOptions { prefix: flags.etcd.etcd_prefix.clone(), format }))
}

/// Counts the objects that cannot be read.
pub fn count_decode_errors(caches: &Caches, options: &CompletedOptions, metrics: &Metrics) {
    let errors = metrics.counter(Description {
        name: "apiserver_storage_decode_errors_total",
        help: "[ALPHA] Stored objects that could not be read, by resource.",
        labels: &["group", "resource"],
    });
    let root = options.flags.etcd.etcd_prefix.clone();
    caches.count_damaged(move |prefix| {
        let (group, resource) = group_resource(&root, prefix);
        errors.with(&[group, resource]).increment();
    });
}

/// The group and resource whose objects are stored below a prefix.
fn group_resource<'p>(root: &str, prefix: &'p str) -> (&'p str, &'p str) {
    if let Some(built_in) = kevel_controlplane::group_resource(root, prefix) {
        return built_in;
    }
    let below = prefix.strip_prefix(&keys::root(root)).unwrap_or(prefix).trim_end_matches('/');
    below.split_once('/').unwrap_or(("", below))
}

fn etcd_options(options: &CompletedOptions, interval: Option<Duration>) -> etcd::Options {
    let flags = &options.flags.etcd;
    let tls = (!flags.etcd_cafile.is_empty()).then(|| etcd::TlsFiles {
        trusted_ca: PathBuf::from(&flags.etcd_cafile),
        client: (!flags.etcd_certfile.is_empty())
            .then(|| (PathBuf::from(&flags.etcd_certfile), PathBuf::from(&flags.etcd_keyfile))),
    });
    etcd::Options {
        endpoints: flags.etcd_servers.0.clone(),
        tls,
        prefix: flags.etcd_prefix.clone(),
        compaction_interval: interval,
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
