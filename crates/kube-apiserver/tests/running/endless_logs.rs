//! Logs without end of clients that read slowly or not at all: the kubelet is held back, and the server keeps little.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kevel_test_support::{Ca, until};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::client::{Client, Version, request};
use crate::unread::{connect, settled};
use crate::{Server, soon};

const LOG: &str = "/api/v1/namespaces/default/pods/loud/log?follow=true";
/// Logs at a time.
const LOGS: usize = 32;
/// Limit on the memory that the server has more for all of them.
const MOST: u64 = (4 << 20) + (1 << 20) * LOGS as u64;
/// Limit on what a kubelet gets rid of for one log: the buffers of four sockets, and the server's own.
const MOST_SENT: u64 = 24 << 20;

/// A kubelet whose logs have no end.
struct Flood {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    sent: Arc<AtomicU64>,
}

impl Flood {
    async fn start() -> Self {
        let (certificate, key) = Ca::new("kubelets").server("127.0.0.1");
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
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, sent) = (Arc::<AtomicUsize>::default(), Arc::<AtomicU64>::default());
        let (open, bytes) = (connections.clone(), sent.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, open, bytes) = (acceptor.clone(), open.clone(), bytes.clone());
                tokio::spawn(async move {
                    open.fetch_add(1, Ordering::SeqCst);
                    flood(&acceptor, stream, &bytes).await;
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Flood { address, connections, sent }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Bytes sent so far, once there are no more for a while.
    async fn stalled(&self) -> u64 {
        let (mut last, mut same) = (0, 0);
        until(async || {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let now = self.sent.load(Ordering::SeqCst);
            // Clients that read slowly let some through.
            same = if now.abs_diff(last) < 64 << 10 { same + 1 } else { 0 };
            last = now;
            same == 20
        })
        .await;
        last
    }
}

/// Sends a log until the connection ends.
async fn flood(acceptor: &TlsAcceptor, stream: TcpStream, sent: &AtomicU64) {
    let Ok(mut stream) = acceptor.accept(stream).await else { return };
    let mut asked = [0; 4096];
    let _ = stream.read(&mut asked).await;
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n";
    let _ = stream.write_all(head).await;
    let mut chunk = b"4000\r\n".to_vec();
    chunk.resize(chunk.len() + 0x4000, b'x');
    chunk.extend_from_slice(b"\r\n");
    while stream.write_all(&chunk).await.is_ok() {
        sent.fetch_add(chunk.len() as u64, Ordering::SeqCst);
    }
}

/// A node with this kubelet, and a pod on it.
async fn create_pod(server: &Server, kubelet: &Flood) {
    let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
    let node = json!({
        "metadata": {"name": "n"},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.address.port()}},
        },
    });
    let pod = json!({
        "metadata": {"name": "loud"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    });
    for (path, object) in [("/api/v1/nodes", node), ("/api/v1/namespaces/default/pods", pod)] {
        let answer = client.post(path, object.to_string()).await.unwrap();
        assert_eq!(answer.status(), 201, "{path}");
        crate::client::read(answer).await.unwrap();
    }
}

/// Clients of HTTP/1.1, of which every other one reads a byte now and then. They go when the tasks are ended.
async fn read_slowly(server: &Server) -> Vec<tokio::task::AbortHandle> {
    let mut clients = Vec::new();
    for number in 0..LOGS {
        let mut stream = connect(server, b"http/1.1").await.unwrap();
        let head = format!("GET {LOG} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut status = [0; 12];
        soon(stream.read_exact(&mut status)).await.unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");
        let reads = async move {
            loop {
                match number % 2 {
                    0 => tokio::time::sleep(Duration::from_secs(3600)).await,
                    _ => drop(stream.read_u8().await),
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        clients.push(tokio::spawn(reads).abort_handle());
    }
    clients
}

/// Streams of one connection of HTTP/2 that are not read, with this much room each.
async fn leave_unread(server: &Server, window: u32) -> tokio::task::AbortHandle {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(window).initial_connection_window_size(1 << 30);
    let stream = TokioIo::new(connect(server, b"h2").await.unwrap());
    let (mut sender, connection) = builder.handshake::<_, Full<_>>(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut answers = Vec::new();
    for _ in 0..LOGS {
        sender.ready().await.unwrap();
        let answer = soon(sender.send_request(request(Method::GET, LOG, ""))).await.unwrap();
        assert_eq!(answer.status(), 200);
        answers.push(answer);
    }
    tokio::spawn(async move {
        let _ = connection.await;
        drop((answers, sender));
    })
    .abort_handle()
}

async fn check(server: &Server, kubelet: &Flood, who: &str, before: (u64, u64)) {
    assert_eq!(kubelet.connections(), LOGS, "{who}");
    let sent = kubelet.stalled().await - before.1;
    let grown = settled(server).await.saturating_sub(before.0);
    println!("{who}: {} KiB more memory, {} KiB sent", grown >> 10, sent >> 10);
    assert!(grown <= MOST, "{who}: {} KiB", grown >> 10);
    assert!(sent <= MOST_SENT * LOGS as u64, "{who}: {} KiB sent", sent >> 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_logs_of_slow_clients_take_bounded_memory() {
    let flags = [
        "--storage=memory",
        "--kubelet-preferred-address-types=InternalIP",
        "--disable-admission-plugins=ServiceAccount",
    ];
    let server = Server::start(&flags).await;
    let kubelet = Flood::start().await;
    create_pod(&server, &kubelet).await;
    for who in ["HTTP/1.1", "HTTP/2 with small windows", "HTTP/2 with wide windows"] {
        let before = (settled(&server).await, kubelet.sent.load(Ordering::SeqCst));
        let clients = match who {
            "HTTP/1.1" => read_slowly(&server).await,
            "HTTP/2 with small windows" => vec![leave_unread(&server, 1 << 10).await],
            _ => vec![leave_unread(&server, 1 << 20).await],
        };
        check(&server, &kubelet, who, before).await;
        clients.iter().for_each(tokio::task::AbortHandle::abort);
        until(async || kubelet.connections() == 0).await;
    }
}
