//! Services: their addresses and ports, and the cluster's own Service.

#![allow(clippy::unwrap_used)]

mod addresses;
mod bootstrap;
mod node_ports;
mod repair;
mod updates;
mod validation;

use kevel::{Builder, Server};
use kube::Client;
use serde_json::{Value, json};

/// A server with its administrator's client.
struct Cluster {
    server: Server,
    client: Client,
}

/// What a request got: its code and the body.
type Answer = (u16, Value);

impl Cluster {
    async fn start() -> Self {
        Self::with(Server::builder()).await
    }

    async fn with(builder: Builder) -> Self {
        let server = builder.start().await.unwrap();
        let client = Client::try_from(server.client_config().await.unwrap()).unwrap();
        let cluster = Cluster { server, client };
        let namespace = json!({"metadata": {"name": "test"}});
        let (code, made) = cluster.send("POST", "/api/v1/namespaces", Some(namespace)).await;
        assert!(code == 201 || code == 409, "{made}");
        cluster
    }

    async fn send(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        let content_type = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .body(body.into_bytes())
            .unwrap();
        let response = self.client.send(request.map(Into::into)).await.unwrap();
        let code = response.status().as_u16();
        let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap();
        (code, serde_json::from_slice(&body.to_bytes()).unwrap())
    }

    async fn get(&self, path: &str) -> Value {
        let (code, body) = self.send("GET", path, None).await;
        assert_eq!(code, 200, "{body}");
        body
    }

    async fn create(&self, name: &str, spec: Value) -> Answer {
        self.send("POST", SERVICES, Some(service(name, spec))).await
    }

    /// A Service that must come about.
    async fn service(&self, name: &str, spec: Value) -> Value {
        let (code, body) = self.create(name, spec).await;
        assert_eq!(code, 201, "{body}");
        body
    }

    async fn patch(&self, name: &str, patch: Value) -> Answer {
        self.send("PATCH", &format!("{SERVICES}/{name}"), Some(patch)).await
    }

    async fn delete(&self, path: &str) {
        let (code, body) = self.send("DELETE", path, None).await;
        assert_eq!(code, 200, "{body}");
    }

    /// The addresses that are taken, sorted as texts.
    async fn addresses(&self) -> Vec<String> {
        let list = self.get("/apis/networking.k8s.io/v1/ipaddresses").await;
        let items = list["items"].as_array().unwrap();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }
}

const SERVICES: &str = "/api/v1/namespaces/test/services";

fn service(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": spec})
}

/// A Service with one port.
fn plain() -> Value {
    json!({"selector": {"app": "web"}, "ports": [{"port": 80}]})
}

fn typed(ty: &str) -> Value {
    json!({"type": ty, "selector": {"app": "web"}, "ports": [{"port": 80}]})
}

/// Waits until something holds. What is waited for is looked at again and again, not for long.
async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let looks = async {
        while !holds().await {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let done = tokio::time::timeout(std::time::Duration::from_secs(60), looks).await;
    assert!(done.is_ok(), "{what}");
}
