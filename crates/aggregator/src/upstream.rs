//! Connections to the server behind an API service.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, Uri, header};
use http_body_util::{BodyExt as _, Either, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use kevel_server::incoming::IncomingBody;
use kevel_server::user::User;
use kevel_server::webhook::{Endpoint, Identity, failure, tls_config};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::api_service::{ApiService, ServiceReference};
use crate::identity;
use crate::lanes::{Lanes, Lease};

/// How long it may take to connect.
pub(crate) const CONNECT: Duration = Duration::from_secs(30);

/// The body of a request: one that is passed on as it comes, or bytes.
pub(crate) type Outgoing = Either<IncomingBody, Full<Bytes>>;

/// A server that answers for an API service.
pub(crate) struct Upstream {
    pub service: ServiceReference,
    endpoint: Endpoint,
    /// Made when somebody asks first: believing the system's authorities means reading them.
    transport: OnceLock<Result<Transport, String>>,
}

struct Transport {
    lanes: Lanes,
    /// For connections that go on in another protocol, which only HTTP/1.1 can.
    upgrades: TlsConnector,
    name: ServerName<'static>,
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Upstream({:?})", self.service)
    }
}

impl Upstream {
    /// The server of an API service, unless that is this one.
    pub fn of(service: &ApiService, identity: Option<Identity>) -> Option<Self> {
        let reference = service.service.clone()?;
        let ca = Some(service.ca_bundle.clone()).filter(|bundle| !bundle.is_empty());
        let endpoint = Endpoint {
            ca,
            server_name: Some(format!("{}.{}.svc", reference.name, reference.namespace)),
            insecure_skip_tls_verify: service.insecure_skip_tls_verify,
            identity,
            ..Endpoint::default()
        };
        Some(Upstream { service: reference, endpoint, transport: OnceLock::new() })
    }

    /// What is wrong with how it is to be spoken to, if anything is.
    pub fn check(&self) -> Result<(), String> {
        self.transport().map(|_| ())
    }

    /// Sends a request to `host:port`. The error is in the reference's words. The answer's body
    /// needs what comes with it until it has ended.
    pub async fn send(
        &self,
        address: &str,
        mut request: Request<Outgoing>,
    ) -> Result<(Response<Incoming>, Lease), String> {
        *request.uri_mut() = located(address, request.uri())?;
        let lease = self.transport()?.lanes.lease();
        let answer = lease.connections().request(request).await;
        let answer = answer.map_err(|error| failure::of_request(&error, address))?;
        Ok((answer, lease))
    }

    /// Sends a request that asks to go on in another protocol, on a connection of its own.
    pub async fn send_upgrade(
        &self,
        address: &str,
        mut request: Request<Outgoing>,
    ) -> Result<Response<Incoming>, String> {
        let transport = self.transport()?;
        let failed = |error: String| format!("error dialing backend: {error}");
        let connect = async {
            let tcp = TcpStream::connect(address).await?;
            tcp.set_nodelay(true)?;
            transport.upgrades.connect(transport.name.clone(), tcp).await
        };
        let connected = tokio::time::timeout(CONNECT, connect).await;
        let timeout = |_| failed(format!("dial tcp {address}: i/o timeout"));
        let stream = connected.map_err(timeout)?;
        let stream = stream.map_err(|error| failed(failure::of_connection(&error, address)))?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
        tokio::spawn(connection.with_upgrades());
        let host = http::HeaderValue::from_str(address).map_err(|error| error.to_string())?;
        request.headers_mut().insert(header::HOST, host);
        let sent = sender.send_request(request).await;
        sent.map_err(|error| format!("error sending request: {error}"))
    }

    /// Gets a document, as this server itself.
    pub async fn get(
        &self,
        address: &str,
        path: &str,
        user: &User,
        headers: HeaderMap,
        limit: usize,
    ) -> Result<Response<Bytes>, String> {
        let request = Request::get(path).body(Either::Right(Full::default()));
        let mut request = request.map_err(|error| error.to_string())?;
        *request.headers_mut() = headers;
        identity::set(request.headers_mut(), user)?;
        let (answer, _lease) = self.send(address, request).await?;
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, limit).collect().await;
        let body = body.map_err(|error| match error.is::<LengthLimitError>() {
            true => format!("the answer is larger than {limit} bytes"),
            false => error.to_string(),
        })?;
        Ok(Response::from_parts(parts, body.to_bytes()))
    }

    fn transport(&self) -> Result<&Transport, String> {
        let made = self.transport.get_or_init(|| Transport::new(&self.endpoint));
        made.as_ref().map_err(String::clone)
    }
}

impl Transport {
    fn new(endpoint: &Endpoint) -> Result<Self, String> {
        let name = endpoint.server_name.clone().unwrap_or_default();
        let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
        let tls = tls_config(endpoint)?;
        Ok(Transport {
            lanes: Lanes::new(tls.clone(), name.clone()),
            upgrades: TlsConnector::from(Arc::new(tls)),
            name,
        })
    }
}

/// The same path at an address.
fn located(address: &str, uri: &Uri) -> Result<Uri, String> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let uri = Uri::builder().scheme("https").authority(address).path_and_query(path).build();
    uri.map_err(|error| error.to_string())
}
