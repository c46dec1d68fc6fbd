//! Certificate verification of every TLS client and server of the generic server: each row of
//! `conformance/certificates` on a real socket, compared with the verdict of Go's `crypto/x509`.
#![allow(clippy::unwrap_used)] // Helpers of tests are not in a test module here.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use kevel_component::future::Pending;
use kevel_component::signals::Signal;
use kevel_pki::verify::ServerVerifier;
use kevel_pki::{AltNames, Authority, CaBundle, ClientVerifier, Dynamic, Subject};
use kevel_server::body::Body;
use kevel_server::egress::{DialMetrics, Dialer, ProxyServer, ProxyTls};
use kevel_server::handler::{Handler, Response};
use kevel_server::metrics::Metrics;
use kevel_server::proxy::{Transport, TransportConfig};
use kevel_server::request::Request;
use kevel_server::serving::{Limits, Listen, SecureServing, Tls, TlsOptions, listen, serve};
use kevel_server::webhook::{Client, Endpoint, REQUEST_TIMEOUT, tls_config};
use kevel_test_support::trust::{Presenter, TrustRow, rows};
use rustls::ClientConfig;
use rustls::client::ResolvesClientCert;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Rows of the table, so that a lost one is noticed.
const ROWS: usize = 98;
/// Rows about hosts that the loopback interface has.
const LOCAL_ROWS: usize = 89;

fn ca(row: &TrustRow) -> Option<Vec<u8>> {
    Some(row.roots.clone().into_bytes())
}

/// The client of webhooks and of token issuers, whose own suites test each of them (`conformance/HELD.md`).
#[tokio::test]
async fn webhook_servers_are_trusted_as_go_trusts_them() {
    let mut seen = 0;
    for row in rows() {
        let mut server = Presenter::start(&row, &["http/1.1"]).await;
        let url = format!("https://{}/", server.address);
        let server_name = Some(row.host.clone());
        let endpoint = Endpoint { url, ca: ca(&row), server_name, ..Endpoint::default() };
        let client = Client::new(endpoint).unwrap();
        let answer = client.post_json("", "{}".into(), REQUEST_TIMEOUT).await;
        let answer = answer.map_err(|error| error.to_string());
        assert_eq!(server.is_trusted().await, row.server.is_trusted(), "{}: {answer:?}", row.name);
        if let Err(error) = answer {
            assert!(error.contains("tls: failed to verify certificate: x509: "), "{error}");
            assert!(row.server.is_told_by(&error), "{}: {error}", row.name);
        }
        seen += 1;
    }
    assert_eq!(seen, ROWS);
}

/// Kubelets, and other servers that requests are proxied to.
#[tokio::test]
async fn kubelets_and_peers_are_trusted_as_go_trusts_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for row in rows().into_iter().filter(TrustRow::is_local) {
        let mut server = Presenter::start(&row, &["http/1.1"]).await;
        let file = folder.path().join(&row.name);
        std::fs::write(&file, &row.roots).unwrap();
        let ca_file = Some(file.display().to_string());
        let transport = Transport::new(&TransportConfig { ca_file, ..Default::default() }).unwrap();
        let uri = format!("https://{}:{}/", row.host, server.address.port()).parse().unwrap();
        let dialled = transport.dial(&uri).await.map(drop);
        assert_eq!(dialled.is_ok(), row.server.is_trusted(), "{}: {dialled:?}", row.name);
        assert_eq!(server.is_trusted().await, row.server.is_trusted(), "{}", row.name);
        if let Err(error) = dialled {
            assert!(row.server.is_told_by(&error), "{}: {error}", row.name);
        }
        seen += 1;
    }
    assert_eq!(seen, LOCAL_ROWS);
}

/// Egress proxies to the cluster, etcd or webhooks.
#[tokio::test]
async fn egress_proxies_are_trusted_as_go_trusts_them() {
    let metrics = DialMetrics::new(&Metrics::default());
    let mut seen = 0;
    for row in rows() {
        let mut proxy = Presenter::start(&row, &["http/1.1"]).await;
        let config = tls_config(&Endpoint { ca: ca(&row), ..Endpoint::default() }).unwrap();
        let tls = Some(ProxyTls::new(&row.host, config).unwrap());
        let address = proxy.address.to_string();
        let dialer = Dialer::through(ProxyServer::HttpConnectTcp { address, tls }, metrics.clone());
        let dialled = dialer.dial("10.0.0.1:443").await.map(drop);
        assert_eq!(proxy.is_trusted().await, row.server.is_trusted(), "{}: {dialled:?}", row.name);
        if let (Err(error), false) = (dialled, row.server.is_trusted()) {
            assert!(row.server.is_told_by(&error.to_string()), "{}: {error}", row.name);
        }
        seen += 1;
    }
    assert_eq!(seen, ROWS);
}

/// Handler that responds with the client's name, or the verification error.
struct Judge(ClientVerifier);

impl Handler for Judge {
    fn handle<'a>(&'a self, request: Request) -> Pending<'a, Response> {
        Box::pin(async move {
            let (code, text) =
                match self.0.verify(&request.connection.certificates, request.clock().now()) {
                    Ok(identity) => (StatusCode::OK, identity.common_name.clone()),
                    Err(error) => (StatusCode::UNAUTHORIZED, error),
                };
            let mut response = Response::new(Body::from(text.into_bytes()));
            *response.status_mut() = code;
            response
        })
    }
}

#[derive(Debug)]
struct Shown(Arc<CertifiedKey>);

impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// `--client-ca-file` and `--requestheader-client-ca-file`: both use a `ClientVerifier`.
#[tokio::test]
async fn clients_and_front_proxies_are_trusted_as_go_trusts_them() {
    let authority = Authority::new("serving", &kevel_clock::Clock::system()).unwrap();
    let names = AltNames { dns_names: vec!["localhost".into()], ..AltNames::default() };
    let own = Subject::Server { common_name: "server".into(), names };
    let own = authority.issue(&own).unwrap();
    let mut seen = 0;
    for row in rows() {
        let bundle = CaBundle::parse(row.roots.as_bytes()).unwrap();
        let roots = Arc::new(Dynamic::fixed(bundle));
        let options = TlsOptions::default();
        let tls = Tls::from_pem(&options, &own.certificate, &own.key, vec![roots.clone()]);
        let address = IpAddr::from(Ipv4Addr::LOCALHOST);
        let serving = SecureServing {
            clock: kevel_clock::Clock::system(),
            listener: listen(Listen { address, port: 0, share_port: false }).unwrap(),
            tls: Arc::new(tls.unwrap()),
            limits: Limits::default(),
            shutdown_timeout: Duration::ZERO,
            handshake_errors: Arc::default(),
        };
        let stop = Signal::new("stop");
        let served = serve(serving, Arc::new(Judge(ClientVerifier::new(roots))), &stop).unwrap();
        let (code, text) = ask(served.address.port(), row.certified_key()).await;
        match row.client.is_trusted() {
            true => assert_eq!(code, StatusCode::OK, "{}: {text}", row.name),
            false => {
                assert_eq!(code, StatusCode::UNAUTHORIZED, "{}: {text}", row.name);
                assert!(row.client.is_told_by(&text), "{}: {text}", row.name);
            }
        }
        stop.signal();
        seen += 1;
    }
    assert_eq!(seen, ROWS);
}

/// Sends a request with a client certificate.
async fn ask(port: u16, shown: Arc<CertifiedKey>) -> (StatusCode, String) {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = builder
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(ServerVerifier::insecure()))
        .with_client_cert_resolver(Arc::new(Shown(shown)));
    let tcp = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get("/").header("host", "localhost");
    let answer = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
    let code = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}
