//! A server over TLS that answers a byte at a time, and never comes to an end, by HTTP/1.1 or HTTP/2.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kevel_test_support::Ca;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Path below which the head of an answer drips.
pub const HEAD: &str = "/drip-head";
/// Path below which its body does.
pub const BODY: &str = "/drip-body";

/// Time between two bytes: a thousand times a deadline would be needed for the answer.
const BETWEEN: Duration = Duration::from_millis(50);

/// Protocol of a dripping server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
}

pub struct Dripping {
    pub address: SocketAddr,
    /// Certificate of the authority that vouches for it.
    pub ca: String,
    name: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Answers that are under way: connections of HTTP/1.1, streams of HTTP/2.
    open: AtomicUsize,
    /// Requests that came in.
    requests: AtomicUsize,
    /// Whether every body drips.
    everywhere: AtomicBool,
}

impl Dripping {
    /// A server of HTTP/1.1 that is reached by this name.
    pub async fn start(name: &str) -> Self {
        Self::speaking(name, Protocol::Http1).await
    }

    /// A server of a protocol that is reached by this name.
    pub async fn speaking(name: &str, protocol: Protocol) -> Self {
        let ca = Ca::new("dripping");
        let (certificate, key) = ca.server(name);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
            .unwrap();
        if protocol == Protocol::Http2 {
            config.alpn_protocols = vec![b"h2".to_vec()];
        }
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let address = SocketAddr::new(own_address(), listener.local_addr().unwrap().port());
        let state = Arc::new(State::default());
        let serving = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connection(acceptor.clone(), stream, serving.clone(), protocol));
            }
        });
        Dripping { address, ca: ca.pem, name: name.to_owned(), state }
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://{}:{}{path}", self.name, self.address.port())
    }

    /// Number of answers that are under way.
    pub fn open(&self) -> usize {
        self.state.open.load(Ordering::SeqCst)
    }

    pub fn requests(&self) -> usize {
        self.state.requests.load(Ordering::SeqCst)
    }

    /// Lets the body of every answer drip from now on.
    pub fn drip_everywhere(&self) {
        self.state.everywhere.store(true, Ordering::SeqCst);
    }
}

impl State {
    /// Whether the body of an answer to a path drips.
    fn drips_body(&self, path: &str) -> bool {
        path.contains(BODY) || self.everywhere.load(Ordering::SeqCst)
    }
}

/// An answer that is under way until this is dropped.
struct Open(Arc<State>);

impl Open {
    fn new(state: &Arc<State>) -> Self {
        state.open.fetch_add(1, Ordering::SeqCst);
        Open(state.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn connection(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    state: Arc<State>,
    protocol: Protocol,
) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    match protocol {
        Protocol::Http1 => {
            let _open = Open::new(&state);
            serve(stream, &state).await;
        }
        Protocol::Http2 => {
            let answers = service_fn(move |request| answer(request, state.clone()));
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = server.serve_connection(TokioIo::new(stream), answers).await;
        }
    }
}

/// Answers one stream of HTTP/2, until the client resets it.
async fn answer(
    request: Request<Incoming>,
    state: Arc<State>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    state.requests.fetch_add(1, Ordering::SeqCst);
    let open = Open::new(&state);
    let path = request.uri().path();
    if path.contains(HEAD) {
        std::future::pending::<()>().await;
    }
    if !state.drips_body(path) {
        return Ok(Response::new(Full::new(Bytes::from_static(b"{}")).boxed()));
    }
    let drip = unfold((open, b"{" as &'static [u8]), async |(open, byte)| {
        tokio::time::sleep(BETWEEN).await;
        let frame = Ok::<_, Infallible>(Frame::data(Bytes::from_static(byte)));
        Some((frame, (open, b" " as &'static [u8])))
    });
    let body = BodyExt::boxed(StreamBody::new(Box::pin(drip)));
    let response = Response::builder().header("content-type", "application/json");
    Ok(response.header("content-length", "100000").body(body).unwrap())
}

/// Answers one request, until the client goes.
async fn serve(mut stream: TlsStream<TcpStream>, state: &State) {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if !matches!(stream.read_buf(&mut head).await, Ok(1..)) {
            return;
        }
    }
    state.requests.fetch_add(1, Ordering::SeqCst);
    let head = String::from_utf8_lossy(&head);
    let target = head.split(' ').nth(1).unwrap_or_default();
    let dripping_body = state.drips_body(target);
    let answer = match target.contains(HEAD) {
        true => "",
        false if dripping_body => {
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n{"
        }
        false => "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}",
    };
    let _ = stream.write_all(answer.as_bytes()).await;
    if answer.ends_with('}') {
        let _ = stream.shutdown().await;
        return;
    }
    let (mut reader, mut writer) = tokio::io::split(stream);
    let start = if answer.is_empty() { "HTTP/1.1 200 OK\r\nx-long: " } else { "" };
    let drip = async {
        for byte in start.bytes().chain(std::iter::repeat(b' ')) {
            if writer.write_all(&[byte]).await.is_err() || writer.flush().await.is_err() {
                return;
            }
            tokio::time::sleep(BETWEEN).await;
        }
    };
    let gone = async {
        let mut more = [0; 4096];
        while matches!(reader.read(&mut more).await, Ok(1..)) {}
    };
    tokio::select! {
        () = drip => {}
        () = gone => {}
    }
}

/// An address of this machine that endpoints may have, or its own alone where there is none.
fn own_address() -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // Nothing is sent.
    match socket.connect("198.51.100.1:9").and_then(|()| socket.local_addr()) {
        Ok(address) => address.ip(),
        Err(_) => IpAddr::from([127, 0, 0, 1]),
    }
}
