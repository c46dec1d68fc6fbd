//! The table of `conformance/certificates`: chains of certificates, and what Go's `crypto/x509` says of
//! them; and servers that present the chains on real sockets.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ResolvesServerCert;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use crate::soon;

/// Verdict of a chain that is accepted.
const TRUSTED: &str = "trusted";

/// Row of the table.
#[derive(Clone, Debug)]
pub struct TrustRow {
    /// The row's name, which says what is special about it.
    pub name: String,
    /// Trusted certificates (PEM).
    pub roots: String,
    /// Certificates that the peer sends, its own first (PEM).
    pub chain: String,
    /// The name under which a server is asked.
    pub host: String,
    /// Go's verdict on the chain of a server.
    pub server: Verdict,
    /// Go's verdict on the chain of a client.
    pub client: Verdict,
}

/// Verdict of Go: nothing, or the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict(Option<String>);

impl Verdict {
    fn new(text: &str) -> Self {
        Verdict((text != TRUSTED).then(|| text.to_owned()))
    }

    /// Whether the chain is accepted.
    pub fn is_trusted(&self) -> bool {
        self.0.is_none()
    }

    /// Whether a message tells the reason; the time of the judgement is another one than Go's.
    pub fn is_told_by(&self, message: &str) -> bool {
        let reason = self.0.as_deref().unwrap_or_default();
        match reason.split_once("current time ") {
            Some((before, _)) => message.contains(before),
            None => message.contains(reason),
        }
    }
}

/// All rows, by name.
pub fn rows() -> Vec<TrustRow> {
    let verdicts = read("verdicts.txt");
    let verdict = |name: &str, kind: &str| {
        let start = format!("{name} {kind} ");
        let line = verdicts.lines().find_map(|line| line.strip_prefix(&start));
        Verdict::new(line.unwrap_or_else(|| panic!("no verdict of {name}")))
    };
    let files = std::fs::read_dir(folder().join("rows")).unwrap();
    let mut rows: Vec<_> = files
        .map(|file| {
            let path = file.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let (head, rest) = text.split_once("# roots\n").unwrap();
            let (roots, chain) = rest.split_once("# chain\n").unwrap();
            TrustRow {
                roots: roots.to_owned(),
                chain: chain.to_owned(),
                host: head.split_once("# host: ").unwrap().1.trim().to_owned(),
                server: verdict(&name, "server"),
                client: verdict(&name, "client"),
                name,
            }
        })
        .collect();
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows
}

/// Private key of every row's own certificate (PEM).
pub fn leaf_key() -> String {
    read("leaf.key")
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/certificates"))
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

impl TrustRow {
    /// The chain with its key, whatever is wrong with it.
    pub fn certified_key(&self) -> Arc<CertifiedKey> {
        let chain = CertificateDer::pem_slice_iter(self.chain.as_bytes());
        let chain = chain.map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_slice(leaf_key().as_bytes()).unwrap();
        let key = ring::sign::any_supported_type(&key).unwrap();
        Arc::new(CertifiedKey::new(chain, key))
    }
}

/// A TLS server on loopback that presents a row's chain, and answers `200 OK` to whatever is said.
#[derive(Debug)]
pub struct Presenter {
    /// Address of the listener.
    pub address: SocketAddr,
    handshakes: mpsc::UnboundedReceiver<bool>,
}

impl Presenter {
    /// Starts it; it ends with the test's runtime.
    pub async fn start(row: &TrustRow, protocols: &[&str]) -> Self {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let resolver: Arc<dyn ResolvesServerCert> =
            Arc::new(SingleCertAndKey::from(row.certified_key()));
        let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, handshakes) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let accepted = acceptor.accept(tcp).await;
                let _ = sender.send(accepted.is_ok());
                let Ok(mut stream) = accepted else { continue };
                tokio::spawn(async move {
                    let _ = stream.read(&mut [0; 4096]).await;
                    let answer =
                        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
                    let _ = stream.write_all(answer).await;
                    let _ = stream.shutdown().await;
                });
            }
        });
        Presenter { address, handshakes }
    }

    /// Whether the next client went through with its handshake.
    pub async fn is_trusted(&mut self) -> bool {
        soon(self.handshakes.recv()).await.unwrap()
    }
}
