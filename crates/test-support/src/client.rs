//! Client of a server under test.

use http_body_util::BodyExt as _;
use serde_json::{Value, json};

/// Client with credentials of its own. It does not retry, because tests check the first answer.
#[derive(Clone)]
pub struct Client(pub kube::Client);

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Client {
    pub(crate) fn new(config: kube::Config) -> Self {
        Client(kube::Client::try_from(config).unwrap())
    }

    /// Response with its body as text.
    pub async fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> http::Response<String> {
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(kube::client::Body::from(body.as_bytes().to_vec())).unwrap();
        let (parts, body) = self.0.send(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        http::Response::from_parts(parts, String::from_utf8_lossy(&body).into_owned())
    }

    /// Status code and body, as JSON if it is, else as a string. A request body is JSON unless a header says otherwise.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, Value) {
        let mut all = headers.to_vec();
        if !body.is_empty() && headers.iter().all(|(name, _)| *name != "content-type") {
            all.push(("content-type", "application/json"));
        }
        let answer = self.raw(method, path, &all, body).await;
        let (code, text) = (answer.status().as_u16(), answer.into_body());
        (code, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// Sends GET.
    pub async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, &[], "").await
    }

    /// Posts an object.
    pub async fn post(&self, path: &str, object: &Value) -> (u16, Value) {
        self.send("POST", path, &[], &object.to_string()).await
    }

    /// Creates an object; fails unless the answer is 201.
    pub async fn create(&self, path: &str, object: &Value) -> Value {
        let (code, made) = self.post(path, object).await;
        assert_eq!(code, 201, "{path}: {made}");
        made
    }

    /// Deletes an object; fails unless the answer is 200.
    pub async fn delete(&self, path: &str) {
        let (code, answer) = self.send("DELETE", path, &[], "").await;
        assert_eq!(code, 200, "{path}: {answer}");
    }

    /// User as which the server authenticates this client (SelfSubjectReview); `None` if it is refused.
    pub async fn whoami(&self, headers: &[(&str, &str)]) -> Option<Value> {
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

    /// Name of the user as which the server authenticates this client; `None` if it is refused.
    pub async fn username(&self) -> Option<String> {
        self.whoami(&[]).await.map(|user| user["username"].as_str().unwrap().to_owned())
    }
}
