//! Webhook server for both API servers: steps of scenarios set its answers and check the requests that it received.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::Result;

/// The webhook server; it ends with the command.
#[derive(Debug)]
pub struct Hooks {
    /// URL: `https://127.0.0.1:1234`
    pub url: String,
    /// CA bundle, in base64.
    pub ca: String,
    shared: Arc<Shared>,
}

/// Answers and received reviews, by path.
#[derive(Debug, Default)]
struct Shared {
    answers: Mutex<HashMap<String, Value>>,
    received: Mutex<HashMap<String, Vec<Value>>>,
}

impl Hooks {
    /// Starts a server on a free port.
    pub async fn start() -> Result<Self> {
        let (config, ca) = tls()?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("https://127.0.0.1:{}", listener.local_addr()?.port());
        let shared = Arc::new(Shared::default());
        let serving = shared.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, acceptor.clone(), serving.clone()));
            }
        });
        Ok(Hooks { url, ca: kevel_codec::base64::encode(ca.as_bytes()).to_string(), shared })
    }

    /// Sets the answer at a path by the fields of a step, and drops the reviews received there.
    pub fn answer(&self, path: &str, fields: &Value) {
        lock(&self.shared.answers).insert(path.to_owned(), fields.clone());
        lock(&self.shared.received).remove(path);
    }

    /// Reviews received at a path.
    pub fn received(&self, path: &str) -> Value {
        lock(&self.shared.received).remove(path).unwrap_or_default().into()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tls() -> Result<(ServerConfig, String)> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate()?;
    let ca = authority.self_signed(&key)?.pem();
    let issuer = Issuer::new(authority, key);
    let key = KeyPair::generate()?;
    let server = CertificateParams::new(vec!["127.0.0.1".to_owned()])?.signed_by(&key, &issuer)?;
    let config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(server.pem().as_bytes())?],
                PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes())?,
            )?;
    Ok((config, ca))
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(move |request| respond(request, shared.clone()));
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(
    request: Request<Incoming>,
    shared: Arc<Shared>,
) -> std::result::Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let answer = lock(&shared.answers).get(&path).cloned().unwrap_or_default();
    let response = make(&answer, &review).await;
    review["query"] = query.into();
    lock(&shared.received).entry(path).or_default().push(review);
    Ok(response)
}

/// Answer to a review, by the fields of a step: `response` (whose uid is filled in, unless it is set), or `raw` with
/// `code`, `type` and `body`; `hang` never answers. `patch` in a response is given as JSON.
async fn make(answer: &Value, review: &Value) -> Response<Full<Bytes>> {
    if answer["hang"] == true {
        return std::future::pending().await;
    }
    if let Some(raw) = answer.get("raw") {
        let body = raw["body"].as_str().map_or_else(|| raw["body"].to_string(), str::to_owned);
        let mut response = Response::new(Full::from(body));
        let code = raw["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(200);
        *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
        for (name, value) in raw["headers"].as_object().into_iter().flatten() {
            let name = name.parse::<http::HeaderName>();
            let value = http::HeaderValue::from_str(value.as_str().unwrap_or_default());
            if let (Ok(name), Ok(value)) = (name, value) {
                response.headers_mut().insert(name, value);
            }
        }
        return response;
    }
    let mut response = answer["response"].clone();
    if response.get("uid").is_none() {
        response["uid"] = review["request"]["uid"].clone();
    }
    if let Some(patch) = response.get("patch").filter(|patch| !patch.is_string()) {
        let patch = kevel_codec::base64::encode(patch.to_string().as_bytes()).to_string();
        response["patch"] = patch.into();
    }
    let review = json!({"apiVersion": review["apiVersion"], "kind": review["kind"],
        "response": response});
    let mut response = Response::new(Full::from(review.to_string()));
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    response
}
