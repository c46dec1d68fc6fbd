//! Test clients.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Full, combinators::BoxBody};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kevel_server::certificates::{Certificate, Issued};
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::Server;

pub type Body = BoxBody<Bytes, std::convert::Infallible>;

/// TLS options of a client.
pub struct Tls<'a> {
    pub alpn: &'a [&'a str],
    pub versions: &'a [&'static SupportedProtocolVersion],
    pub name: &'a str,
    pub certificate: Option<(&'a Issued, &'a Issued)>,
}

impl Default for Tls<'_> {
    fn default() -> Self {
        Tls {
            alpn: &["http/1.1"],
            versions: rustls::ALL_VERSIONS,
            name: "localhost",
            certificate: None,
        }
    }
}

/// Presents one certificate and signs with the key of another.
#[derive(Debug)]
struct Shown(Arc<CertifiedKey>);

impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

pub async fn connect(server: &Server, tls: Tls<'_>) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(server.authority.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(tls.versions)
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match tls.certificate {
        None => builder.with_no_client_auth(),
        Some((shown, signs)) => {
            let chain = CertificateDer::from_pem_slice(shown.certificate.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(signs.key.as_bytes()).unwrap();
            let key = provider.key_provider.load_private_key(key).unwrap();
            let shown = Shown(Arc::new(CertifiedKey::new(vec![chain], key)));
            builder.with_client_cert_resolver(Arc::new(shown))
        }
    };
    config.alpn_protocols = tls.alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(server.served.address).await?;
    let name = ServerName::try_from(tls.name.to_owned()).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Common name of the server's certificate for a server name.
pub async fn shown(server: &Server, name: &str) -> String {
    let stream = connect(server, Tls { name, ..Tls::default() }).await.unwrap();
    let own = &stream.get_ref().1.peer_certificates().unwrap()[0];
    Certificate::read(own).unwrap().subject().common_name
}

/// An HTTP/1.1 client; the task ends with the connection.
pub async fn http1(server: &Server) -> (http1::SendRequest<Body>, Ended) {
    let stream = connect(server, Tls::default()).await.unwrap();
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    (sender, tokio::spawn(connection))
}

/// An HTTP/2 client; the task ends with the connection.
pub async fn http2(server: &Server) -> (http2::SendRequest<Body>, Ended) {
    let stream = connect(server, Tls { alpn: &["h2"], ..Tls::default() }).await.unwrap();
    let (sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    (sender, tokio::spawn(connection))
}

pub type Ended = tokio::task::JoinHandle<hyper::Result<()>>;

pub fn get(path: &str) -> http::Request<Body> {
    http::Request::get(format!("https://localhost{path}"))
        .header("host", "localhost")
        .body(Empty::new().boxed())
        .unwrap()
}

pub fn post(path: &str, body: Vec<u8>) -> http::Request<Body> {
    http::Request::post(format!("https://localhost{path}"))
        .header("host", "localhost")
        .body(Full::from(body).boxed())
        .unwrap()
}

/// Status and body of a response.
pub async fn text(response: hyper::Result<http::Response<Incoming>>) -> (u16, String) {
    let response = response.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}
