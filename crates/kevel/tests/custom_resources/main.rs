//! Custom resources: from a definition to objects of a new kind.

#![allow(clippy::unwrap_used)]

mod built_in;
mod cbor;
mod conversion;
mod converted;
mod definitions;
mod documents;
mod embedded;
mod objects;
mod webhook;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kevel_test_support::{Cluster, soon};
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::{Value, json};

/// Requests for definitions, and for objects of the group `example.com`.
trait CustomResources {
    fn definitions(&self) -> Api<CustomResourceDefinition>;

    /// Makes a definition and waits until it is served.
    async fn define(&self, definition: Value) -> CustomResourceDefinition;

    async fn established(&self, name: &str);

    /// The objects of a kind in the default namespace.
    fn objects(&self, version: &str, kind: &str) -> Api<DynamicObject>;

    /// The code of an answer, and its text.
    async fn get(&self, path: &str) -> (u16, String);
}

impl CustomResources for Cluster {
    fn definitions(&self) -> Api<CustomResourceDefinition> {
        Api::all(self.admin.0.clone())
    }

    async fn define(&self, definition: Value) -> CustomResourceDefinition {
        let definition = serde_json::from_value(definition).unwrap();
        let made = self.definitions().create(&PostParams::default(), &definition).await.unwrap();
        self.established(&made.name_any()).await;
        made
    }

    async fn established(&self, name: &str) {
        let established = conditions::is_crd_established();
        soon(await_condition(self.definitions(), name, established)).await.unwrap();
    }

    fn objects(&self, version: &str, kind: &str) -> Api<DynamicObject> {
        objects(self.admin.0.clone(), version, kind)
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let answer = self.admin.raw("GET", path, &[("accept", "application/json")], "").await;
        (answer.status().as_u16(), answer.into_body())
    }
}

/// The objects of a kind in the default namespace.
fn objects(client: kube::Client, version: &str, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("example.com", version, kind);
    Api::default_namespaced_with(client, &ApiResource::from_gvk(&kind))
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
