//! A server, its administrator and others.

use std::time::Duration;

use http_body_util::BodyExt as _;
use kevel::Server;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tempfile::TempDir;

/// Tokens: the name of each user is its token.
const USERS: &str = "\
jane,jane,1,\"dev\"
joe,joe,2
node-a,system:node:a,3,\"system:nodes\"
node-b,system:node:b,4,\"system:nodes\"
";

pub struct Cluster {
    server: Server,
    config: kube::Config,
    admin: Client,
    _folder: TempDir,
}

impl Cluster {
    /// Starts a server with these flags, and waits for its namespaces.
    pub async fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tokens = folder.path().join("tokens.csv");
        std::fs::write(&tokens, USERS).unwrap();
        let builder = Server::builder().flag(format!("--token-auth-file={}", tokens.display()));
        Cluster::begin(flags.iter().fold(builder, |builder, flag| builder.flag(*flag)), folder)
            .await
    }

    /// A server without flags: there is nobody but its administrator.
    #[allow(dead_code, reason = "not every test has use for it")]
    pub async fn alone() -> Self {
        Cluster::begin(Server::builder(), tempfile::tempdir().unwrap()).await
    }

    async fn begin(builder: kevel::Builder, folder: TempDir) -> Self {
        let server = builder.start().await.unwrap();
        let mut config = server.client_config().await.unwrap();
        // What the server answers is what is tested.
        config.default_retry = false;
        let admin = Client::try_from(config.clone()).unwrap();
        let cluster = Cluster { server, config, admin, _folder: folder };
        cluster.until("GET /api/v1/namespaces/default", |answer| answer.0 == 200).await;
        cluster
    }

    fn client(&self, token: &str) -> Client {
        if token == "admin" {
            return self.admin.clone();
        }
        let mut config = self.config.clone();
        config.auth_info = kube::config::AuthInfo {
            token: Some(token.to_owned().into()),
            ..kube::config::AuthInfo::default()
        };
        Client::try_from(config).unwrap()
    }

    /// `GET /path` as somebody; the code and the body of the answer. `APPLY` is a `PATCH`.
    pub async fn send(&self, who: &str, what: &str, body: &str) -> (u16, String) {
        let (method, uri) = what.split_once(' ').unwrap();
        let (method, content_type) = match method {
            "PATCH" => ("PATCH", "application/merge-patch+json"),
            "APPLY" => ("PATCH", "application/apply-patch+yaml"),
            _ => (method, "application/json"),
        };
        self.send_typed(who, &format!("{method} {uri}"), body, content_type).await
    }

    /// The same with a body of any type.
    pub async fn send_typed(
        &self,
        who: &str,
        what: &str,
        body: &str,
        content_type: &str,
    ) -> (u16, String) {
        self.send_with(who, what, &[("content-type", content_type)], body).await
    }

    /// The same with these headers.
    pub async fn send_with(
        &self,
        who: &str,
        what: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, String) {
        let (code, _, body) = self.answer(who, what, headers, body).await;
        (code, body)
    }

    /// The warnings of an answer that succeeds, and what it says.
    #[allow(dead_code, reason = "not every test has use for it")]
    pub async fn warned(&self, who: &str, what: &str, body: &str) -> (Vec<String>, Value) {
        let (code, headers, text) =
            self.answer(who, what, &[("content-type", "application/json")], body).await;
        assert!((200..300).contains(&code), "{who} {what}: {text}");
        let warnings = headers.get_all("warning").iter();
        let warnings = warnings.map(|warning| warning.to_str().unwrap().to_owned()).collect();
        (warnings, serde_json::from_str(&text).unwrap())
    }

    async fn answer(
        &self,
        who: &str,
        what: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, http::HeaderMap, String) {
        let (method, uri) = what.split_once(' ').unwrap();
        let request = http::Request::builder().method(method).uri(uri);
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.body(Body::from(body.as_bytes().to_vec())).unwrap();
        let answer = self.client(who).send(request).await.unwrap();
        let (code, headers) = (answer.status().as_u16(), answer.headers().clone());
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        (code, headers, String::from_utf8_lossy(&bytes).into_owned())
    }

    /// What an answer that succeeds says.
    pub async fn ok(&self, who: &str, what: &str, body: &str) -> Value {
        let (code, text) = self.send(who, what, body).await;
        assert!((200..300).contains(&code), "{who} {what}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// The message of an answer that does not.
    pub async fn refused(&self, who: &str, what: &str, body: &str) -> String {
        let (code, text) = self.send(who, what, body).await;
        assert!(code >= 400, "{who} {what}: {text}");
        let status: Value = serde_json::from_str(&text).unwrap();
        format!("{code} {}", status["message"].as_str().unwrap_or(&text))
    }

    /// Asks the server as its administrator until the answer is as wanted.
    pub async fn until(&self, what: &str, wanted: impl Fn(&(u16, String)) -> bool) {
        let asking = async {
            while !wanted(&self.send("admin", what, "").await) {
                tokio::task::yield_now().await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), asking).await;
        waited.unwrap_or_else(|_| panic!("{what}: not as wanted"));
    }

    pub async fn stop(self) {
        self.server.stop().await.unwrap();
    }
}
