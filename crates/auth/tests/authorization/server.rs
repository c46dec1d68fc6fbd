//! A webhook of the tests' own, over TLS, on a thread for each connection.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use kevel_api::value::Value;
use kevel_auth::authorization::AuthorizationMetrics;
use kevel_codec::json::{Unknown, decode_any};
use kevel_registry::user::User;
use kevel_server::authorization::{Attributes, Authorizer, Opinion};
use kevel_server::metrics::Metrics;
use kevel_server::request_info::RequestInfo;
use kevel_test_support::Ca;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Response of a webhook: a status code and a body.
type Answer = Box<dyn FnMut(&Value) -> (u16, String) + Send>;

pub struct WebhookServer {
    address: SocketAddr,
    ca: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl WebhookServer {
    /// Answers every review by `answer`.
    pub fn start(answer: impl FnMut(&Value) -> (u16, String) + Send + 'static) -> Self {
        let (config, ca) = identity();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let answer: Arc<Mutex<Answer>> = Arc::new(Mutex::new(Box::new(answer)));
        let bodies = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let connection = ServerConnection::new(config.clone()).unwrap();
                let (bodies, answer) = (bodies.clone(), answer.clone());
                let stream = StreamOwned::new(connection, stream);
                std::thread::spawn(move || serve(stream, &bodies, &answer));
            }
        });
        WebhookServer { address, ca, asked }
    }

    /// One whose status is always this.
    pub fn saying(status: &'static str) -> Self {
        WebhookServer::start(move |review| {
            let version = review.str_at(&["apiVersion"]);
            let kind = r#""kind":"SubjectAccessReview""#;
            (200, format!(r#"{{"apiVersion":"{version}",{kind},"status":{status}}}"#))
        })
    }

    /// The bodies of all requests.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// A kubeconfig that leads here.
    pub fn kubeconfig(&self, folder: &Path) -> PathBuf {
        self.kubeconfig_with(folder, &self.ca)
    }

    /// A kubeconfig that leads here, and believes another authority.
    pub fn kubeconfig_with(&self, folder: &Path, ca: &str) -> PathBuf {
        let port = self.address.port();
        let (ca_file, file) =
            (folder.join(format!("{port}.pem")), folder.join(format!("{port}.kubeconfig")));
        std::fs::write(&ca_file, ca).unwrap();
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: 'https://localhost:{port}/authorize', \
             certificate-authority: {}}}}}]\n\
             users: [{{name: u, user: {{token: secret}}}}]\n",
            ca_file.display()
        );
        std::fs::write(&file, text).unwrap();
        file
    }
}

/// Certificate authority that has signed nothing.
pub fn other_ca() -> String {
    identity().1
}

/// A certificate for `localhost`, and the authority behind it.
fn identity() -> (Arc<ServerConfig>, String) {
    let ca = Ca::new("webhook");
    let (certificate, key) = ca.server("localhost");
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    (Arc::new(config), ca.pem)
}

fn serve(
    stream: StreamOwned<ServerConnection, TcpStream>,
    bodies: &Mutex<Vec<String>>,
    answer: &Mutex<Answer>,
) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
            head.push(line);
        }
        assert!(head[0].starts_with("POST /authorize?timeout="), "{}", head[0]);
        assert!(head.iter().any(|line| line.to_lowercase() == "authorization: bearer secret\r\n"));
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        let review = decode_any(&body, Unknown::Ignore).unwrap().value;
        bodies.lock().unwrap().push(String::from_utf8(body).unwrap());
        let (code, text) = (answer.lock().unwrap())(&review);
        let head = format!("HTTP/1.1 {code} x\r\ncontent-length: {}\r\n\r\n", text.len());
        let out = stream.get_mut();
        if out.write_all(format!("{head}{text}").as_bytes()).and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

/// Authorizes a request (`GET /path`) of a user (`name,group,...`).
pub async fn ask(authorizer: &dyn Authorizer, who: &str, what: &str) -> Opinion {
    let mut parts = who.split(',').map(str::to_owned);
    let user = User {
        name: parts.next().unwrap_or_default(),
        groups: parts.collect(),
        uid: "u".into(),
        extra: vec![("key".into(), vec!["value".into()])],
    };
    let (method, uri) = what.split_once(' ').unwrap();
    let info = RequestInfo::new(&method.parse().unwrap(), &uri.parse().unwrap()).unwrap();
    authorizer.authorize(&Attributes::of(&info, &user)).await
}

pub fn metrics() -> (Metrics, Arc<AuthorizationMetrics>) {
    let metrics = Metrics::default();
    let own = Arc::new(AuthorizationMetrics::new(&metrics, ""));
    (metrics, own)
}
