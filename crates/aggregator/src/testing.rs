//! Support for tests: an extension server on loopback, and storages in memory.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kevel_api::builtin;
use kevel_api::gvk::GroupVersionKind;
use kevel_registry::storage::{Format, Storage, StorageConfig};
use kevel_registry::type_ref::TypeRef;
use kevel_server::webhook::Endpoint;
use kevel_store::cache::Caches;
use kevel_store::embedded::{Embedded, Options};
use kevel_test_support::Ca;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::api_service::ServiceReference;
use crate::service_resolver::ServiceResolver;
use crate::upstream::{Server, Upstream};

/// A TLS server on loopback, found as the Service `kubernetes`.
pub(crate) struct ExtensionServer {
    pub address: SocketAddr,
    ca: Ca,
    connections: Arc<AtomicUsize>,
}

impl ExtensionServer {
    /// Answers the connections with these status lines in turn; without one, closes the connection at once. A success
    /// is answered last: when all others have been.
    pub async fn start(statuses: &[&'static str]) -> Self {
        let ca = Ca::new("extension");
        let (certificate, key) = ca.server("kubernetes.default.svc");
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
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (count, statuses) = (connections.clone(), statuses.to_vec());
        let failures = statuses.iter().filter(|status| !status.starts_with('2')).count();
        let failed = watch::Sender::new(0);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let status = statuses[count.fetch_add(1, Ordering::Relaxed) % statuses.len()];
                if status.is_empty() {
                    continue;
                }
                let (acceptor, failed) = (acceptor.clone(), failed.clone());
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let _ = stream.read(&mut [0; 4096]).await;
                    if status.starts_with('2') {
                        let _ = failed.subscribe().wait_for(|failed| *failed >= failures).await;
                    }
                    let head = "content-length: 2\r\nconnection: close\r\n\r\n{}";
                    let _ =
                        stream.write_all(format!("HTTP/1.1 {status}\r\n{head}").as_bytes()).await;
                    let _ = stream.shutdown().await;
                    // The client has read a failure when it has closed its side.
                    let _ = stream.read(&mut [0; 4096]).await;
                    if !status.starts_with('2') {
                        failed.send_modify(|failed| *failed += 1);
                    }
                });
            }
        });
        ExtensionServer { address, ca, connections }
    }

    /// Number of connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Client of this server.
    pub fn upstream(&self) -> Arc<Upstream> {
        Arc::new(Upstream {
            service: ServiceReference {
                namespace: "default".into(),
                name: "kubernetes".into(),
                port: 443,
            },
            server: Server::new(Endpoint {
                ca: Some(self.ca.pem.clone().into_bytes()),
                server_name: Some("kubernetes.default.svc".to_owned()),
                ..Endpoint::default()
            }),
        })
    }

    /// Resolver that finds this server.
    pub fn resolver(&self, services: &Arc<Storage>) -> ServiceResolver {
        ServiceResolver::cluster_ip(services.clone()).with_own_address(self.address)
    }
}

/// Storage of a built-in kind in memory, below `/registry/`.
pub(crate) fn storage(group: &str, kind: &str, prefix: &str) -> (Arc<Storage>, Caches) {
    let engine = Arc::new(Embedded::memory(Options::default()).unwrap());
    let caches = Caches::start(engine.clone(), "/registry/");
    let config = StorageConfig {
        kind: GroupVersionKind::new(group, "v1", kind),
        ty: TypeRef::BuiltIn(builtin::schema(group, "v1", kind).unwrap()),
        prefix: format!("/registry/{prefix}/"),
        format: Format::Json,
        keeps_empty: false,
        fields: Vec::new(),
        indexed: Vec::new(),
        time_to_live: None,
        form: None,
        conversion: None,
        registry: Default::default(),
    };
    (Arc::new(Storage::new(config, engine, &caches)), caches)
}
