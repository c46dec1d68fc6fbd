//! Everything that the servers of the chain share: built, not running.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kevel_controlplane::Answers;
use kevel_server::lifecycle::{Lifecycle, Shutdown};
use kevel_server::metrics::Metrics;
use kevel_server::serving::{Listen, listen};
use kevel_server::storage::Format;
use kevel_store::Engine;
use kevel_store::cache::Caches;
use kevel_store::private;
use tokio::net::TcpListener;

use super::authentication::Authentication;
use super::authorization::Authorization;
use super::certificates::Certificates;
use super::storage;
use crate::options::{CompletedOptions, StorageKind};

/// The generic config.
pub struct Config {
    pub options: CompletedOptions,
    pub engine: Arc<dyn Engine>,
    pub format: Format,
    pub caches: Arc<Caches>,
    pub certificates: Certificates,
    pub authentication: Authentication,
    pub authorization: Authorization,
    /// Who answers what is asked by a creation: reviews, tokens.
    pub answers: Answers,
    pub metrics: Arc<Metrics>,
    pub lifecycle: Arc<Lifecycle>,
    pub shutdown: Shutdown,
    pub listener: TcpListener,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").finish_non_exhaustive()
    }
}

impl Config {
    pub async fn new(mut options: CompletedOptions) -> Result<Self, String> {
        let metrics = Arc::new(Metrics::default());
        let listener = bind(&mut options)?;
        prepare_data_dir(&options)?;
        let certificates = Certificates::new(&options)?;
        let authentication = Authentication::new(&options, &certificates, &metrics).await?;
        let mut answers = Answers::default();
        authentication.answer(&mut answers);
        let authorization = Authorization::new(&options, &metrics)?;
        authorization.answer(&mut answers);
        let (engine, format) = storage::open(&options).await?;
        let prefix = kevel_store::keys::root(&options.options.etcd.etcd_prefix);
        let caches = Arc::new(Caches::start(engine.clone(), &prefix));
        storage::count_decode_errors(&caches, &options, &metrics);
        let shutdown = shutdown(&options);
        let lifecycle = Arc::new(Lifecycle::default());
        Ok(Config {
            options,
            engine,
            format,
            caches,
            certificates,
            authentication,
            authorization,
            answers,
            metrics,
            lifecycle,
            shutdown,
            listener,
        })
    }
}

/// Takes the port first: certificates and the kubeconfig name it, and it may be any.
fn bind(options: &mut CompletedOptions) -> Result<TcpListener, String> {
    let flags = &mut options.options.secure_serving;
    let place = Listen {
        address: flags.bind_address.unwrap_or(IpAddr::from([0, 0, 0, 0])),
        port: u16::try_from(flags.secure_port).map_err(|_| "--secure-port is out of range")?,
        share_port: flags.permit_port_sharing,
    };
    let error = |error| format!("failed to listen on {}:{}: {error}", place.address, place.port);
    let listener = listen(place).map_err(error)?;
    flags.secure_port = i64::from(listener.local_addr().map_err(error)?.port());
    Ok(listener)
}

/// Makes the folder for what the server keeps itself, if it keeps anything, and sees that nobody else
/// can look into it.
fn prepare_data_dir(options: &CompletedOptions) -> Result<(), String> {
    if options.storage != StorageKind::Embedded && options.own_pki.is_none() {
        return Ok(());
    }
    let folder = Path::new(&options.options.kevel.data_dir);
    private::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    private::tighten_and_say(folder);
    Ok(())
}

fn shutdown(options: &CompletedOptions) -> Shutdown {
    let flags = &options.options.generic;
    Shutdown {
        delay: duration(flags.shutdown_delay_duration),
        send_retry_after: flags.shutdown_send_retry_after,
        watch_termination_grace_period: duration(flags.shutdown_watch_termination_grace_period),
        request_timeout: duration(flags.request_timeout),
    }
}

/// A flag's duration; what is below zero is none.
pub fn duration(flag: kevel_api::duration::Duration) -> Duration {
    Duration::from_nanos(u64::try_from(flag.0).unwrap_or(0))
}

/// What this server is called among those of its cluster.
pub fn server_id() -> String {
    kevel_server::identity::server_id(&hostname())
}

/// The machine's name.
pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
