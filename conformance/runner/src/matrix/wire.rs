//! HTTP/1.1 client that sends paths and headers byte for byte.

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

/// Time limit of an answer. Watches end earlier by themselves.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// Annotation of the event that ends the initial state of a watch, after which the client stops reading.
const INITIAL_EVENTS_END: &[u8] = b"k8s.io/initial-events-end";

/// Connections to a server, without a client certificate.
#[derive(Clone, Debug)]
pub struct Wire {
    tls: Arc<ClientConfig>,
    port: u16,
}

/// Connection that is reused as long as possible.
pub type Kept = Option<SendRequest<Full<Bytes>>>;

/// A response.
#[derive(Debug)]
pub struct Response {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Wire {
    /// Makes a client of the server whose CA is in a folder.
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

    /// Sends a case as a user.
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

    /// Whether a SelfSubjectAccessReview allows an access.
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
        // Errors of the connection show in its requests.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(sender)
    }
}

/// Body, and whether it is complete: of a watch only the initial state is read.
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
