//! Custom resources: from a definition to objects of a kind that nobody knew before.

#![allow(clippy::unwrap_used)]

mod conversion;
mod definitions;
mod documents;
mod objects;
mod webhook;

use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kevel::{Builder, Server};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

/// A server and its administrator.
struct Cluster {
    server: Server,
    client: Client,
}

impl Cluster {
    async fn start() -> Self {
        Cluster::with(Server::builder()).await
    }

    async fn with(builder: Builder) -> Self {
        let server = builder.start().await.unwrap();
        let client = Client::try_from(server.client_config().await.unwrap()).unwrap();
        let cluster = Cluster { server, client };
        // The system's namespaces come by themselves.
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> =
            Api::all(cluster.client.clone());
        let mut seen = watcher(namespaces, watcher::Config::default()).applied_objects().boxed();
        while seen.try_next().await.unwrap().is_some_and(|seen| seen.name_any() != "default") {}
        cluster
    }

    fn definitions(&self) -> Api<CustomResourceDefinition> {
        Api::all(self.client.clone())
    }

    /// Makes a definition and waits until it is served.
    async fn define(&self, definition: Value) -> CustomResourceDefinition {
        let definition = serde_json::from_value(definition).unwrap();
        let made = self.definitions().create(&PostParams::default(), &definition).await.unwrap();
        self.established(&made.name_any()).await;
        made
    }

    async fn established(&self, name: &str) {
        let established = conditions::is_crd_established();
        await_condition(self.definitions(), name, established).await.unwrap();
    }

    /// The objects of a kind in the default namespace.
    fn objects(&self, version: &str, kind: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("example.com", version, kind);
        Api::default_namespaced_with(self.client.clone(), &ApiResource::from_gvk(&kind))
    }

    /// What a request is answered with: a code, and the text of what follows.
    async fn send(&self, method: &str, path: &str, media: &str, body: &str) -> (u16, String) {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media)
            .header("accept", "application/json")
            .body(kube::client::Body::from(body.as_bytes().to_vec()))
            .unwrap();
        let answer = self.client.send(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        let body = body.collect_bytes().await.unwrap();
        (parts.status.as_u16(), String::from_utf8(body.to_vec()).unwrap())
    }

    async fn get(&self, path: &str) -> (u16, String) {
        self.send("GET", path, "", "").await
    }

    async fn stop(self) {
        drop(self.client);
        self.server.stop().await.unwrap();
    }
}

/// A definition of widgets in `example.com`, with these versions.
fn widgets(versions: Value) -> Value {
    definition("widgets", "Widget", versions)
}

fn definition(plural: &str, kind: &str, versions: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": versions,
        },
    })
}

/// A version that is served and stored, with a schema of the spec's fields.
fn version(name: &str, fields: Value) -> Value {
    json!({
        "name": name,
        "served": true,
        "storage": true,
        "schema": {"openAPIV3Schema": {
            "type": "object",
            "properties": {
                "spec": {"type": "object", "properties": fields},
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            },
        }},
    })
}

/// An object of the default namespace.
fn object(version: &str, kind: &str, name: &str, spec: Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": format!("example.com/{version}"),
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }))
    .unwrap()
}

/// The code and the message of a failure.
fn failure<T: std::fmt::Debug>(result: kube::Result<T>) -> (u16, String) {
    match result.unwrap_err() {
        kube::Error::Api(status) => (status.code, status.message.clone()),
        other => panic!("{other}"),
    }
}
