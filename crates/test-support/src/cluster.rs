//! Server in the test's process, with clients of its administrator and other users.

use std::sync::Arc;

use kevel::{Builder, Server};
use kevel_clock::Stopwatch;
use kube::config::AuthInfo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::client::Client;
use crate::{PATIENCE, until};

/// Users of [`Cluster::start`]: the first column is the token, by which tests name the user.
const USERS: &str = "\
jane,jane,1,\"dev\"
joe,joe,2
node-a,system:node:a,3,\"system:nodes\"
node-b,system:node:b,4,\"system:nodes\"
";

/// Selection of controllers unless a test's flags have one: those that only add what pods and roles need. Servers with
/// users of their own do without service accounts.
fn quiet(flags: &[String]) -> Option<&'static str> {
    let has = |prefix: &str| flags.iter().any(|flag| flag.starts_with(prefix));
    if has("--controllers") || has("--etcd-servers") {
        None
    } else if has("--token-auth-file") {
        Some("--controllers=clusterrole-aggregation")
    } else {
        Some("--controllers=clusterrole-aggregation,serviceaccount,root-ca-cert-publisher")
    }
}

/// A running server with its namespaces, reached over its socket.
#[derive(Debug)]
pub struct Cluster {
    /// The server.
    pub server: Server,
    /// Client of the administrator, who may do everything.
    pub admin: Client,
    /// Folder with the server's keys (`pki`) and files of the test.
    pub folder: TempDir,
    flags: Vec<String>,
    config: kube::Config,
}

impl Cluster {
    /// Starts an in-memory server with these flags, on which jane, joe and two nodes have tokens, with only the rights
    /// of their groups.
    pub async fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tokens = folder.path().join("tokens.csv");
        std::fs::write(&tokens, USERS).unwrap();
        let users = format!("--token-auth-file={}", tokens.display());
        let flags = [users].into_iter().chain(flags.iter().map(|flag| (*flag).to_owned()));
        Cluster::on(folder, flags.collect()).await
    }

    /// Starts an in-memory server without flags: its administrator is the only user.
    pub async fn alone() -> Self {
        Cluster::on(tempfile::tempdir().unwrap(), Vec::new()).await
    }

    /// Starts a server on a folder, with these flags alone; in memory unless they say otherwise, and without controllers
    /// that change what a test has made.
    pub async fn on(folder: TempDir, flags: Vec<String>) -> Self {
        Cluster::begin(folder, flags).await.settled().await
    }

    /// Starts a server without waiting for its namespaces, which an unknown administrator cannot read.
    pub async fn begin(folder: TempDir, flags: Vec<String>) -> Self {
        let builder = Server::builder().data_dir(folder.path()).flag("--storage=memory");
        let builder = quiet(&flags)
            .into_iter()
            .chain(flags.iter().map(String::as_str))
            .fold(builder, |builder, flag| builder.flag(flag));
        Cluster::serve(builder, folder, flags).await
    }

    /// Starts a server from a builder.
    pub async fn with(builder: Builder) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Cluster::serve(builder, folder, Vec::new()).await.settled().await
    }

    async fn serve(builder: Builder, folder: TempDir, flags: Vec<String>) -> Self {
        let server = builder.start().await.unwrap();
        let mut config = server.client_config().await.unwrap();
        // Tests check failures, so the client must not retry.
        config.default_retry = false;
        let admin = Client::new(config.clone());
        Cluster { server, admin, folder, flags, config }
    }

    async fn settled(self) -> Self {
        for namespace in ["kube-system", "default"] {
            let path = format!("/api/v1/namespaces/{namespace}");
            until(async || self.admin.get(&path).await.0 == 200).await;
        }
        self
    }

    /// Restarts the server on its data (`--storage=embedded`).
    pub async fn restart(self) -> Self {
        let Cluster { server, admin, folder, flags, .. } = self;
        drop(admin);
        server.stop().await.unwrap();
        Cluster::on(folder, flags).await
    }

    /// Stops the server gracefully.
    pub async fn stop(self) {
        let Cluster { server, admin, .. } = self;
        drop(admin);
        server.stop().await.unwrap();
    }

    /// Opens an HTTP/1.1 connection as the administrator.
    pub async fn connect(&self) -> TlsStream<TcpStream> {
        let kubeconfig = std::fs::read_to_string(self.server.kubeconfig_path()).unwrap();
        let data = |key: &str| {
            let mut values = kubeconfig.lines().filter_map(|line| line.trim().strip_prefix(key));
            let mut bytes = Vec::new();
            kevel_codec::base64::decode_into(values.next().unwrap().trim(), &mut bytes).unwrap();
            bytes
        };
        let certificates = |key: &str| {
            let all = CertificateDer::pem_slice_iter(&data(key)).collect::<Result<Vec<_>, _>>();
            all.unwrap()
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates("certificate-authority-data:"));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(
                certificates("client-certificate-data:"),
                PrivateKeyDer::from_pem_slice(&data("client-key-data:")).unwrap(),
            )
            .unwrap();
        let stream = TcpStream::connect(self.server.address()).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    /// Client with these credentials.
    pub fn client_of(&self, auth_info: AuthInfo) -> Client {
        let mut config = self.config.clone();
        config.auth_info = auth_info;
        Client::new(config)
    }

    /// Client with a bearer token.
    pub fn bearer(&self, token: &str) -> Client {
        let token = Some(token.to_owned().into());
        self.client_of(AuthInfo { token, ..AuthInfo::default() })
    }

    /// Client with a certificate and its key.
    pub fn certified(&self, (certificate, key): &(String, String)) -> Client {
        let encode = |text: &String| kevel_codec::base64::encode(text.as_bytes()).to_string();
        self.client_of(AuthInfo {
            client_certificate_data: Some(encode(certificate)),
            client_key_data: Some(encode(key).into()),
            ..AuthInfo::default()
        })
    }

    /// Client of `admin`, or of the user with this token.
    fn user(&self, who: &str) -> Client {
        match who {
            "admin" => self.admin.clone(),
            token => self.bearer(token),
        }
    }

    /// Sends a request such as `GET /path` as a user; returns the code and the body. A `PATCH` is a merge patch;
    /// `APPLY` is server-side apply.
    pub async fn send(&self, who: &str, what: &str, body: &str) -> (u16, String) {
        let (verb, path) = what.split_once(' ').unwrap();
        let (method, content_type) = match verb {
            "PATCH" => ("PATCH", "application/merge-patch+json"),
            "APPLY" => ("PATCH", "application/apply-patch+yaml"),
            _ => (verb, "application/json"),
        };
        let headers = [("content-type", content_type)];
        self.send_with(who, &format!("{method} {path}"), &headers, body).await
    }

    /// Sends a request with these headers.
    pub async fn send_with(
        &self,
        who: &str,
        what: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, String) {
        let (method, path) = what.split_once(' ').unwrap();
        let answer = self.user(who).raw(method, path, headers, body).await;
        (answer.status().as_u16(), answer.into_body())
    }

    /// Sends a request that must succeed; returns the body.
    pub async fn ok(&self, who: &str, what: &str, body: &str) -> Value {
        let (code, text) = self.send(who, what, body).await;
        assert!((200..300).contains(&code), "{who} {what}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Sends a request that must fail; returns the code and the message.
    pub async fn refused(&self, who: &str, what: &str, body: &str) -> String {
        let (code, text) = self.send(who, what, body).await;
        assert!(code >= 400, "{who} {what}: {text}");
        let status: Value = serde_json::from_str(&text).unwrap();
        format!("{code} {}", status["message"].as_str().unwrap_or(&text))
    }

    /// Sends a request that must succeed; returns its warnings and the body.
    pub async fn warned(&self, who: &str, what: &str, body: &str) -> (Vec<String>, Value) {
        let (method, path) = what.split_once(' ').unwrap();
        let headers = [("content-type", "application/json")];
        let answer = self.user(who).raw(method, path, &headers, body).await;
        assert!(answer.status().is_success(), "{who} {what}: {}", answer.body());
        let warnings = answer.headers().get_all("warning").iter();
        let warnings = warnings.map(|warning| warning.to_str().unwrap().to_owned()).collect();
        (warnings, serde_json::from_str(answer.body()).unwrap())
    }

    /// Sends a request as the administrator until the answer is as wanted.
    pub async fn until(&self, what: &str, wanted: impl Fn(&(u16, String)) -> bool) {
        self.until_sent("admin", what, "", wanted).await;
    }

    /// Sends a request as a user until the answer is as wanted; returns that answer.
    pub async fn until_sent(
        &self,
        who: &str,
        what: &str,
        body: &str,
        wanted: impl Fn(&(u16, String)) -> bool,
    ) -> (u16, String) {
        let started = Stopwatch::start();
        loop {
            let answer = self.send(who, what, body).await;
            if wanted(&answer) {
                return answer;
            }
            assert!(started.elapsed() < PATIENCE, "{who} {what}: not as wanted: {answer:?}");
            tokio::task::yield_now().await;
        }
    }

    /// Sends a request that must succeed, as the administrator, until the body is as wanted.
    pub async fn until_ok(&self, what: &str, body: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let wanted = |answer: &(u16, String)| {
            assert!((200..300).contains(&answer.0), "{what}: {}", answer.1);
            wanted(&read(&answer.1))
        };
        read(&self.until_sent("admin", what, body, wanted).await.1)
    }

    /// Text of `/metrics`.
    pub async fn metrics(&self) -> String {
        self.admin.raw("GET", "/metrics", &[], "").await.into_body()
    }

    /// Status of a TokenReview: the user, or the error.
    pub async fn review(&self, token: &str, audiences: &[&str]) -> Value {
        let review = json!({"spec": {"token": token, "audiences": audiences}});
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        self.admin.create(path, &review).await["status"].clone()
    }
}
