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

/// A schema of embedded resources at each kind of place.
fn places() -> Value {
    let open = || embedded(json!({"x-kubernetes-preserve-unknown-fields": true}));
    json!({
        "one": open(),
        "list": {"type": "array", "items": open()},
        "map": {"type": "object", "additionalProperties": open()},
        "nested": embedded(json!({"properties": {
            "apiVersion": {"type": "string"}, "metadata": {"type": "object"}, "inner": open(),
        }})),
        "plain": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    })
}

/// An embedded resource with this metadata.
fn foo(metadata: Value) -> Value {
    json!({"apiVersion": "foo/v1", "kind": "Foo", "metadata": metadata})
}

#[tokio::test(flavor = "multi_thread")]
async fn wrongly_typed_embedded_metadata_is_refused_with_its_path() {
    let cluster = Cluster::alone().await;
    cluster.define(widgets(places())).await;
    let post = format!("POST {WIDGETS}");
    let of_name =
        "json: cannot unmarshal number into Go struct field ObjectMeta.namespace of type string";
    let wrong = || foo(json!({"namespace": 42, "name": "a"}));
    let shown = r#"{"name":"a","namespace":42}"#;
    let cases = [
        (json!({"one": wrong()}), format!("one.metadata: Invalid value: {shown}: {of_name}")),
        (
            json!({"list": [foo(json!({})), wrong()]}),
            format!("list[1].metadata: Invalid value: {shown}: {of_name}"),
        ),
        (json!({"map": {"k": wrong()}}), format!("map[k].metadata: Invalid value: {shown}: {of_name}")),
        (
            json!({"nested": {"apiVersion": "a/v1", "kind": "A", "inner": wrong()}}),
            format!("nested.inner.metadata: Invalid value: {shown}: {of_name}"),
        ),
        (
            json!({"one": foo(json!("a"))}),
            "one.metadata: Invalid value: \"a\": json: cannot unmarshal string into Go value of type v1.ObjectMeta"
                .to_owned(),
        ),
        (
            json!({"one": {"apiVersion": 1, "kind": "Foo"}}),
            "one.apiVersion: Invalid value: 1: must be a string".to_owned(),
        ),
        (
            json!({"one": {"apiVersion": "a/v1", "kind": null}}),
            "one.kind: Invalid value: null: must be a string".to_owned(),
        ),
        // What is wrong with the object's own metadata is told first.
        (
            json!({"one": wrong(), "metadata": {"labels": {"a": 1}}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string".to_owned(),
        ),
    ];
    for (fields, why) in cases {
        let refused = cluster.refused("admin", &post, &widget("a", fields.clone())).await;
        let expected =
            format!(r#"400 Widget in version "v1" cannot be handled as a Widget: {why}"#);
        assert_eq!(refused, expected, "{fields}");
    }
    let plain = json!({"plain": wrong(), "nested": {"apiVersion": "a/v1", "kind": "A", "metadata": null},
        "one": {"apiVersion": "a/v1", "kind": "A", "metadata": null}});
    let made = cluster.ok("admin", &post, &widget("a", plain)).await;
    assert_eq!(made["plain"], wrong());
    assert_eq!(made["one"]["metadata"], json!({}));
    assert_eq!(made["nested"].get("metadata"), None);
    let patch = json!({"one": wrong()}).to_string();
    let refused = cluster.refused("admin", &format!("PATCH {WIDGETS}/a"), &patch).await;
    let why = format!("one.metadata: Invalid value: {shown}: {of_name}");
    assert!(refused.starts_with("422") && refused.ends_with(&why), "{refused}");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_fields_of_embedded_metadata_are_told_last() {
    let cluster = Cluster::alone().await;
    cluster.define(widgets(places())).await;
    let body = r#"{"apiVersion":"example.com/v1","kind":"Widget","zz":1,
        "map":{"k":{"apiVersion":"a/v1","kind":"A","metadata":{"name":"a","other":1}}},
        "list":[{"apiVersion":"a/v1","kind":"A","metadata":{"zz":1,"aa":1}}],
        "nested":{"apiVersion":"a/v1","kind":"A","unknown":1,"aa":1},
        "metadata":{"zz":1,"name":"a","name":"a","ownerReferences":[{"zz":1,"aa":1,"apiVersion":"v1","kind":"A","name":"a","uid":"u"}],"aa":1},
        "aa":1}"#;
    let expected = [
        r#"duplicate field "metadata.name""#,
        r#"unknown field "metadata.aa""#,
        r#"unknown field "metadata.ownerReferences[0].aa""#,
        r#"unknown field "metadata.ownerReferences[0].zz""#,
        r#"unknown field "metadata.zz""#,
        r#"unknown field "aa""#,
        r#"unknown field "nested.aa""#,
        r#"unknown field "nested.unknown""#,
        r#"unknown field "zz""#,
        r#"unknown field "list[0].metadata.aa""#,
        r#"unknown field "list[0].metadata.zz""#,
        r#"unknown field "map[k].metadata.other""#,
    ];
    let strict = format!("POST {WIDGETS}?fieldValidation=Strict");
    let refused = cluster.refused("admin", &strict, body).await;
    let all = format!("strict decoding error: {}", expected.join(", "));
    assert_eq!(
        refused,
        format!(r#"400 Widget in version "v1" cannot be handled as a Widget: {all}"#)
    );
    let (warnings, _) =
        cluster.warned("admin", &format!("POST {WIDGETS}?fieldValidation=Warn"), body).await;
    let quoted = expected.map(|text| format!("299 - \"{}\"", text.replace('"', "\\\"")));
    assert_eq!(warnings, quoted);
    let patch = r#"{"zz":1,"aa":1,"one":{"apiVersion":"a/v1","kind":"A","metadata":{"other":1}}}"#;
    let strict = format!("PATCH {WIDGETS}/a?fieldValidation=Strict");
    let refused = cluster.refused("admin", &strict, patch).await;
    let all =
        [r#"unknown field "aa""#, r#"unknown field "zz""#, r#"unknown field "one.metadata.other""#];
    assert!(refused.ends_with(&format!("strict decoding error: {}", all.join(", "))), "{refused}");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_metadata_of_custom_objects_is_dropped() {
    let cluster = Cluster::alone().await;
    cluster.define(widgets(places())).await;
    let empty = || {
        json!({"labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": [],
            "creationTimestamp": null, "deletionTimestamp": null, "generateName": ""})
    };
    let sent = json!({"metadata": empty(), "one": foo(empty()), "plain": foo(empty())});
    let mut writes = vec![
        (format!("POST {WIDGETS}"), widget("posted", sent.clone())),
        (format!("POST {WIDGETS}?dryRun=All"), widget("dry", sent.clone())),
        (format!("APPLY {WIDGETS}/applied?fieldManager=a"), widget("applied", sent.clone())),
        (format!("APPLY {WIDGETS}/applied?fieldManager=a"), widget("applied", sent.clone())),
    ];
    let patch = json!({"metadata": empty(), "one": foo(empty()), "plain": foo(empty())});
    writes.push((format!("PATCH {WIDGETS}/posted"), patch.to_string()));
    for (what, body) in writes {
        let made = cluster.ok("admin", &what, &body).await;
        let metadata = made["metadata"].as_object().unwrap();
        for field in ["labels", "annotations", "finalizers", "ownerReferences", "generateName"] {
            assert!(!metadata.contains_key(field), "{what}: {made}");
        }
        assert_eq!(made["one"], foo(json!({})), "{what}");
    }
    // They are kept where they are no metadata.
    let made = cluster.ok("admin", &format!("GET {WIDGETS}/posted"), "").await;
    assert_eq!(made["plain"]["metadata"]["labels"], json!({}));
    let put = made.to_string();
    let again = cluster.ok("admin", &format!("PUT {WIDGETS}/posted"), &put).await;
    assert_eq!(again["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    cluster.stop().await;
}
