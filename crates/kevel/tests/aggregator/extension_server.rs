//! An extension API server over TLS that accepts only the aggregator, with resources of its own.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::stream::unfold;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;

use super::Ca;

pub const GROUP: &str = "wardle.example.com";
pub const PATH: &str = "/apis/wardle.example.com/v1alpha1";

type Body = BoxBody<Bytes, Infallible>;

/// A server that runs until it is dropped.
pub struct ExtensionServer {
    pub address: SocketAddr,
    /// CA bundle of its certificate.
    pub ca: String,
    pub state: Arc<State>,
    stop: watch::Sender<()>,
}

/// Configured responses, and received requests.
pub struct State {
    /// Whether it describes everything at once, as newer servers do.
    pub aggregated: AtomicBool,
    /// Whether it answers with 500.
    pub broken: AtomicBool,
    /// Events for its watchers.
    pub events: mpsc::Sender<String>,
    to_watch: tokio::sync::Mutex<mpsc::Receiver<String>>,
}

impl ExtensionServer {
    /// A server for the Service of a name in the namespace `default`. It believes those that
    /// `front_proxy` vouches for, and speaks HTTP/2 with them if it may.
    pub async fn start(service: &str, front_proxy: &str, http2: bool, port: u16) -> Self {
        let ca = Ca::new("extension");
        let (certificate, key) = ca.server(&format!("{service}.default.svc"));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(front_proxy.as_bytes()).unwrap()).unwrap();
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
            .unwrap();
        config.alpn_protocols =
            if http2 { vec![b"h2".to_vec(), b"http/1.1".to_vec()] } else { vec![] };
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await.unwrap();
        let address = SocketAddr::new(own_address(), listener.local_addr().unwrap().port());
        let (events, to_watch) = mpsc::channel(8);
        let state = Arc::new(State {
            aggregated: AtomicBool::new(true),
            broken: AtomicBool::new(false),
            events,
            to_watch: tokio::sync::Mutex::new(to_watch),
        });
        let (stop, stopped) = watch::channel(());
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(serve(listener, acceptor, state.clone(), stopped));
        ExtensionServer { address, ca: ca.pem, state, stop }
    }

    /// Stops it, with all its connections.
    pub fn stop(self) {
        drop(self.stop);
    }
}

async fn serve(
    listener: tokio::net::TcpListener,
    acceptor: TlsAcceptor,
    state: Arc<State>,
    mut stopped: watch::Receiver<()>,
) {
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted.unwrap().0,
            _ = stopped.changed() => return,
        };
        let (acceptor, state, mut stopped) = (acceptor.clone(), state.clone(), stopped.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(move |request| {
                let state = state.clone();
                async move { Ok::<_, Infallible>(answer(request, &state).await) }
            });
            let mut server = auto::Builder::new(TokioExecutor::new());
            server.http2().max_concurrent_streams(100);
            tokio::select! {
                _ = server.serve_connection_with_upgrades(TokioIo::new(stream), service) => {}
                _ = stopped.changed() => {}
            }
        });
    }
}

async fn answer(request: Request<Incoming>, state: &Arc<State>) -> Response<Body> {
    if state.broken.load(Ordering::Relaxed) {
        return reply(500, json!({}));
    }
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let accept = header(request.headers(), "accept").contains("as=APIGroupDiscoveryList");
    match path.strip_prefix(PATH) {
        _ if path == "/apis" && accept && state.aggregated.load(Ordering::Relaxed) => {
            let media = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
            let mut response = reply(200, aggregated());
            response.headers_mut().insert("content-type", media.parse().unwrap());
            response
        }
        _ if path == "/apis" => reply(200, json!({"kind": "APIGroupList", "groups": []})),
        _ if path == "/openapi/v3" => {
            let url = format!("/openapi/v3/apis/{GROUP}/v1alpha1?hash=7");
            let paths = json!({format!("apis/{GROUP}/v1alpha1"): {"serverRelativeURL": url}});
            reply(200, json!({"paths": paths}))
        }
        _ if path == format!("/openapi/v3{PATH}") => reply(
            200,
            json!({"openapi": "3.0.0", "user": header(request.headers(), "x-remote-user")}),
        ),
        _ if path == "/openapi/v2" => reply(200, openapi_v2()),
        Some("") => reply(200, resources()),
        Some("/namespaces/default/flunders") if query.contains("watch=") => watched(state.clone()),
        Some("/namespaces/default/flunders") if request.method() == "POST" => {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let mut made: Value = serde_json::from_slice(&body).unwrap();
            made["metadata"]["uid"] = "made".into();
            reply(201, made)
        }
        Some("/namespaces/default/flunders") => {
            let api_version = format!("{GROUP}/v1alpha1");
            let items = [flunder("a"), flunder("b")];
            let list = json!({"kind": "FlunderList", "apiVersion": api_version, "metadata": {}, "items": items});
            reply(200, list)
        }
        Some("/moved") => {
            let mut response = reply(302, json!({}));
            response.headers_mut().insert("location", "/elsewhere".parse().unwrap());
            response
        }
        Some("/echo") => {
            let headers = request.headers().iter();
            let headers =
                headers.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
            let mut headers: Vec<String> = headers.collect();
            headers.sort();
            let uri = request.uri().path_and_query().unwrap().to_string();
            let mut response = reply(200, json!({"uri": uri, "headers": headers}));
            response.headers_mut().insert("access-control-allow-origin", "*".parse().unwrap());
            response.headers_mut().insert("x-own", "1".parse().unwrap());
            response
        }
        Some("/upper") => body(
            200,
            request.into_body().map_frame(upper).map_err(|_| panic!("broken off")).boxed(),
        ),
        Some("/talk") => talk(request),
        Some("/refuse") => reply(403, json!({"message": "no"})),
        _ => reply(404, json!({})),
    }
}

fn upper(frame: Frame<Bytes>) -> Frame<Bytes> {
    frame.map_data(|data| data.to_ascii_uppercase().into())
}

/// Goes on in a protocol in which every byte is answered with the next one.
fn talk(mut request: Request<Incoming>) -> Response<Body> {
    let user = header(request.headers(), "x-remote-user").to_owned();
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let mut stream = TokioIo::new(upgraded.await.unwrap());
        stream.write_all(format!("hello {user}\n").as_bytes()).await.unwrap();
        while let Ok(byte) = stream.read_u8().await {
            if byte == b'.' {
                break;
            }
            stream.write_u8(byte + 1).await.unwrap();
            stream.flush().await.unwrap();
        }
        let _ = stream.shutdown().await;
    });
    let response = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
    let response = response.header("connection", "Upgrade").header("upgrade", "next");
    response.body(Full::default().boxed()).unwrap()
}

/// Each event is sent when it comes.
fn watched(state: Arc<State>) -> Response<Body> {
    let events = unfold(state, |state| async move {
        let event = state.to_watch.lock().await.recv().await?;
        Some((Ok(Frame::data(Bytes::from(event))), state))
    });
    body(200, StreamBody::new(Box::pin(events)).boxed())
}

fn reply(code: u16, value: Value) -> Response<Body> {
    let mut response = body(code, Full::from(value.to_string()).boxed());
    response.headers_mut().insert("content-type", "application/json".parse().unwrap());
    response
}

fn body(code: u16, body: Body) -> Response<Body> {
    Response::builder().status(code).body(body).unwrap()
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).map_or("", |value| value.to_str().unwrap())
}

pub fn flunder(name: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "Flunder",
        "metadata": {"name": name, "namespace": "default", "resourceVersion": "1"},
    })
}

fn aggregated() -> Value {
    let kind = json!({"group": GROUP, "version": "v1alpha1", "kind": "Flunder"});
    let resource = json!({
        "resource": "flunders", "responseKind": kind, "scope": "Namespaced",
        "singularResource": "flunder", "verbs": ["create", "get", "list", "watch"],
    });
    let version = json!({"version": "v1alpha1", "resources": [resource], "freshness": "Current"});
    let group = json!({"metadata": {"name": GROUP}, "versions": [version]});
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": [group]})
}

fn resources() -> Value {
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/v1alpha1"),
        "resources": [{
            "name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder",
            "verbs": ["create", "get", "list", "watch"],
        }],
    })
}

fn openapi_v2() -> Value {
    let schema = json!({"$ref": "#/definitions/com.example.wardle.v1alpha1.Flunder"});
    let get = json!({"responses": {"200": {"description": "OK", "schema": schema}}});
    json!({
        "swagger": "2.0", "info": {"title": "wardle", "version": "1"},
        "paths": {
            format!("{PATH}/namespaces/{{namespace}}/flunders"): {"get": get},
            "/apis/other.example.com/v1/x": {"get": {"responses": {}}},
        },
        "definitions": {
            "com.example.wardle.v1alpha1.Flunder": {"type": "object", "description": "mine"},
            "com.example.wardle.v1alpha1.Unused": {"type": "object"},
        },
    })
}

/// An address of this machine that other machines could have: endpoints may have no other.
pub fn own_address() -> IpAddr {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    // Nothing is sent.
    match socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)) {
        Ok(()) => socket.local_addr().unwrap().ip(),
        Err(_) => Ipv4Addr::LOCALHOST.into(),
    }
}
