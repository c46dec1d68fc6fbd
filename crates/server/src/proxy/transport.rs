//! Connections to servers by their addresses: kept and shared for requests, alone for those that go on in
//! another protocol.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::egress::{Connection, Connector, Dialer, Stream, address, failure, informational};
use crate::incoming::IncomingBody;
use crate::metrics::OF_AGGREGATED;
use crate::webhook::{Endpoint, Identity, tls_config};
use kevel_pki::{Dynamic, verify::Purpose, verify::refusal, warn_unable_to_sign};

/// Timeout of TLS handshakes: the default of the reference's transports.
const TLS_HANDSHAKE: Duration = Duration::from_secs(10);
/// Time for which an idle connection is kept, and number of idle connections per server.
const IDLE: Duration = Duration::from_secs(90);
const MAX_IDLE: usize = 25;

/// The body of a request: one that is passed on as it comes, or bytes.
pub type Outgoing = Either<IncomingBody, Full<Bytes>>;

/// Trusted CAs and client certificate of a Transport.
#[derive(Clone, Debug, Default)]
pub struct TransportConfig {
    /// File of the CA bundle; without it, certificates are not verified. It is read again when it changes.
    pub ca_file: Option<String>,
    /// The certificate that is shown, if any.
    pub identity: Option<Identity>,
    /// Dialer of connections.
    pub dialer: Dialer,
}

/// HTTP client for kubelets, pods and aggregated servers. It speaks HTTP/1.1: a followed log has its own connection, so
/// that no request waits for one of the streams that a server allows.
#[derive(Debug)]
pub struct Transport {
    connections: Dynamic<Connections>,
    dialer: Dialer,
}

struct Connections {
    requests: legacy::Client<HttpsConnector<Connector>, Outgoing>,
    tls: TlsConnector,
}

impl Transport {
    /// A way to servers.
    pub fn new(config: &TransportConfig) -> Result<Self, String> {
        let endpoint = Endpoint { identity: config.identity.clone(), ..Endpoint::default() };
        let dialer = config.dialer.clone();
        let Some(file) = &config.ca_file else {
            let endpoint = Endpoint { insecure_skip_tls_verify: true, ..endpoint };
            let connections = Connections::new(tls_config(&endpoint)?, dialer.clone());
            return Ok(Transport { connections: Dynamic::fixed(connections), dialer });
        };
        let (by, source) = (dialer.clone(), file.clone());
        let connections = Dynamic::load("ca", &[Path::new(file)], move |files| {
            warn_unable_to_sign(&source, Purpose::ServerAuth, files);
            let tls = tls_config(&Endpoint { ca: files.first().cloned(), ..endpoint.clone() })?;
            Ok(Connections::new(tls, by.clone()))
        });
        Ok(Transport { connections: connections?, dialer })
    }

    /// Sends a request on a connection that is kept. The error is in the words of the reference's client, without
    /// the URL.
    pub async fn send(&self, mut request: Request<Outgoing>) -> Result<Response<Incoming>, String> {
        let address = address(request.uri());
        let too_many = informational::exceeded(&mut request);
        let connections = self.connections.current();
        tokio::select! {
            sent = connections.requests.request(request) => {
                let sent = sent.inspect_err(|error| OF_AGGREGATED.count(refusal(error)));
                sent.map_err(|error| failure::of_request(&error, &address))
            }
            () = too_many => Err(informational::TOO_MANY.to_owned()),
        }
    }

    /// A connection of its own to the server of a URL.
    pub async fn dial(&self, uri: &Uri) -> Result<Box<dyn Connection>, String> {
        let address = address(uri);
        let io = self.dialer.dial(&address).await.map_err(|error| error.to_string())?;
        if uri.scheme_str() != Some("https") {
            return Ok(match io {
                Stream::Tcp(tcp) => Box::new(tcp),
                Stream::Proxied(io) => io,
            });
        }
        let name = ServerName::try_from(host(uri).to_owned()).map_err(|error| error.to_string())?;
        let tls = self.connections.current().tls.connect(name, io);
        let tls = timeout(TLS_HANDSHAKE, tls).await;
        let tls = tls.map_err(|_| "net/http: TLS handshake timeout".to_owned())?;
        let tls = tls.inspect_err(|error| OF_AGGREGATED.count(refusal(error)));
        Ok(Box::new(tls.map_err(|error| failure::of_connection(&error, &address))?))
    }
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connections")
    }
}

impl Connections {
    fn new(tls: ClientConfig, dialer: Dialer) -> Self {
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls.clone())
            .https_or_http()
            .enable_http1()
            .wrap_connector(Connector::new(dialer));
        let requests = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(MAX_IDLE)
            .build(https);
        Connections { requests, tls: TlsConnector::from(Arc::new(tls)) }
    }
}

/// The host of a URL, without the brackets of IPv6.
fn host(uri: &Uri) -> &str {
    uri.host().unwrap_or_default().trim_matches(['[', ']'])
}
