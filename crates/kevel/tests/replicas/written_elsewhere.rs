//! Objects in etcd that no server of today would have written: they are read all the same.

use bytes::Bytes;
use kevel_store::Engine as _;
use kevel_store::etcd::{Etcd, Options};
use kevel_test_support::{Replica, Replicas, until};
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// Writes an object past the servers.
async fn put(replicas: &Replicas, key: &str, object: &Value) {
    let options = Options { endpoints: vec![replicas.etcd.endpoint.clone()], ..Options::default() };
    let etcd = Etcd::connect(options).await.unwrap();
    etcd.create(key.as_bytes(), Bytes::from(object.to_string()), None).await.unwrap();
    etcd.close().await;
}

async fn define(server: &Replica, properties: Value) {
    let schema = json!({"type": "object", "properties": properties});
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    server.admin.create(DEFINITIONS, &definition).await;
    until(async || server.admin.get(WIDGETS).await.0 == 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_objects_stored_with_wrongly_typed_metadata_are_served() {
    let Some(replicas) = Replicas::new().await else { return };
    let server = replicas.start("first", &[]).await;
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true});
    define(&server, json!({"embedded": embedded})).await;
    let wrong = [
        ("labels", json!({"a": 42, "b": "c"})),
        ("labels", json!("a")),
        ("annotations", json!({"a": {}})),
        ("finalizers", json!([1])),
        ("finalizers", json!({})),
        ("ownerReferences", json!([{"name": 1}])),
        ("managedFields", json!(1)),
        ("generateName", json!(1)),
        ("selfLink", json!([])),
        ("generation", json!("a")),
        ("creationTimestamp", json!("yesterday")),
        ("deletionTimestamp", json!(1)),
        ("deletionGracePeriodSeconds", json!("a")),
    ];
    for (number, (field, value)) in wrong.iter().enumerate() {
        let name = format!("w{number}");
        let mut object = json!({
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"invalid": "x y"}, "unknown": 1},
            "embedded": {"apiVersion": 1, "kind": "A", "metadata": {"name": "e", "labels": {"invalid": "x y"}, "unknown": 1}},
        });
        object["metadata"][field] = value.clone();
        object["embedded"]["metadata"][field] = value.clone();
        put(&replicas, &format!("/registry/example.com/widgets/default/{name}"), &object).await;
        let path = format!("{WIDGETS}/{name}");
        until(async || server.admin.get(&path).await.0 != 404).await;
        let (code, found) = server.admin.get(&path).await;
        assert_eq!(code, 200, "{field}: {found}");
        let mut expected = json!({"name": name, "namespace": "default", "uid": name, "labels": {"invalid": "x y"},
            "generation": 1});
        let mut embedded =
            json!({"kind": "A", "metadata": {"name": "e", "labels": {"invalid": "x y"}}});
        for metadata in [&mut expected, &mut embedded["metadata"]] {
            if *field == "labels" {
                metadata.as_object_mut().unwrap().remove("labels");
            }
        }
        expected["resourceVersion"] = found["metadata"]["resourceVersion"].clone();
        assert_eq!(found["metadata"], expected, "{field}");
        assert_eq!(found["embedded"], embedded, "{field}");
    }
    let (code, list) = server.admin.get(WIDGETS).await;
    assert_eq!((code, list["items"].as_array().unwrap().len()), (200, wrong.len()));
    // They are updated when what is wrong with them is mended.
    let path = format!("{WIDGETS}/w1");
    let (_, mut found) = server.admin.get(&path).await;
    let (code, refused) = server.admin.send("PUT", &path, &[], &found.to_string()).await;
    let why = "embedded.apiVersion: Required value";
    assert!(code == 422 && refused["message"].as_str().unwrap().contains(why), "{refused}");
    found["embedded"]["apiVersion"] = "a/v1".into();
    let (code, written) = server.admin.send("PUT", &path, &[], &found.to_string()).await;
    assert_eq!(code, 200, "{written}");
    for number in 0..wrong.len() {
        server.admin.delete(&format!("{WIDGETS}/w{number}")).await;
    }
    server.stop().await;
}
