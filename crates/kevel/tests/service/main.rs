//! Services: their addresses and ports, and the cluster's own Service.

#![allow(clippy::unwrap_used)]

mod addresses;
mod bootstrap;
mod node_ports;
mod repair;
mod updates;
mod validation;

use kevel::{Builder, Server};
use kevel_test_support::Cluster;
use serde_json::{Value, json};

/// Response of a request: its code and the body.
type Answer = (u16, Value);

/// A server with a namespace `test`.
async fn start() -> Cluster {
    with(Server::builder()).await
}

async fn with(builder: Builder) -> Cluster {
    let cluster = Cluster::with(builder.flag("--controllers=")).await;
    let namespace = json!({"metadata": {"name": "test"}});
    let (code, made) = cluster.admin.post("/api/v1/namespaces", &namespace).await;
    assert!(code == 201 || code == 409, "{made}");
    cluster
}

/// Requests about Services of the namespace `test`.
trait Services {
    async fn request(&self, method: &str, path: &str, body: Option<Value>) -> Answer;

    /// Body of a GET that must succeed.
    async fn get(&self, path: &str) -> Value;

    async fn create(&self, name: &str, spec: Value) -> Answer;

    /// A Service that must come about.
    async fn service(&self, name: &str, spec: Value) -> Value;

    async fn patch(&self, name: &str, patch: Value) -> Answer;

    /// The addresses that are taken, sorted as texts.
    async fn addresses(&self) -> Vec<String>;
}

impl Services for Cluster {
    async fn request(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        let content_type = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        self.admin.send(method, path, &[("content-type", content_type)], &body).await
    }

    async fn get(&self, path: &str) -> Value {
        let (code, body) = self.admin.get(path).await;
        assert_eq!(code, 200, "{body}");
        body
    }

    async fn create(&self, name: &str, spec: Value) -> Answer {
        self.admin.post(SERVICES, &service(name, spec)).await
    }

    async fn service(&self, name: &str, spec: Value) -> Value {
        self.admin.create(SERVICES, &service(name, spec)).await
    }

    async fn patch(&self, name: &str, patch: Value) -> Answer {
        self.request("PATCH", &format!("{SERVICES}/{name}"), Some(patch)).await
    }

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
