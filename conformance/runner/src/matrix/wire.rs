//! Requests as they are written: HTTP/1.1, so that paths and headers arrive byte for byte.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::cases::Case;
use super::users::ANONYMOUS;
use crate::Result;

/// How long an answer may take. Watches end by themselves before.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// Stands in the event that ends the initial state of a watch: what follows is not waited for.
const INITIAL_EVENTS_END: &[u8] = b"k8s.io/initial-events-end";

/// Connections to a server, without a certificate of the client's.
#[derive(Clone, Debug)]
pub struct Wire {
    tls: Arc<ClientConfig>,
    port: u16,
}

/// A connection that is used again, while it can be.
pub type Kept = Option<SendRequest<Full<Bytes>>>;

/// What came back.
#[derive(Debug)]
pub struct Response {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Wire {
    /// Connections to the server whose certificate the authority in a folder has signed.
    pub fn new(credentials: &Path, port: u16) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(credentials.join("ca.crt"))? {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Wire { tls: Arc::new(tls), port })
    }

    /// Sends a case as somebody.
    pub async fn ask(&self, kept: &mut Kept, case: &Case, who: &str) -> Result<Response> {
        let mut request = http::Request::builder()
            .method(case.method)
            .uri(case.path.as_str())
            .header("host", "localhost")
            .header("user-agent", "conformance")
            .header("accept", "application/json");
        if who != ANONYMOUS && !case.own_credentials {
            request = request.header("authorization", format!("Bearer {who}"));
        }
        for (name, value) in &case.headers {
            request = request.header(name.as_str(), value.as_slice());
        }
        if let Some((media, body)) = &case.body {
            request = request.header("content-type", *media).header("content-length", body.len());
        }
        let body =
            case.body.as_ref().map(|(_, body)| Bytes::from(body.clone())).unwrap_or_default();
        let request = request.body(Full::new(body))?;
        let answer = tokio::time::timeout(ANSWER_LIMIT, self.send(kept, request)).await;
        answer.map_err(|_| "no answer in time")?
    }

    /// Whether a review says that something is allowed.
    pub async fn allows(&self, who: &str, review: &Value) -> Result<bool> {
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let case = Case::new("POST", path).body("application/json", review.to_string());
        let answer = self.ask(&mut None, &case, who).await?;
        let answer: Value = serde_json::from_slice(&answer.body)?;
        Ok(answer["status"]["allowed"] == true)
    }

    async fn send(&self, kept: &mut Kept, request: http::Request<Full<Bytes>>) -> Result<Response> {
        let mut sender = match kept.take() {
            Some(sender) if sender.is_ready() => sender,
            _ => self.connect().await?,
        };
        let (head, body) = sender.send_request(request).await?.into_parts();
        let (body, whole) = read(body).await?;
        if whole && sender.ready().await.is_ok() {
            *kept = Some(sender);
        }
        Ok(Response { code: head.status.as_u16(), headers: head.headers, body })
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("127.0.0.1")?;
        let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // How it ends shows in the requests that are on it.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(sender)
    }
}

/// A body, and whether that is all of it: of a watch only the initial state is read.
async fn read(mut body: Incoming) -> Result<(Vec<u8>, bool)> {
    let mut all = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        all.extend_from_slice(&data);
        let ended = all.windows(INITIAL_EVENTS_END.len()).any(|part| part == INITIAL_EVENTS_END);
        if ended && all.ends_with(b"\n") {
            return Ok((all, false));
        }
    }
    Ok((all, true))
}
