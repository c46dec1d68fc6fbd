//! HTTP/2 client over TLS, as an administrator, with JSON bodies.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::Result;

/// Time limit of an answer that is not a watch.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// Connections to one server.
#[derive(Debug)]
pub struct Client {
    tls: Arc<ClientConfig>,
    port: u16,
    connections: Vec<Mutex<Option<SendRequest<Full<Bytes>>>>>,
    next: AtomicUsize,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// HTTP method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Header names and values, in order.
    pub headers: Vec<(String, String)>,
    /// Body; may be empty.
    pub body: Bytes,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status code.
    pub code: u16,
    /// Response headers.
    pub headers: HeaderMap,
    /// Whole body.
    pub body: Bytes,
}

/// A watch response: one JSON document per line.
#[derive(Debug)]
pub struct Lines {
    /// HTTP status code.
    pub code: u16,
    /// Response headers.
    pub headers: HeaderMap,
    body: Incoming,
    rest: BytesMut,
}

impl Client {
    /// Makes a client with the `admin` files of a folder of [`crate::credentials`].
    pub fn new(credentials: &Path, port: u16, connections: usize) -> Result<Self> {
        let chain = CertificateDer::pem_file_iter(credentials.join("admin.crt"))?
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_file(credentials.join("admin.key"))?;
        let tls = trusting(credentials)?.with_client_auth_cert(chain, key)?;
        Ok(Client::with(tls, port, connections))
    }

    /// Makes a client without a certificate: anonymous, or authenticated by the headers of its requests.
    pub fn anonymous(credentials: &Path, port: u16, connections: usize) -> Result<Self> {
        let tls = trusting(credentials)?.with_no_client_auth();
        Ok(Client::with(tls, port, connections))
    }

    fn with(mut tls: ClientConfig, port: u16, connections: usize) -> Self {
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let connections = (0..connections.max(1)).map(|_| Mutex::default()).collect();
        Client { tls: Arc::new(tls), port, connections, next: AtomicUsize::new(0) }
    }

    /// Sends a request and reads the whole response.
    pub async fn send(&self, request: Request) -> Result<Answer> {
        tokio::time::timeout(ANSWER_LIMIT, async {
            let (head, body) = self.start(request).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok(Answer { code: head.status.as_u16(), headers: head.headers, body })
        })
        .await
        .map_err(|_| "no answer in time")?
    }

    /// Sends a request and returns the JSON body; fails unless it succeeds.
    pub async fn json(&self, request: Request) -> Result<Value> {
        let what = format!("{} {}", request.method, request.path);
        let answer = self.send(request).await?;
        if !(200..300).contains(&answer.code) {
            let text = String::from_utf8_lossy(&answer.body);
            return Err(format!("{what}: {} {text}", answer.code).into());
        }
        answer.json()
    }

    /// Opens a watch.
    pub async fn watch(&self, request: Request) -> Result<Lines> {
        let (head, body) =
            tokio::time::timeout(ANSWER_LIMIT, self.start(request)).await??.into_parts();
        let rest = BytesMut::new();
        Ok(Lines { code: head.status.as_u16(), headers: head.headers, body, rest })
    }

    /// Opens a separate HTTP/1.1 connection, for protocol upgrades.
    pub async fn http1(&self) -> Result<TlsStream<TcpStream>> {
        let mut tls = ClientConfig::clone(&self.tls);
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        secured(Arc::new(tls), self.port).await
    }

    async fn start(&self, request: Request) -> Result<http::Response<Incoming>> {
        let mut message = http::Request::builder()
            .method(request.method)
            .uri(format!("https://127.0.0.1:{}{}", self.port, request.path))
            .header("user-agent", "conformance");
        for (name, value) in &request.headers {
            message = message.header(name, value);
        }
        let message = message.body(Full::new(request.body))?;
        let mut sender = self.connection().await?;
        Ok(sender.send_request(message).await?)
    }

    async fn connection(&self) -> Result<SendRequest<Full<Bytes>>> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.connections.len();
        let mut slot = self.connections[turn].lock().await;
        match slot.as_ref() {
            Some(sender) if !sender.is_closed() => Ok(sender.clone()),
            _ => {
                let sender = connect(&self.tls, self.port).await?;
                *slot = Some(sender.clone());
                Ok(sender)
            }
        }
    }
}

/// TLS configuration that trusts the CA of a folder.
fn trusting(credentials: &Path) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(credentials.join("ca.crt"))? {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots))
}

async fn secured(tls: Arc<ClientConfig>, port: u16) -> Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from("127.0.0.1")?;
    Ok(TlsConnector::from(tls).connect(name, stream).await?)
}

async fn connect(tls: &Arc<ClientConfig>, port: u16) -> Result<SendRequest<Full<Bytes>>> {
    let stream = secured(Arc::clone(tls), port).await?;
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(16 << 20)
        .handshake(TokioIo::new(stream))
        .await?;
    // Errors of the connection show in its requests.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(sender)
}

impl Request {
    /// Makes a request without body.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        let headers = vec![("accept".to_owned(), "application/json".to_owned())];
        Request { method, path: path.into(), headers, body: Bytes::new() }
    }

    /// GET request.
    pub fn get(path: impl Into<String>) -> Self {
        Request::new(Method::GET, path)
    }

    /// DELETE request.
    pub fn delete(path: impl Into<String>) -> Self {
        Request::new(Method::DELETE, path)
    }

    /// POST request that creates an object.
    pub fn post(path: impl Into<String>, object: &Value) -> Self {
        Request::new(Method::POST, path).with_body("application/json", object.to_string())
    }

    /// PUT request that replaces an object.
    pub fn put(path: impl Into<String>, object: &Value) -> Self {
        Request::new(Method::PUT, path).with_body("application/json", object.to_string())
    }

    /// PATCH request of the given kind: `merge-patch+json`, `apply-patch+yaml`, …
    pub fn patch(path: impl Into<String>, kind: &str, patch: &Value) -> Self {
        let media = format!("application/{kind}");
        Request::new(Method::PATCH, path).with_body(&media, patch.to_string())
    }

    /// Sets the body and its media type.
    pub fn with_body(self, media: &str, body: impl Into<Bytes>) -> Self {
        Request { body: body.into(), ..self.with_header("content-type", media) }
    }

    /// Sets a header, replacing one of that name.
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl Answer {
    /// Body as JSON.
    pub fn json(&self) -> Result<Value> {
        Ok(serde_json::from_slice(&self.body)?)
    }
}

impl Lines {
    /// Next line; `None` when the watch has ended.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(self.rest.split_to(end + 1).freeze()));
            }
            match self.chunk().await? {
                Some(chunk) => self.rest.extend_from_slice(&chunk),
                None if self.rest.is_empty() => return Ok(None),
                None => return Ok(Some(self.rest.split().freeze())),
            }
        }
    }

    /// Next bytes as they arrive, lines or not.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>> {
        while let Some(frame) = self.body.frame().await {
            if let Ok(data) = frame?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}
