//! TLS servers that present certificate chains, valid or not.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::ResolvesServerCert;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use super::TrustRow;
use crate::soon;

/// TLS server on loopback that presents a chain, and answers every request over HTTP/1.1.
#[derive(Debug)]
pub struct Presenter {
    /// Address of the listener.
    pub address: SocketAddr,
    handshakes: mpsc::UnboundedReceiver<bool>,
    counts: Arc<PresenterCounts>,
}

#[derive(Debug, Default)]
struct PresenterCounts {
    refusals: AtomicUsize,
    requests: AtomicUsize,
}

impl Presenter {
    /// Starts a server that presents a row's chain and answers `{}`; it ends with the test's runtime.
    pub async fn start(row: &TrustRow, protocols: &[&str]) -> Self {
        Presenter::answering(row.certified_key(), protocols, |_, _| "{}".to_owned()).await
    }

    /// Starts a server whose JSON response depends on the path and the body.
    pub async fn answering(
        shown: Arc<CertifiedKey>,
        protocols: &[&str],
        answer: impl Fn(&str, &[u8]) -> String + Send + Sync + 'static,
    ) -> Self {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let resolver: Arc<dyn ResolvesServerCert> = Arc::new(SingleCertAndKey::from(shown));
        let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, handshakes) = mpsc::unbounded_channel();
        let (counts, answer) = (Arc::<PresenterCounts>::default(), Arc::new(answer));
        let seen = counts.clone();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let accepted = acceptor.accept(tcp).await;
                let _ = sender.send(accepted.is_ok());
                let Ok(mut stream) = accepted else {
                    seen.refusals.fetch_add(1, Ordering::Relaxed);
                    continue;
                };
                let (seen, answer) = (seen.clone(), answer.clone());
                tokio::spawn(async move {
                    let Some((path, body)) = read_request(&mut stream).await else { return };
                    seen.requests.fetch_add(1, Ordering::Relaxed);
                    // Clients tell their timeout in the query.
                    let answer = answer(path.split('?').next().unwrap_or(&path), &body);
                    let head = format!(
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                         content-length: {}\r\nconnection: close\r\n\r\n",
                        answer.len()
                    );
                    let _ = stream.write_all((head + &answer).as_bytes()).await;
                    let _ = stream.shutdown().await;
                });
            }
        });
        Presenter { address, handshakes, counts }
    }

    /// Whether the next client completes its handshake.
    pub async fn is_trusted(&mut self) -> bool {
        soon(self.handshakes.recv()).await.unwrap()
    }

    /// Number of requests received.
    pub fn requests(&self) -> usize {
        self.counts.requests.load(Ordering::Relaxed)
    }

    /// Number of clients that aborted their handshake.
    pub fn refusals(&self) -> usize {
        self.counts.refusals.load(Ordering::Relaxed)
    }
}

/// Path and body of a request over HTTP/1.1.
async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<(String, Vec<u8>)> {
    const END: &[u8] = b"\r\n\r\n";
    let mut read = Vec::new();
    let end = loop {
        if let Some(at) = read.windows(END.len()).position(|window| window == END) {
            break at + END.len();
        }
        let more = stream.read_buf(&mut read).await;
        more.ok().filter(|count| *count > 0)?;
    };
    let mut body = read.split_off(end);
    let head = String::from_utf8_lossy(&read);
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
    while body.len() < length {
        let more = stream.read_buf(&mut body).await;
        more.ok().filter(|count| *count > 0)?;
    }
    Some((head.split(' ').nth(1)?.to_owned(), body))
}
