//! Servers outside, over TLS.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::Ca;

/// A server outside.
pub struct Outside {
    /// `https://localhost:1234`
    pub url: String,
    /// CA bundle of its certificate.
    pub ca: String,
}

/// Request to such a server.
pub struct Asked<'a> {
    /// The URL of the server itself.
    pub own: &'a str,
    pub path: &'a str,
    /// Header `Authorization`.
    pub authorization: &'a str,
    pub body: &'a [u8],
}

/// Response: a code and a text. For a redirect, the text is the location.
pub type Reply = (u16, String);

/// Serves on a port of its own.
pub async fn serve(reply: impl Fn(&Asked<'_>) -> Reply + Send + Sync + 'static) -> Outside {
    let ca = Ca::new("outside");
    let (certificate, key) = ca.server("localhost");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let (reply, own) = (Arc::new(reply), url.clone());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (acceptor, reply, own) = (acceptor.clone(), reply.clone(), own.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                    let (reply, own) = (reply.clone(), own.clone());
                    async move {
                        let (parts, body) = request.into_parts();
                        let body = body.collect().await.unwrap().to_bytes();
                        let authorization = parts.headers.get("authorization");
                        let (code, text) = reply(&Asked {
                            own: &own,
                            path: parts.uri.path(),
                            authorization: authorization.map_or("", |it| it.to_str().unwrap()),
                            body: &body,
                        });
                        let mut answer = http::Response::builder().status(code);
                        answer = answer.header("content-type", "application/json");
                        if (300..400).contains(&code) {
                            answer = answer.header("location", &text);
                        }
                        Ok::<_, Infallible>(answer.body(Full::new(Bytes::from(text))).unwrap())
                    }
                });
                let server = auto::Builder::new(TokioExecutor::new());
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    Outside { url, ca: ca.pem }
}
