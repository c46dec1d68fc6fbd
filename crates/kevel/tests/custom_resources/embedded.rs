//! Resources inside of resources (`x-kubernetes-embedded-resource`), and metadata at large.

use kevel_test_support::Cluster;
use serde_json::{Value, json};

use super::{CustomResources as _, definition};

const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn embedded(more: Value) -> Value {
    let mut schema = json!({"type": "object", "x-kubernetes-embedded-resource": true});
    schema.as_object_mut().unwrap().append(&mut more.as_object().unwrap().clone());
    schema
}

/// A definition of widgets with these properties.
fn widgets(properties: Value) -> Value {
    let schema = json!({"type": "object", "properties": properties});
    let version = json!({"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": schema}});
    definition("widgets", "Widget", json!([version]))
}

fn widget(name: &str, mut fields: Value) -> String {
    fields["apiVersion"] = "example.com/v1".into();
    fields["kind"] = "Widget".into();
    fields["metadata"]["name"] = name.into();
    fields.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_resources_get_defaults_of_their_metadata() {
    let types = json!({
        "apiVersion": {"type": "string", "default": "foos/v1"},
        "kind": {"type": "string", "default": "Foo"},
    });
    let with = |metadata: Value| {
        let mut properties = types.clone();
        properties["metadata"] = metadata;
        json!({"properties": properties})
    };
    let by_field = with(json!({"type": "object", "properties": {
        "name": {"type": "string", "default": "bar"},
        "unknown": {"type": "string", "default": "unknown"},
    }}));
    let whole = with(json!({"type": "object", "default": {"name": "bar", "unknown": "unknown"}}));
    let object = json!({"apiVersion": "foos/v1", "kind": "Foo",
        "metadata": {"name": "bar", "unknown": "unknown"}});
    let as_object = json!({"properties": {"foo": {"type": "string"}}, "default": object});
    let around = json!({"type": "object",
        "properties": {"inside": embedded(json!({"properties": {"foo": {"type": "string"}}}))},
        "default": {"inside": object}});
    let cluster = Cluster::alone().await;
    let mut properties = json!({});
    for (prefix, preserve) in [("", false), ("open-", true)] {
        for (name, schema) in [("fields", &by_field), ("whole", &whole), ("object", &as_object)] {
            let mut schema = embedded(schema.clone());
            if preserve {
                schema["x-kubernetes-preserve-unknown-fields"] = true.into();
            }
            properties[format!("{prefix}{name}")] = schema;
        }
    }
    properties["around"] = around;
    cluster.define(widgets(properties)).await;
    let sent = json!({"fields": {"metadata": {}}, "whole": {}, "open-fields": {"metadata": {}}, "open-whole": {}});
    let made = cluster.ok("admin", &format!("POST {WIDGETS}"), &widget("a", sent)).await;
    let found = cluster.ok("admin", &format!("GET {WIDGETS}/a"), "").await;
    let expected = json!({"apiVersion": "foos/v1", "kind": "Foo", "metadata": {"name": "bar"}});
    for widget in [made, found] {
        for path in [
            "/fields",
            "/whole",
            "/object",
            "/open-fields",
            "/open-whole",
            "/open-object",
            "/around/inside",
        ] {
            assert_eq!(widget.pointer(path), Some(&expected), "{path}: {widget}");
        }
    }
    cluster.stop().await;
}
