//! Proxies of the tests' own. They know where names and addresses lead that lead nowhere on this machine.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kevel_test_support::{Ca, write_pair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio_rustls::TlsAcceptor;

use super::grpc_proxy;

/// Protocol of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Tcp,
    Tls,
    Uds,
    Grpc,
}

/// Behaviour of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Connects.
    Connect,
    /// Says this, and goes. Over gRPC, it is why it cannot connect; nothing ends the stream.
    Say(&'static str),
    /// Says nothing, and stays.
    Hang,
}

/// A proxy, which runs as long as the test.
#[derive(Clone)]
pub struct Proxy(Arc<State>);

struct State {
    routes: Mutex<HashMap<String, SocketAddr>>,
    asked: Mutex<Vec<String>>,
    connections: AtomicUsize,
    behaviour: Mutex<Behaviour>,
}

/// Counts a connection for as long as it is there.
struct Counted(Arc<State>);

impl Proxy {
    /// One that is spoken with in a way, and the `connection` of a configuration that leads to it. Its files are in
    /// a folder.
    pub async fn start(way: Way, folder: &Path) -> (Self, String) {
        let proxy = Proxy(Arc::new(State {
            routes: Mutex::default(),
            asked: Mutex::default(),
            connections: AtomicUsize::new(0),
            behaviour: Mutex::new(Behaviour::Connect),
        }));
        let socket = folder.join("proxy.sock").display().to_string();
        let serving = proxy.clone();
        let connection = match way {
            Way::Tcp | Way::Tls => {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let port = listener.local_addr().unwrap().port();
                let acceptor = (way == Way::Tls).then(|| acceptor(folder));
                tokio::spawn(async move {
                    while let Ok((io, _)) = listener.accept().await {
                        serving.clone().begin(io, acceptor.clone());
                    }
                });
                match way {
                    Way::Tls => connection("HTTPConnect", &tls(port, folder)),
                    _ => {
                        let tcp = format!("{{tcp: {{url: 'http://127.0.0.1:{port}'}}}}");
                        connection("HTTPConnect", &tcp)
                    }
                }
            }
            Way::Uds | Way::Grpc => {
                let listener = UnixListener::bind(&socket).unwrap();
                tokio::spawn(async move {
                    while let Ok((io, _)) = listener.accept().await {
                        let (proxy, counted) = (serving.clone(), Counted::new(&serving.0));
                        tokio::spawn(async move {
                            match way {
                                Way::Grpc => grpc_proxy::serve(io, proxy).await,
                                _ => drop(proxy.serve(io).await),
                            }
                            drop(counted);
                        });
                    }
                });
                let protocol = if way == Way::Grpc { "GRPC" } else { "HTTPConnect" };
                connection(protocol, &format!("{{uds: {{udsName: {socket}}}}}"))
            }
        };
        (proxy, connection)
    }

    /// Leads an address somewhere.
    pub fn route(&self, address: &str, to: SocketAddr) {
        // What listens on all addresses is asked on this one.
        let to = SocketAddr::new([127, 0, 0, 1].into(), to.port());
        self.0.routes.lock().unwrap().insert(address.to_owned(), to);
    }

    pub fn behave(&self, behaviour: Behaviour) {
        *self.0.behaviour.lock().unwrap() = behaviour;
    }

    pub fn behaviour(&self) -> Behaviour {
        *self.0.behaviour.lock().unwrap()
    }

    /// Number of requests for an address.
    pub fn asked(&self, address: &str) -> usize {
        self.0.asked.lock().unwrap().iter().filter(|asked| *asked == address).count()
    }

    /// Number of connections to it.
    pub fn connections(&self) -> usize {
        self.0.connections.load(Ordering::SeqCst)
    }

    /// Connects where an address leads.
    pub async fn dial(&self, address: &str) -> Option<TcpStream> {
        let to = self.0.routes.lock().unwrap().get(address).copied()?;
        TcpStream::connect(to).await.ok()
    }

    /// Notes down what it was asked for.
    pub fn note(&self, address: &str) {
        self.0.asked.lock().unwrap().push(address.to_owned());
    }

    fn begin(self, io: TcpStream, acceptor: Option<TlsAcceptor>) {
        let counted = Counted::new(&self.0);
        tokio::spawn(async move {
            let _ = match acceptor {
                None => self.serve(io).await,
                Some(acceptor) => match acceptor.accept(io).await {
                    Ok(io) => self.serve(io).await,
                    Err(error) => Err(error),
                },
            };
            drop(counted);
        });
    }

    async fn serve(&self, mut io: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(io.read_u8().await?);
        }
        let head = String::from_utf8(head).unwrap();
        let address = head.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap();
        assert_eq!(head, format!("CONNECT {address} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
        self.note(address);
        match self.behaviour() {
            Behaviour::Connect => {}
            Behaviour::Say(said) => return io.write_all(said.as_bytes()).await,
            Behaviour::Hang => {
                // Until the client disconnects.
                let _ = io.read(&mut [0]).await;
                return Ok(());
            }
        }
        let Some(mut backend) = self.dial(address).await else {
            return io.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n").await;
        };
        io.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
        tokio::io::copy_bidirectional(&mut io, &mut backend).await.map(drop)
    }
}

impl Counted {
    fn new(state: &Arc<State>) -> Self {
        state.connections.fetch_add(1, Ordering::SeqCst);
        Counted(state.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
    }
}

fn connection(protocol: &str, transport: &str) -> String {
    format!("{{proxyProtocol: {protocol}, transport: {transport}}}")
}

fn tls(port: u16, folder: &Path) -> String {
    let file = |name: &str| folder.join(name).display().to_string();
    let (ca, key, certificate) = (file("proxies.crt"), file("egress.key"), file("egress.crt"));
    let name = "tlsServerName: proxy.test";
    let tls = format!("{{caBundle: {ca}, clientKey: {key}, clientCert: {certificate}, {name}}}");
    format!("{{tcp: {{url: 'https://127.0.0.1:{port}', tlsConfig: {tls}}}}}")
}

/// TLS acceptor with a certificate, which accepts only clients with certificates of the folder.
fn acceptor(folder: &Path) -> TlsAcceptor {
    let (ca, clients) = (Ca::new("proxies"), Ca::new("clients of proxies"));
    std::fs::write(folder.join("proxies.crt"), &ca.pem).unwrap();
    write_pair(folder, "egress", &clients.client("apiserver"));
    server_tls(&ca.server("proxy.test"), &clients.pem)
}

/// A server that shows a certificate, and takes those that an authority vouches for.
pub fn server_tls((certificate, key): &(String, String), clients: &str) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(clients.as_bytes()).unwrap()).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
        )
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}
