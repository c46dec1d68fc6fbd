//! The server while it is put together, and its start.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kevel_auth::authentication::{RequestHeader, RequestHeaders};
use kevel_clock::Clock;
use kevel_component::signals::Signal;
use kevel_extensions::{BuiltIn, RestOptions};
use kevel_pki::verify::Purpose;
use kevel_pki::{CaBundle, ClientVerifier, Dynamic, Pki, PkiFiles, private, warn_unable_to_sign};
use kevel_registry::admission::{Admission, Plugin};
use kevel_registry::backends::{Backend, Backends};
use kevel_registry::resource::{Cbor, Resources};
use kevel_server::authentication::{
    AuthenticatedGroup, Authenticator, ClientCertificate, Union as AnyOf,
};
use kevel_server::authorization::{Authorizer, PrivilegedGroups};
use kevel_server::chain;
use kevel_server::delegate::{Delegate, Path as PlainPath};
use kevel_server::discovery::{Addresses, Discovery};
use kevel_server::endpoints::{Endpoints, MIN_REQUEST_TIMEOUT};
use kevel_server::handler::{Filtered, Handler};
use kevel_server::health::{Check, Health};
use kevel_server::lifecycle::{Lifecycle, Shutdown};
use kevel_server::metrics::Metrics;
use kevel_server::openapi::OpenApi;
use kevel_server::serving::{
    self, HandshakeErrors, Limits, Listen, SecureServing, ServingCertificate, Tls, TlsOptions,
};
use kevel_server::version::{Info, Version};
use kevel_store::Engine;
use kevel_store::embedded::{Embedded, Options};
use tokio::net::TcpListener;

use crate::authorization::delegated;
use crate::error::ApiServerError;
use crate::kind::ApiKind;
use crate::running::RunningApiServer;

/// Prefix of all keys.
const KEYS: &str = "/registry";
/// Headers of an aggregator (upstream: the defaults of `--requestheader-*-headers`).
const USER_HEADER: &str = "X-Remote-User";
const UID_HEADER: &str = "X-Remote-Uid";
const GROUP_HEADER: &str = "X-Remote-Group";
const EXTRA_HEADER_PREFIX: &str = "X-Remote-Extra-";

/// An API server of one's own kinds, while it is put together. It makes its certificates, keys and an administrator's
/// kubeconfig in its folder, stores objects in an embedded store there, and allows everything to `system:masters` and
/// nothing to others unless a cluster or an authorizer of the caller's is asked.
pub struct GenericApiServer {
    name: &'static str,
    kinds: Vec<ApiKind>,
    admission: Vec<Arc<dyn Plugin>>,
    address: SocketAddr,
    data_dir: PathBuf,
    in_memory: bool,
    request_header_ca: Option<PathBuf>,
    authorizer: Option<Arc<dyn Authorizer>>,
    delegated_to: Option<PathBuf>,
    host: String,
    clock: Clock,
}

impl std::fmt::Debug for GenericApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GenericApiServer")
            .field("name", &self.name)
            .field("kinds", &self.kinds)
            .finish_non_exhaustive()
    }
}

impl GenericApiServer {
    /// A server without kinds, on a free port of 127.0.0.1, with its data in `./NAME-data`.
    pub fn new(name: &'static str) -> Self {
        GenericApiServer {
            name,
            kinds: Vec::new(),
            admission: Vec::new(),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            data_dir: PathBuf::from(format!("{name}-data")),
            in_memory: false,
            request_header_ca: None,
            authorizer: None,
            delegated_to: None,
            host: String::new(),
            clock: Clock::default(),
        }
    }

    /// Serves a kind.
    #[must_use]
    pub fn kind(mut self, kind: ApiKind) -> Self {
        self.kinds.push(kind);
        self
    }

    /// Adds an admission plug-in; they run in the order in which they are added.
    #[must_use]
    pub fn admission(mut self, plugin: impl Plugin) -> Self {
        self.admission.push(Arc::new(plugin));
        self
    }

    /// Listens on this address.
    #[must_use]
    pub fn listen(self, address: SocketAddr) -> Self {
        GenericApiServer { address, ..self }
    }

    /// Keeps objects, certificates and keys, and the kubeconfig `admin.kubeconfig`, in this folder.
    #[must_use]
    pub fn data_dir(self, folder: impl Into<PathBuf>) -> Self {
        GenericApiServer { data_dir: folder.into(), ..self }
    }

    /// Keeps objects in memory. Certificates and the kubeconfig are in the folder all the same.
    #[must_use]
    pub fn in_memory(self) -> Self {
        GenericApiServer { in_memory: true, ..self }
    }

    /// Adds a DNS name to the serving certificate, such as that of the Service in front of the server:
    /// `wardle.default.svc`.
    #[must_use]
    pub fn host(self, name: impl Into<String>) -> Self {
        GenericApiServer { host: name.into(), ..self }
    }

    /// Authenticates users by the headers of an aggregator whose client certificate is signed by a CA of this file
    /// (`--requestheader-client-ca-file`).
    #[must_use]
    pub fn request_header_ca(self, file: impl Into<PathBuf>) -> Self {
        GenericApiServer { request_header_ca: Some(file.into()), ..self }
    }

    /// Authorizes requests by SubjectAccessReviews to the cluster of a kubeconfig (`--authorization-kubeconfig`), except
    /// those of `system:masters`.
    #[must_use]
    pub fn delegate_authorization(self, kubeconfig: impl Into<PathBuf>) -> Self {
        GenericApiServer { delegated_to: Some(kubeconfig.into()), ..self }
    }

    /// Authorizes requests by an authorizer of one's own, also those of `system:masters`.
    #[must_use]
    pub fn authorizer(self, authorizer: impl Authorizer) -> Self {
        GenericApiServer { authorizer: Some(Arc::new(authorizer)), ..self }
    }

    /// Takes the time from a clock that can be moved.
    #[must_use]
    pub fn clock(self, clock: Clock) -> Self {
        GenericApiServer { clock, ..self }
    }

    /// Starts the server within the caller's tokio runtime, which has to be a multi-threaded one. It serves when this
    /// returns.
    pub async fn start(self) -> Result<RunningApiServer, ApiServerError> {
        let folder = &self.data_dir;
        private::create_dir_all(folder)
            .map_err(|error| ApiServerError::Folder(folder.clone(), error))?;
        let listener = self.bind()?;
        let address = listener.local_addr();
        let address = address.map_err(|error| ApiServerError::Listen(self.address, error))?;
        let engine = self.engine()?;
        let (pki, files) = self.pki(address)?;
        let metrics = Arc::new(Metrics::default());
        let lifecycle = Arc::new(Lifecycle::default());
        let clients = load_ca("client-ca-bundle", &files.ca_certificate)?;
        let proxies = self.request_header_ca.as_deref();
        let proxies = proxies.map(|file| load_ca("request-header", file)).transpose()?;
        let authorizer = self.own_authorizer(&metrics)?;
        let backends = Backends::new(Backend::new(engine, &format!("{KEYS}/")));
        let resources = self.resources(&backends)?;
        let served = self.served(&resources, authorizer.clone(), &lifecycle, &metrics, address);
        let authenticator = self.authenticator(&clients, proxies.as_ref());
        let handler = chain::build(
            chain::Config {
                metrics: metrics.clone(),
                installed: installed(&resources),
                ..chain::Config::new(&lifecycle, authenticator, authorizer)
            },
            served,
        );
        let serving = SecureServing {
            listener,
            tls: Arc::new(tls(&files, clients, proxies)?),
            limits: Limits::default(),
            shutdown_timeout: Shutdown::default().http_timeout(),
            handshake_errors: Arc::new(HandshakeErrors::new(metrics.tls_handshake_errors.clone())),
            clock: self.clock,
        };
        let stop_http = Signal::new("StopHTTP");
        let serving = serving::serve(serving, handler, &stop_http)
            .map_err(|error| ApiServerError::Serve(error.to_string()))?;
        RunningApiServer::begin(serving, stop_http, lifecycle, backends, pki).await
    }

    fn bind(&self) -> Result<TcpListener, ApiServerError> {
        let (address, port) = (self.address.ip(), self.address.port());
        let listener = serving::listen(Listen { address, port, share_port: false });
        listener.map_err(|error| ApiServerError::Listen(self.address, error))
    }

    fn engine(&self) -> Result<Arc<dyn Engine>, ApiServerError> {
        let options = Options { clock: self.clock.clone(), ..Options::default() };
        let folder = self.data_dir.join("store");
        let opened = match self.in_memory {
            true => Embedded::memory(options),
            false => Embedded::open(&folder, options),
        };
        Ok(Arc::new(opened.map_err(|error| ApiServerError::Store(folder, error))?))
    }

    /// Certificates and keys of the server, and its administrator's kubeconfig.
    fn pki(&self, address: SocketAddr) -> Result<(Pki, PkiFiles), ApiServerError> {
        let pki = Pki {
            folder: self.data_dir.join("pki"),
            kubeconfig: self.data_dir.join("admin.kubeconfig"),
            server: format!("https://{address}"),
            names: Pki::names(&self.host, &[address.ip()]),
            clock: self.clock.clone(),
        };
        let files = pki.ensure().map_err(ApiServerError::Certificates)?;
        Ok((pki, files))
    }

    fn own_authorizer(&self, metrics: &Metrics) -> Result<Arc<dyn Authorizer>, ApiServerError> {
        match (&self.authorizer, &self.delegated_to) {
            (Some(authorizer), _) => Ok(authorizer.clone()),
            (None, Some(kubeconfig)) => delegated(kubeconfig, metrics, &self.clock),
            (None, None) => Ok(Arc::new(PrivilegedGroups::default())),
        }
    }

    /// Rows of all kinds.
    fn resources(&self, backends: &Backends) -> Result<Arc<Resources>, ApiServerError> {
        let mut registry = kevel_registry::storage::RegistryFlags::default();
        registry.most.clock = self.clock.clone();
        // Without a garbage collector, its finalizers would keep objects for ever.
        registry.most.garbage_collection = false;
        let options = RestOptions {
            prefix: KEYS.to_owned(),
            engine: backends.default.engine.clone(),
            caches: backends.default.caches.clone(),
            resolve: Arc::new(|_, name, _| Err(format!("service \"{name}\" not found"))),
            registry,
            egress: Default::default(),
            converted: Arc::default(),
            built_in: BuiltIn::default(),
            cbor: Cbor(false),
            storage_version_hash: true,
            observed_generations: true,
        };
        let resources = Resources::default();
        for kind in &self.kinds {
            resources.install(kind.rows(&options)?);
        }
        Ok(Arc::new(resources))
    }

    /// The handler behind the chain: plain paths, OpenAPI, discovery, resources.
    fn served(
        &self,
        resources: &Arc<Resources>,
        authorizer: Arc<dyn Authorizer>,
        lifecycle: &Lifecycle,
        metrics: &Arc<Metrics>,
        address: SocketAddr,
    ) -> Arc<dyn Handler> {
        let mut health = Health::new(Duration::ZERO);
        health.add(Check::ping());
        health.add(Check::log());
        let health = health.install(&lifecycle.signals);
        let listed = health.paths();
        let health: Arc<dyn Handler> = Arc::new(health);
        let plain = |path: &str, handler: &Arc<dyn Handler>| PlainPath {
            path: path.to_owned(),
            handler: handler.clone(),
        };
        let version: Arc<dyn Handler> = Arc::new(Version::new(&Info::default()).route());
        let metrics: Arc<dyn Handler> = metrics.clone();
        let health_paths = ["/healthz", "/healthz/", "/livez", "/livez/", "/readyz", "/readyz/"];
        let mut paths: Vec<PlainPath> =
            health_paths.iter().map(|path| plain(path, &health)).collect();
        paths.extend([plain("/version", &version), plain("/metrics", &metrics)]);
        let listed = listed.into_iter().chain(["/version", "/metrics"].map(str::to_owned));
        let addresses = Addresses { default: address.to_string(), rules: Vec::new() };
        let discovery = Discovery::new(vec![resources.clone()], addresses, listed);
        let delegate = Delegate {
            name: self.name,
            resources: resources.clone(),
            owns_groups: true,
            endpoints: Arc::new(Endpoints {
                admission: Admission::new(self.admission.clone()),
                authorizer: Some(authorizer),
                min_request_timeout: MIN_REQUEST_TIMEOUT,
                ..Endpoints::default()
            }),
            paths,
            next: None,
        };
        let discovered = Arc::new(Filtered::new(discovery, Arc::new(delegate)));
        Arc::new(Filtered::new(OpenApi::new(vec![resources.clone()]), discovered))
    }

    /// Authenticator of aggregators' headers and of client certificates.
    fn authenticator(
        &self,
        clients: &Arc<Dynamic<CaBundle>>,
        proxies: Option<&Arc<Dynamic<CaBundle>>>,
    ) -> Arc<dyn Authenticator> {
        let mut known: Vec<Arc<dyn Authenticator>> = Vec::new();
        if let Some(proxies) = proxies {
            let (verifier, clock) = (ClientVerifier::new(proxies.clone()), self.clock.clone());
            let headers = RequestHeaders {
                username: vec![USER_HEADER.to_owned()],
                uid: vec![UID_HEADER.to_owned()],
                group: vec![GROUP_HEADER.to_owned()],
                extra_prefix: vec![EXTRA_HEADER_PREFIX.to_owned()],
            };
            let verify = move |chain: &[_]| verifier.verify(chain, clock.now());
            known.push(Arc::new(RequestHeader::new(headers, &[], verify)));
        }
        let (verifier, clock) = (ClientVerifier::new(clients.clone()), self.clock.clone());
        let verify = move |chain: &[_]| verifier.verify(chain, clock.now());
        known.push(Arc::new(ClientCertificate::new(verify)));
        Arc::new(AuthenticatedGroup(AnyOf::new(known)))
    }
}

/// Whether a request is for a resource that is served, for the labels of metrics.
fn installed(resources: &Arc<Resources>) -> chain::Installed {
    let resources = resources.clone();
    Arc::new(move |info| {
        resources.current().get(&info.group, &info.version, &info.resource).is_some()
    })
}

fn load_ca(name: &str, file: &Path) -> Result<Arc<Dynamic<CaBundle>>, ApiServerError> {
    let source = file.to_owned();
    let loaded = Dynamic::load(name, &[file], move |files| {
        warn_unable_to_sign(source.display(), Purpose::ClientAuth, files);
        match files {
            [pem] => CaBundle::parse(pem),
            _ => Err("no file".to_owned()),
        }
    });
    loaded.map(Arc::new).map_err(ApiServerError::Certificates)
}

fn tls(
    files: &PkiFiles,
    clients: Arc<Dynamic<CaBundle>>,
    proxies: Option<Arc<Dynamic<CaBundle>>>,
) -> Result<Tls, ApiServerError> {
    let certificate = ServingCertificate {
        certificate: files.serving_certificate.clone(),
        key: files.serving_key.clone(),
        names: Vec::new(),
    };
    let authorities = [clients].into_iter().chain(proxies).collect();
    let tls = Tls::new(&TlsOptions::default(), &[certificate], authorities);
    tls.map_err(ApiServerError::Certificates)
}
