//! The stores that the options ask for.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kevel_controlplane::StorageOptions;
use kevel_server::backends::{Backend, Backends, Override};
use kevel_server::egress::{EgressSelector, EgressType};
use kevel_server::metrics::{Description, Metrics};
use kevel_server::storage::Format;
use kevel_store::Engine;
use kevel_store::embedded::{self, Embedded};
use kevel_store::etcd::{self, Etcd};
use kevel_store::keys;

use crate::options::{CompletedOptions, StorageKind};

/// How built-in kinds are written to the store.
pub fn storage_options(options: &CompletedOptions) -> StorageOptions {
    let flags = &options.flags;
    // etcd holds what the reference would write there. The embedded store holds what is sent to
    // clients, so that nothing is decoded on the way.
    let json =
        options.storage != StorageKind::Etcd || flags.etcd.storage_media_type == "application/json";
    let format = if json { Format::Json } else { Format::Protobuf };
    let event_ttl = positive(flags.misc.event_ttl.0);
    StorageOptions { prefix: flags.etcd.etcd_prefix.clone(), format, event_ttl }
}

/// Opens the stores; `over` makes what is laid over each, as encryption.
pub async fn open(
    options: &CompletedOptions,
    egress: &EgressSelector,
    over: impl Fn(Arc<dyn Engine>) -> Arc<dyn Engine>,
) -> Result<Backends, String> {
    let etcd = &options.flags.etcd;
    let prefix = keys::root(&etcd.etcd_prefix);
    let default = open_default(options, egress).await?;
    let mut backends = Backends::new(Backend::new(over(default), &prefix));
    for (servers, resources) in etcd.overrides() {
        let interval = positive(etcd.etcd_compaction_interval.0);
        let connected = Etcd::connect(etcd_options(options, egress, servers, interval)).await;
        let engine: Arc<dyn Engine> = Arc::new(connected.map_err(|error| error.to_string())?);
        let backend = Backend::new(over(engine), &prefix);
        backends.overrides.push(Override { resources, backend });
    }
    Ok(backends)
}

async fn open_default(
    options: &CompletedOptions,
    egress: &EgressSelector,
) -> Result<Arc<dyn Engine>, String> {
    let flags = &options.flags;
    let interval = positive(flags.etcd.etcd_compaction_interval.0);
    let embedded_options =
        embedded::Options { compaction_interval: interval, ..embedded::Options::default() };
    Ok(match options.storage {
        StorageKind::Memory => {
            Arc::new(Embedded::memory(embedded_options).map_err(|error| error.to_string())?)
        }
        StorageKind::Embedded => {
            let folder = Path::new(&flags.kevel.data_dir).join("db");
            let opened = Embedded::open(&folder, embedded_options);
            Arc::new(opened.map_err(|error| error.to_string())?)
        }
        StorageKind::Etcd => {
            let servers = flags.etcd.etcd_servers.0.clone();
            let connected = Etcd::connect(etcd_options(options, egress, servers, interval)).await;
            Arc::new(connected.map_err(|error| error.to_string())?)
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

/// The group and resource whose objects are stored below a prefix.
fn group_resource<'p>(root: &str, prefix: &'p str) -> (&'p str, &'p str) {
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
