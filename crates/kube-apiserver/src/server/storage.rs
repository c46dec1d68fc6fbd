//! The engine that the options ask for.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kevel_server::storage::Format;
use kevel_store::Engine;
use kevel_store::embedded::{self, Embedded};
use kevel_store::etcd::{self, Etcd};

use crate::options::{CompletedOptions, StorageKind};

/// Opens the store, and says how built-in kinds are written to it.
pub async fn open(options: &CompletedOptions) -> Result<(Arc<dyn Engine>, Format), String> {
    let flags = &options.options;
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
    Ok((engine, if json { Format::Json } else { Format::Protobuf }))
}

fn etcd_options(options: &CompletedOptions, interval: Option<Duration>) -> etcd::Options {
    let flags = &options.options.etcd;
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
