//! Requests that are executed for as long as a test likes.

use std::sync::Arc;

use kevel_test_support::Cluster;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A request whose body does not come, until this is dropped.
pub struct Blocker {
    _connection: TlsStream<TcpStream>,
}

impl Blocker {
    /// Asks, as who bears a token, for what everybody may.
    pub async fn start(cluster: &Cluster, token: &str) -> Self {
        let config = cluster.server.client_config().await.unwrap();
        let mut roots = RootCertStore::empty();
        for root in config.root_cert.unwrap() {
            roots.add(CertificateDer::from(root)).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let address = cluster.server.address();
        let stream = TcpStream::connect(("127.0.0.1", address.port())).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let mut stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await.unwrap();
        let request = format!(
            "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews HTTP/1.1\r\n\
             Host: kevel\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
             Content-Length: 100\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        Blocker { _connection: stream }
    }

    /// So many of them.
    pub async fn some(cluster: &Cluster, token: &str, count: usize) -> Vec<Self> {
        let mut blockers = Vec::new();
        for _ in 0..count {
            blockers.push(Blocker::start(cluster, token).await);
        }
        blockers
    }
}
