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

#[tokio::test(flavor = "multi_thread")]
async fn definition_stored_with_non_structural_schema_has_its_condition() {
    let Some(replicas) = Replicas::new().await else { return };
    let server = replicas.start("first", &[]).await;
    // As v1beta1 was: without a generation, and with a property that has no type.
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com", "uid": "u", "creationTimestamp": "2020-01-01T00:00:00Z"},
        "spec": {
            "group": "example.com", "version": "v1", "scope": "Namespaced", "preserveUnknownFields": false,
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true}],
            "validation": {"openAPIV3Schema": {"type": "object", "properties": {"foo": {}}}},
        },
        "status": {"acceptedNames": {"plural": "", "kind": ""}, "conditions": [], "storedVersions": ["v1"]},
    });
    let key = "/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com";
    put(&replicas, key, &definition).await;
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let condition = |found: &Value| {
        let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == "NonStructuralSchema")
    };
    until(async || condition(&server.admin.get(&path).await.1).is_some()).await;
    let (_, found) = server.admin.get(&path).await;
    let condition_now = condition(&found).unwrap();
    assert_eq!(condition_now["status"], "True");
    let why = "spec.versions[0].schema.openAPIV3Schema.properties[foo].type: Required value: must not be empty for \
               specified object fields";
    assert_eq!(condition_now["message"], why);
    // Such a schema is told to no client.
    until(async || server.admin.get(WIDGETS).await.0 == 200).await;
    let (_, v2) = server.admin.get("/openapi/v2").await;
    let (_, v3) = server.admin.get("/openapi/v3/apis/example.com/v1").await;
    for published in [
        &v2["definitions"]["com.example.v1.Widget"],
        &v3["components"]["schemas"]["com.example.v1.Widget"],
    ] {
        assert_eq!(published["type"], "object", "{published}");
        assert!(published.get("properties").is_none(), "{published}");
    }
    // Once it is structural, the condition goes, and it is told.
    let string = json!({"type": "string"});
    until(async || {
        // Controllers may write its status in between.
        let (_, mut found) = server.admin.get(&path).await;
        found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["foo"] =
            string.clone();
        let (code, updated) = server.admin.send("PUT", &path, &[], &found.to_string()).await;
        assert!(code == 200 || code == 409, "{updated}");
        code == 200
    })
    .await;
    until(async || condition(&server.admin.get(&path).await.1).is_none()).await;
    let v3 = "/openapi/v3/apis/example.com/v1";
    let told = |document: Value| {
        let path = "/components/schemas/com.example.v1.Widget/properties/foo/type";
        document.pointer(path).is_some_and(|ty| ty == "string")
    };
    until(async || told(server.admin.get(v3).await.1)).await;
    server.stop().await;
}
