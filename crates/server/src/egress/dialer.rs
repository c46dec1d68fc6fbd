//! Dialing of connections, directly or through an egress proxy.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kevel_clock::Stopwatch;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::metrics::{DialMetrics, Labels};
use super::stream::{Connection, Stream};
use super::{failure, http_connect, tunnel};

/// Timeout of a connection to a server or proxy, and of a proxy's connection: that of the reference's transports.
pub(super) const DIAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Dials connections: directly, or through a proxy (upstream: `EgressSelector`).
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().unwrap().block_on(async {
/// use kevel_server::egress::Dialer;
/// let error = Dialer::default().dial("127.0.0.1:1").await.unwrap_err();
/// assert_eq!(error.to_string(), "dial tcp 127.0.0.1:1: connect: connection refused");
/// # });
/// ```
#[derive(Clone, Debug, Default)]
pub struct Dialer(Option<Arc<Proxied>>);

#[derive(Debug)]
struct Proxied {
    server: ProxyServer,
    metrics: DialMetrics,
}

/// An egress proxy: its address and protocol.
pub enum ProxyServer {
    /// HTTP CONNECT over TCP.
    HttpConnectTcp {
        /// Host and port.
        address: String,
        /// TLS to the proxy, if used.
        tls: Option<ProxyTls>,
    },
    /// HTTP CONNECT over a Unix socket.
    HttpConnectUds(PathBuf),
    /// konnectivity's `ProxyService` over a Unix socket.
    GrpcUds(PathBuf),
}

/// TLS to a proxy.
#[derive(Debug)]
pub struct ProxyTls {
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
}

impl ProxyTls {
    /// TLS with a certificate for this name.
    pub fn new(name: &str, config: ClientConfig) -> Result<Self, String> {
        let name = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
        Ok(ProxyTls { name, config: Arc::new(config) })
    }
}

/// Dial error, in the words of Go's client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialError(pub String);

/// Stage at which a dial through a proxy failed.
enum Stage {
    /// The proxy could not be reached.
    Connect(String),
    /// The proxy could not connect.
    Proxy(String),
}

impl Dialer {
    /// A dialer through a proxy.
    pub fn through(server: ProxyServer, metrics: DialMetrics) -> Self {
        Dialer(Some(Arc::new(Proxied { server, metrics })))
    }

    /// Whether connections are direct.
    pub fn is_direct(&self) -> bool {
        self.0.is_none()
    }

    /// Connects to `host:port`. Ends within a minute.
    pub async fn dial(&self, address: &str) -> Result<Stream, DialError> {
        let dialled = match &self.0 {
            None => direct(address).await.map(Stream::Tcp),
            Some(proxied) => proxied.dial(address).await.map(Stream::Proxied),
        };
        dialled.map_err(DialError)
    }
}

impl Proxied {
    async fn dial(&self, address: &str) -> Result<Box<dyn Connection>, String> {
        let (labels, start) = (self.server.labels(), Stopwatch::start());
        self.metrics.started(labels);
        let [protocol, transport] = labels;
        let name = format!("Proxy via {protocol} protocol over {transport}");
        let span = kevel_trace::start(name, || vec![kevel_trace::text("address", address)]);
        let (stage, error) = match span.scope(self.server.dial(address)).await {
            Ok(connection) => {
                self.metrics.succeeded(labels, start.elapsed());
                return Ok(connection);
            }
            Err(Stage::Connect(error)) => ("connect", error),
            Err(Stage::Proxy(error)) => ("proxy", error),
        };
        self.metrics.failed(labels, stage);
        Err(error)
    }
}

impl ProxyServer {
    /// Labels in metrics.
    fn labels(&self) -> Labels {
        match self {
            ProxyServer::HttpConnectTcp { .. } => ["http_connect", "tcp"],
            ProxyServer::HttpConnectUds(_) => ["http_connect", "uds"],
            ProxyServer::GrpcUds(_) => ["grpc", "uds"],
        }
    }

    async fn dial(&self, address: &str) -> Result<Box<dyn Connection>, Stage> {
        match self {
            ProxyServer::HttpConnectTcp { address: proxy, tls } => {
                let Some(tls) = tls else {
                    let tcp = direct(proxy).await.map_err(Stage::Connect)?;
                    return connect(tcp, proxy, address).await;
                };
                let late = |_| Stage::Connect(format!("dial tcp {proxy}: i/o timeout"));
                let tls = timeout(DIAL_TIMEOUT, encrypted(proxy, tls)).await.map_err(late)?;
                connect(tls.map_err(Stage::Connect)?, proxy, address).await
            }
            ProxyServer::HttpConnectUds(path) => {
                let shown = path.display();
                let connecting = timeout(DIAL_TIMEOUT, UnixStream::connect(path)).await;
                let late = |_| Stage::Connect(format!("dial unix {shown}: i/o timeout"));
                let unix = connecting.map_err(late)?.map_err(|error| {
                    let why = failure::of_socket(&error);
                    Stage::Connect(format!("dial unix {shown}: connect: {why}"))
                })?;
                connect(unix, &shown.to_string(), address).await
            }
            ProxyServer::GrpcUds(path) => {
                let channel = tunnel::connect(path).await.map_err(Stage::Connect)?;
                let tunnel = tunnel::dial(channel, address).await.map_err(Stage::Proxy)?;
                Ok(Box::new(tunnel))
            }
        }
    }
}

/// Asks a proxy over an open connection to connect.
async fn connect(
    io: impl Connection + 'static,
    proxy: &str,
    address: &str,
) -> Result<Box<dyn Connection>, Stage> {
    let connected = http_connect::connect(io, proxy, address, http_connect::EGRESS_HEADERS).await;
    connected.map(|io| Box::new(io) as _).map_err(Stage::Proxy)
}

/// Connects to a proxy with TLS.
async fn encrypted(
    address: &str,
    ProxyTls { name, config }: &ProxyTls,
) -> Result<TlsStream<TcpStream>, String> {
    let tcp = direct(address).await?;
    let tls = TlsConnector::from(config.clone()).connect(name.clone(), tcp).await;
    tls.map_err(|error| failure::of_connection(&error, address))
}

/// Connects directly.
async fn direct(address: &str) -> Result<TcpStream, String> {
    if address.rsplit_once(':').is_none_or(|(_, port)| port.contains(']')) {
        return Err(format!("dial tcp: address {address}: missing port in address"));
    }
    let late = |_| format!("dial tcp {address}: i/o timeout");
    let tcp = timeout(DIAL_TIMEOUT, TcpStream::connect(address)).await.map_err(late)?;
    let tcp = tcp.map_err(|error| failure::of_dial(&error, address))?;
    tcp.set_nodelay(true).map_err(|error| error.to_string())?;
    Ok(tcp)
}

impl fmt::Debug for ProxyServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProxyServer::HttpConnectTcp { address, .. } => write!(f, "HttpConnectTcp({address})"),
            ProxyServer::HttpConnectUds(path) => write!(f, "HttpConnectUds({})", path.display()),
            ProxyServer::GrpcUds(path) => write!(f, "GrpcUds({})", path.display()),
        }
    }
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DialError {}
