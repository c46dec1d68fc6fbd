//! Who asks: every way to say it, and every way to be refused.

#![allow(clippy::unwrap_used)]

mod bootstrap_token;
mod ca;
mod client_certificate;
mod distributed;
mod external_signer;
mod forgeries;
mod front_proxy;
mod issuer;
mod outside;
mod service_account;
mod webhook;

use std::future::Future;
use std::time::Duration;

use ca::Ca;
use kevel::{Builder, Server};
use kube::config::AuthInfo;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server and the folder of its keys.
struct Cluster {
    server: Server,
    config: kube::Config,
    folder: TempDir,
}

/// What is answered: a code and an object, or a code and a Status.
type Answer = (u16, Value);

impl Cluster {
    async fn start(flags: &[String]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let builder = Server::builder().data_dir(folder.path()).flag("--storage=memory");
        let builder = flags.iter().fold(builder, |builder: Builder, flag| builder.flag(flag));
        let server = builder.start().await.unwrap();
        let config = server.client_config().await.unwrap();
        let cluster = Cluster { server, config, folder };
        until(async || cluster.admin().get("/api/v1/namespaces/kube-system").await.0 == 200).await;
        until(async || cluster.admin().get("/api/v1/namespaces/default").await.0 == 200).await;
        cluster
    }

    fn somebody(&self, auth: AuthInfo) -> Somebody {
        let mut config = self.config.clone();
        config.auth_info = auth;
        Somebody(kube::Client::try_from(config).unwrap())
    }

    fn admin(&self) -> Somebody {
        self.somebody(self.config.auth_info.clone())
    }

    fn bearer(&self, token: &str) -> Somebody {
        let token = Some(token.to_owned().into());
        self.somebody(AuthInfo { token, ..AuthInfo::default() })
    }

    fn certified(&self, (certificate, key): &(String, String)) -> Somebody {
        let encode = |text: &String| kevel_codec::base64::encode(text.as_bytes()).to_string();
        self.somebody(AuthInfo {
            client_certificate_data: Some(encode(certificate)),
            client_key_data: Some(encode(key).into()),
            ..AuthInfo::default()
        })
    }

    /// What a review says about a token: its user, or why it is refused.
    async fn review(&self, token: &str, audiences: &[&str]) -> Value {
        let review = json!({"spec": {"token": token, "audiences": audiences}});
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let (code, review) = self.admin().post(path, &review).await;
        assert_eq!(code, 201, "{review}");
        review["status"].clone()
    }

    /// Why a token is refused; nothing if it is not.
    async fn refusal(&self, token: &str, audiences: &[&str]) -> String {
        let status = self.review(token, audiences).await;
        let error = status["error"].as_str().unwrap_or("").to_owned();
        assert_eq!(error.is_empty(), status["authenticated"] == true, "{status}");
        let reason = error.strip_prefix("[invalid bearer token, ");
        reason.and_then(|reason| reason.strip_suffix(']')).unwrap_or(&error).to_owned()
    }

    /// What the server counts.
    async fn metrics(&self) -> String {
        let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
        self.admin().0.request_text(request).await.unwrap()
    }

    async fn stop(self) {
        self.server.stop().await.unwrap();
    }
}

/// A client with credentials of its own.
struct Somebody(kube::Client);

impl Somebody {
    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = http::Request::builder().method(method).uri(path);
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.as_bytes().to_vec()).unwrap();
        match self.0.request::<Value>(request).await {
            Ok(object) if method == "POST" => (201, object),
            Ok(object) => (200, object),
            Err(kube::Error::Api(status)) => (status.code, serde_json::to_value(&status).unwrap()),
            Err(other) => panic!("{path}: {other}"),
        }
    }

    async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    async fn post(&self, path: &str, object: &Value) -> Answer {
        self.send("POST", path, &[], &object.to_string()).await
    }

    async fn create(&self, path: &str, object: &Value) -> Value {
        let (code, made) = self.post(path, object).await;
        assert_eq!(code, 201, "{path}: {made}");
        made
    }

    async fn delete(&self, path: &str) {
        let (code, answer) = self.send("DELETE", path, &[], "").await;
        assert_eq!(code, 200, "{path}: {answer}");
    }

    /// Who the server takes this client for; `None` if it is refused.
    async fn whoami(&self, headers: &[(&str, &str)]) -> Option<Value> {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        match self.send("POST", path, headers, &review.to_string()).await {
            (201, review) => Some(review["status"]["userInfo"].clone()),
            (401, status) => {
                assert_eq!(status["message"], "Unauthorized");
                None
            }
            (code, answer) => panic!("{code} {answer}"),
        }
    }

    async fn username(&self) -> Option<String> {
        self.whoami(&[]).await.map(|user| user["username"].as_str().unwrap().to_owned())
    }
}

/// Waits until something is so.
async fn until<F: Future<Output = bool>>(mut so: impl FnMut() -> F) {
    let waiting = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap();
}

fn now() -> i64 {
    kevel_api::time::Time::now().seconds
}

/// The claims of a token, which nobody has verified.
fn claims(token: &str) -> Value {
    let claims = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&kevel_codec::base64::decode_url(claims).unwrap()).unwrap()
}

fn sign(key: &kevel_auth::jose::PrivateKey, claims: &Value) -> String {
    let text = claims.to_string();
    let claims = kevel_codec::json::decode_any(text.as_bytes(), kevel_codec::json::Unknown::Ignore);
    kevel_auth::jose::sign(key, &claims.unwrap().value).unwrap()
}

/// A token that nobody signed, or somebody in another way than the header should say.
fn forge(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let [header, claims] =
        [header, claims].map(|part| kevel_codec::base64::encode_url(part.to_string().as_bytes()));
    let signed = format!("{header}.{claims}");
    let signature = kevel_codec::base64::encode_url(&sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

/// The public key taken for a shared secret.
fn confused(public: &str) -> impl Fn(&[u8]) -> Vec<u8> {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, public.as_bytes());
    move |message| ring::hmac::sign(&key, message).as_ref().to_vec()
}
