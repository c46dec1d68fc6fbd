//! Connections to other API servers: extension servers and peers.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, Uri};
use http_body_util::{BodyExt as _, Either, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use kevel_registry::user::User;
use kevel_server::egress::{Dialer, failure, informational};
use kevel_server::proxy::{Outgoing, Upgraded, switch_protocols};
use kevel_server::webhook::{Endpoint, Identity, tls_config};
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use crate::api_service::{ApiService, ServiceReference};
use crate::identity;
use crate::lanes::{Lanes, Lease};

/// Timeout of the TLS handshake for upgraded connections.
const TLS_HANDSHAKE: Duration = Duration::from_secs(30);

/// Extension server of an APIService.
pub(crate) struct Upstream {
    pub service: ServiceReference,
    pub server: Server,
}

/// Client of a server at any address.
pub(crate) struct Server {
    endpoint: Endpoint,
    /// Created at first use: the system's CAs may have to be read.
    transport: OnceLock<Result<Transport, String>>,
}

struct Transport {
    lanes: Lanes,
    /// For upgraded connections, which need HTTP/1.1.
    upgrades: TlsConnector,
    name: ServerName<'static>,
    dialer: Dialer,
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Upstream({:?})", self.service)
    }
}

impl Upstream {
    /// The server of a remote APIService; `None` for a local one.
    pub fn of(service: &ApiService, identity: Option<Identity>, dialer: Dialer) -> Option<Self> {
        let reference = service.service.clone()?;
        let ca = Some(service.ca_bundle.clone()).filter(|bundle| !bundle.is_empty());
        let endpoint = Endpoint {
            ca,
            server_name: Some(format!("{}.{}.svc", reference.name, reference.namespace)),
            insecure_skip_tls_verify: service.insecure_skip_tls_verify,
            identity,
            dialer,
            ..Endpoint::default()
        };
        Some(Upstream { service: reference, server: Server::new(endpoint) })
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server({:?})", self.endpoint.server_name)
    }
}

impl Server {
    /// A client with the endpoint's CA and client certificate.
    pub fn new(endpoint: Endpoint) -> Self {
        Server { endpoint, transport: OnceLock::new() }
    }

    /// Error in the TLS configuration, if there is one.
    pub fn check(&self) -> Result<(), String> {
        self.transport().map(|_| ())
    }

    /// Sends a request to `host:port`. The error has the reference's message. The lease must be kept until the
    /// response's body has ended.
    pub async fn send(
        &self,
        address: &str,
        mut request: Request<Outgoing>,
    ) -> Result<(Response<Incoming>, Lease), String> {
        *request.uri_mut() = located(address, request.uri())?;
        let lease = self.transport()?.lanes.lease();
        let too_many = informational::exceeded(&mut request);
        let answer = tokio::select! {
            answer = lease.connections().request(request) => answer,
            () = too_many => return Err(informational::TOO_MANY.to_owned()),
        };
        let answer = answer.map_err(|error| failure::of_request(&error, address))?;
        Ok((answer, lease))
    }

    /// Sends an upgrade request on a connection of its own.
    pub async fn send_upgrade(
        &self,
        address: &str,
        request: &Request<()>,
    ) -> Result<Upgraded, String> {
        let transport = self.transport()?;
        let failed = |error: String| format!("error dialing backend: {error}");
        let stream = transport.dialer.dial(address).await;
        let stream = stream.map_err(|error| failed(error.to_string()))?;
        let connect = transport.upgrades.connect(transport.name.clone(), stream);
        let connected = tokio::time::timeout(TLS_HANDSHAKE, connect).await;
        let stream = connected.map_err(|_| failed("net/http: TLS handshake timeout".to_owned()))?;
        let stream = stream.map_err(|error| failed(failure::of_connection(&error, address)))?;
        switch_protocols(Box::new(stream), request).await
    }

    /// Fetches a document with this server's own identity.
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
            lanes: Lanes::new(tls.clone(), name.clone(), endpoint.dialer.clone()),
            upgrades: TlsConnector::from(Arc::new(tls)),
            name,
            dialer: endpoint.dialer.clone(),
        })
    }
}

/// The same path at an address.
fn located(address: &str, uri: &Uri) -> Result<Uri, String> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let uri = Uri::builder().scheme("https").authority(address).path_and_query(path).build();
    uri.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use kevel_test_support::trust::{Presenter, rows};

    use super::*;

    /// Number of rows of `conformance/certificates`: a lost one is noticed.
    const ROWS: usize = 98;

    /// Each chain on a real socket, compared with the verdict of Go's `crypto/x509`: for requests and for upgraded
    /// connections.
    #[tokio::test]
    async fn extension_servers_and_peers_are_trusted_as_go_trusts_them() {
        let mut seen = 0;
        for row in rows() {
            let mut server = Presenter::start(&row, &["http/1.1"]).await;
            let address = server.address.to_string();
            let upstream = Server::new(Endpoint {
                ca: Some(row.roots.clone().into_bytes()),
                server_name: Some(row.host.clone()),
                ..Endpoint::default()
            });
            let request = Request::get("/").body(Either::Right(Full::default())).unwrap();
            let sent = upstream.send(&address, request).await.map(drop);
            assert_eq!(
                server.is_trusted().await,
                row.server.is_trusted(),
                "{}: {sent:?}",
                row.name
            );
            let upgrade = Request::get("/").body(()).unwrap();
            let upgraded = upstream.send_upgrade(&address, &upgrade).await.map(drop);
            assert_eq!(server.is_trusted().await, row.server.is_trusted(), "{}", row.name);
            for error in [sent.err(), upgraded.err()].into_iter().flatten() {
                let told = row.server.is_trusted() || row.server.is_told_by(&error);
                assert!(told, "{}: {error}", row.name);
            }
            seen += 1;
        }
        assert_eq!(seen, ROWS);
    }
}
