//! Everything that the servers of the chain share, built in the order of need: what is opened (port, keys,
//! store), what knows objects (caches, storages), who asks and who may, what is answered without a store.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kevel_controller_runtime::{Client, Loopback};
use kevel_controllers::ControllersBuilder;
use kevel_controlplane::service::Services;
use kevel_controlplane::{ComponentStatuses, Creaters, StorageOptions, storages};
use kevel_encryption::DynamicTransformers;
use kevel_features::Feature;
use kevel_registry::backends::{Backend, Backends};
use kevel_registry::resource::Cbor;
use kevel_registry::storages::Storages;
use kevel_server::egress::EgressSelector;
use kevel_server::flowcontrol::FlowControl;
use kevel_server::lifecycle::{Lifecycle, Shutdown};
use kevel_server::metrics::Metrics;
use kevel_server::serving::{Listen, listen};
use kevel_server::version::Info;
use kevel_store::Engine;
use kevel_store::private;
use kevel_trace::TraceProvider;
use tokio::net::TcpListener;

use super::authentication::Authentication;
use super::authorization::Authorization;
use super::certificates::Certificates;
use super::connect::connecters;
use super::egress::egress_selector;
use super::flowcontrol::flow_control;
use super::stand_in::StandIn;
use super::{
    build_info, cache_metrics, encryption, flag_files, own_metrics, services, storage, traces,
};
use crate::options::{CompletedOptions, StorageKind};
use kevel_server::connecter::Connecters;

/// Groups that the extensions server and the aggregator hold, not the kube API server.
pub const EXTENSIONS: &str = "apiextensions.k8s.io";
pub const AGGREGATOR: &str = "apiregistration.k8s.io";

/// The generic config.
pub struct Config {
    pub options: CompletedOptions,
    pub metrics: Arc<Metrics>,
    pub lifecycle: Arc<Lifecycle>,
    pub shutdown: Shutdown,
    /// The port, unless the server is in-process.
    pub listener: Option<TcpListener>,
    pub certificates: Certificates,
    /// The ways out of the server.
    pub egress: EgressSelector,
    /// The recorder of spans, if they are recorded.
    pub tracer: Option<TraceProvider>,
    /// Stand-in for etcd that the store belongs to, if it is one.
    pub stand_in: Option<StandIn>,
    /// Stores with their caches.
    pub backends: Backends,
    /// Transformers of encryption at rest, if it is configured.
    pub encryption: Option<Arc<DynamicTransformers>>,
    pub storage_options: StorageOptions,
    /// Storages of built-in kinds, except for CustomResourceDefinitions, which the extensions server has.
    pub storages: Storages,
    /// The way of the server's own parts to its API, which leads there once the server is put together.
    pub loopback: Arc<Loopback>,
    pub client: Client,
    pub authentication: Authentication,
    pub authorization: Authorization,
    /// Priority and fairness; `None` for max-in-flight.
    pub flow_control: Option<Arc<FlowControl>>,
    /// Creaters: kinds that are not stored, such as reviews and tokens.
    pub creaters: Creaters,
    /// Connecters: subresources that connect to nodes and pods.
    pub connecters: Connecters,
    /// Whether the parts of the control plane are well.
    pub component_statuses: Arc<ComponentStatuses>,
    /// The controllers of the server, and the admission step that stops them.
    pub controllers: ControllersBuilder,
    /// Allocators of Service addresses and ports, if Services are served.
    pub services: Option<Services>,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").finish_non_exhaustive()
    }
}

impl Config {
    /// Whether objects are served in CBOR, and custom ones stored in it.
    pub fn cbor(&self) -> Cbor {
        Cbor(self.options.feature_gates.enabled(Feature::CBORServingAndStorage))
    }

    pub async fn new(mut options: CompletedOptions) -> Result<Self, String> {
        let shown = options.flags.metrics.shown();
        let shown =
            shown.map_err(|error| format!("failed to read allow list manifest: {error}"))?;
        let metrics = Arc::new(Metrics::new(options.clock.clone(), shown));
        build_info::show(&Info::reporting(options.flags.global.version.reported()), &metrics);
        build_info::show_versions(options.effective_version, &metrics);
        build_info::show_features(&options.feature_gates, options.effective_version, &metrics);
        build_info::show_shared(&metrics);
        own_metrics::runtime(&metrics);
        let lifecycle = Arc::new(Lifecycle::default());
        let shutdown = shutdown(&options);
        // Before anything is made or opened: a file that is wrong must not have changed anything.
        flag_files::check(&options.flags).map_err(|error| error.to_string())?;
        let listener = match options.in_process {
            true => None,
            false => Some(bind(&mut options).map_err(|error| error.to_string())?),
        };
        let encryption = encryption::transformers(&options, &metrics).await?;
        prepare_data_dir(&options)?;
        let certificates = Certificates::new(&options, &metrics)?;
        let egress = egress_selector(&options, &metrics)?;
        let tracer = traces::provider(&options, &egress).map_err(|error| error.to_string())?;
        let stand_in = StandIn::find(&options, &egress).await.map_err(|error| error.to_string())?;
        if stand_in.is_some() {
            options.storage = StorageKind::StandIn;
        }

        let encrypted = |engine: Arc<dyn Engine>| -> Arc<dyn Engine> {
            match &encryption {
                Some(encryption) => Arc::new(encryption.engine(engine)),
                None => engine,
            }
        };
        let storage_options = storage::storage_options(&options);
        let backends =
            storage::open(&options, stand_in.as_ref(), &egress, &metrics, encrypted).await;
        let backends = backends.map_err(|error| error.to_string())?;
        storage::count_decode_errors(&backends, &options, &metrics);
        cache_metrics::measure(&backends, &options, &metrics);
        let enabled = options.resource_config();
        let storages = storages(
            |resource| {
                resource.group != EXTENSIONS
                    && enabled.enabled(resource.group, resource.version, resource.path)
            },
            &storage_options,
            &backends,
        )?;
        let Backend { engine, caches } = &backends.default;

        let loopback = Arc::new(Loopback::default());
        let client = Client::new(loopback.clone()).with_clock(options.clock.clone());
        let authentication =
            Authentication::new(&options, &certificates, &storages, &client, &egress, &metrics)
                .await?;
        let authorization = Authorization::new(&options, &storages, &egress, &metrics)?;
        let flow_control = flow_control(&options, &metrics);
        let mut creaters = Creaters::new(options.feature_gates.effective());
        authentication.add_creaters(&mut creaters);
        authorization.add_creaters(&mut creaters);
        let connecters = connecters(&options, &egress, &metrics)?;
        let component_statuses = Arc::new(ComponentStatuses::new(engine.clone())?);
        let services = services::services(&options, &storages, &storage_options, engine, caches)?;
        services.iter().for_each(|services| services.measure(&metrics));
        Ok(Config {
            options,
            metrics,
            lifecycle,
            shutdown,
            listener,
            certificates,
            egress,
            tracer,
            stand_in,
            backends,
            encryption,
            storage_options,
            storages,
            loopback,
            client,
            authentication,
            authorization,
            flow_control,
            creaters,
            connecters,
            component_statuses,
            controllers: ControllersBuilder::default(),
            services,
        })
    }
}

/// Takes the port first: certificates and the kubeconfig name it, and it may be any.
fn bind(options: &mut CompletedOptions) -> Result<TcpListener, ListenError> {
    let flags = &mut options.flags.secure_serving;
    let port =
        u16::try_from(flags.secure_port).map_err(|_| ListenError::Port(flags.secure_port))?;
    let address = flags.bind_address.unwrap_or(IpAddr::from([0, 0, 0, 0]));
    let share_port = flags.permit_port_sharing;
    let error = |error| ListenError::Address(SocketAddr::new(address, port), error);
    let listener = listen(Listen { address, port, share_port }).map_err(error)?;
    flags.secure_port = i64::from(listener.local_addr().map_err(error)?.port());
    Ok(listener)
}

/// Reason why the port cannot be opened.
#[derive(Debug, thiserror::Error)]
enum ListenError {
    /// The flag has a number that no port has.
    #[error("--secure-port {0} is out of range")]
    Port(i64),
    /// The system refuses the address or the port.
    #[error("failed to listen on {_0}: {_1}{}", remedy(_1))]
    Address(SocketAddr, io::Error),
}

/// Remedy for an error, with its flag.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            ": another process listens there, choose another port with --secure-port"
        }
        io::ErrorKind::AddrNotAvailable => {
            ": this machine does not have the address, choose another with --bind-address"
        }
        io::ErrorKind::PermissionDenied => {
            ": low ports are for privileged processes, choose another with --secure-port"
        }
        _ => "",
    }
}

/// Makes the data directory, if the server keeps anything, accessible to its owner only.
fn prepare_data_dir(options: &CompletedOptions) -> Result<(), String> {
    if options.storage != StorageKind::Embedded && options.own_pki.is_none() {
        return Ok(());
    }
    let folder = Path::new(&options.flags.kevel.data_dir);
    private::create_dir_all(folder).map_err(|error| {
        let folder = folder.display();
        format!("cannot create the folder {folder}: {error}: choose another with --data-dir")
    })?;
    private::tighten_and_say(folder);
    Ok(())
}

fn shutdown(options: &CompletedOptions) -> Shutdown {
    let flags = &options.flags.generic;
    Shutdown {
        delay: duration(flags.shutdown_delay_duration),
        send_retry_after: flags.shutdown_send_retry_after,
        watch_termination_grace_period: duration(flags.shutdown_watch_termination_grace_period),
        request_timeout: duration(flags.request_timeout),
    }
}

/// Duration of a flag; a negative one becomes zero.
pub fn duration(flag: kevel_api::duration::Duration) -> Duration {
    Duration::from_nanos(u64::try_from(flag.0).unwrap_or(0))
}

/// Seconds of a flag; a negative number becomes zero.
pub fn seconds(flag: i64) -> Duration {
    Duration::from_secs(u64::try_from(flag).unwrap_or(0))
}
