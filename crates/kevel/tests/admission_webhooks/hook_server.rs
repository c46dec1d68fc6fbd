//! A webhook server of the tests' own: real TLS, and every way to answer or not to.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use kevel_test_support::Ca;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use serde_json::{Value, json};

/// Behaviour of a webhook.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// Answers with this `response`; its `uid` is added.
    Response(Value),
    /// Answers with this, whatever it is.
    Raw(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// Answers with so many bytes.
    Large(usize),
    /// Breaks off in the middle.
    Half,
    /// Says that it answers, and does not.
    HeadersOnly,
    /// Never answers.
    Hang,
    /// Dies.
    Panic,
}

/// Handler of reviews.
pub(crate) type Handler = Arc<dyn Fn(&Value) -> Answer + Send + Sync>;

/// A review that came in.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) version: http::Version,
    pub(crate) headers: http::HeaderMap,
    pub(crate) client: Option<String>,
    pub(crate) review: Value,
}

#[derive(Default)]
struct Shared {
    handlers: Mutex<HashMap<String, Handler>>,
    received: Mutex<Vec<Received>>,
    connections: AtomicUsize,
}

pub(crate) struct HookServer {
    pub(crate) address: SocketAddr,
    /// Authority of the server's certificate.
    pub(crate) ca: Ca,
    shared: Arc<Shared>,
}

impl HookServer {
    /// A server that is reached as `localhost`.
    pub(crate) async fn start() -> Self {
        HookServer::named("localhost", None).await
    }

    /// A server whose certificate has this name, and which asks for those of clients of an authority.
    pub(crate) async fn named(name: &str, clients: Option<&Ca>) -> Self {
        let ca = Ca::new("hooks");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = acceptor(&ca.server(name), clients);
        let shared = Arc::new(Shared::default());
        let serving = shared.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connection(stream, acceptor.clone(), serving.clone()));
            }
        });
        HookServer { address, ca, shared }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.address.port())
    }

    /// Answers reviews that come to a path.
    pub(crate) fn on(
        &self,
        path: &str,
        handler: impl Fn(&Value) -> Answer + Send + Sync + 'static,
    ) {
        self.shared.handlers.lock().unwrap().insert(path.to_owned(), Arc::new(handler));
    }

    /// The reviews that came to a path, in order.
    pub(crate) fn received(&self, path: &str) -> Vec<Received> {
        let received = self.shared.received.lock().unwrap();
        received.iter().filter(|received| received.path == path).cloned().collect()
    }

    /// The requests of those reviews.
    pub(crate) fn requests(&self, path: &str) -> Vec<Value> {
        self.received(path).into_iter().map(|received| received.review["request"].clone()).collect()
    }

    pub(crate) fn forget(&self) {
        self.shared.received.lock().unwrap().clear();
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// The `clientConfig` of a webhook at a path.
    pub(crate) fn client_config(&self, path: &str) -> Value {
        json!({"url": self.url(path), "caBundle": base64(&self.ca.pem)})
    }
}

pub(crate) fn base64(text: &str) -> String {
    kevel_codec::base64::encode(text.as_bytes()).to_string()
}

fn acceptor(
    (certificate, key): &(String, String),
    clients: Option<&Ca>,
) -> tokio_rustls::TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(ca.pem.as_bytes()).unwrap()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = verifier.allow_unauthenticated().build().unwrap();
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    tokio_rustls::TlsAcceptor::from(Arc::new(config))
}

async fn connection(
    stream: tokio::net::TcpStream,
    acceptor: tokio_rustls::TlsAcceptor,
    shared: Arc<Shared>,
) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    shared.connections.fetch_add(1, Ordering::Relaxed);
    let certificates = stream.get_ref().1.peer_certificates();
    let client = certificates.map(|certificates| {
        // The common name is the last thing in a certificate of these tests.
        String::from_utf8_lossy(&certificates[0]).into_owned()
    });
    let service = service_fn(move |request| answer(request, shared.clone(), client.clone()));
    let server = auto::Builder::new(TokioExecutor::new());
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

type Body = BoxBody<Bytes, std::io::Error>;

async fn answer(
    request: Request<Incoming>,
    shared: Arc<Shared>,
    client: Option<String>,
) -> Result<Response<Body>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let path = parts.uri.path().to_owned();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let (version, headers) = (parts.version, parts.headers);
    let received =
        Received { path: path.clone(), query, version, headers, client, review: review.clone() };
    shared.received.lock().unwrap().push(received);
    let handler = shared.handlers.lock().unwrap().get(&path).cloned();
    let handler = handler.unwrap_or_else(|| panic!("no handler at {path}"));
    Ok(respond(handler(&review), &review).await)
}

async fn respond(answer: Answer, review: &Value) -> Response<Body> {
    let full = |bytes: Vec<u8>| Full::from(bytes).map_err(|never| match never {}).boxed();
    match answer {
        Answer::Response(mut response) => {
            if response.get("uid").is_none() {
                response["uid"] = review["request"]["uid"].clone();
            }
            let answer = json!({"apiVersion": review["apiVersion"], "kind": review["kind"],
                "response": response});
            Response::new(full(answer.to_string().into_bytes()))
        }
        Answer::Raw(code, headers, body) => {
            let response = Response::builder().status(code);
            let response =
                headers.into_iter().fold(response, |r, (key, value)| r.header(key, value));
            response.body(full(body)).unwrap()
        }
        Answer::Large(size) => Response::new(full(vec![b' '; size])),
        Answer::Half => {
            let frames = [
                Ok(Frame::data(Bytes::from_static(b"{\"apiVersion\":"))),
                Err(std::io::Error::other("enough")),
            ];
            let body = StreamBody::new(stream::iter(frames)).boxed();
            Response::builder().header("content-length", "1000").body(body).unwrap()
        }
        Answer::HeadersOnly => Response::new(StreamBody::new(stream::pending()).boxed()),
        Answer::Hang => std::future::pending().await,
        Answer::Panic => panic!("as it was told to"),
    }
}
