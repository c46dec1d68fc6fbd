//! The server's own client: it hands over trees, and gets what clients outside read as text.

use http_body_util::BodyExt as _;
use kevel_api::value::Value;
use kevel_codec::json::{Unknown, decode_any};
use kevel_controller_runtime::Client;
use kevel_registry::storage::Format;
use kevel_test_support::InMemory;

/// Collections, and an object of each.
const OBJECTS: &[(&str, &str)] = &[
    (
        "/api/v1/namespaces/ns/pods",
        r#"{"metadata":{"name":"a","labels":{"x":""}},"spec":{"containers":[{"name":"c","image":"i",
            "resources":{"limits":{"cpu":"1000m","memory":1024}}}],"priority":null,"hostNetwork":false}}"#,
    ),
    (
        "/api/v1/namespaces/ns/services",
        r#"{"metadata":{"name":"a"},"spec":{"ports":[{"port":80,"targetPort":"http"}],"type":"ExternalName","externalName":"x.y"}}"#,
    ),
    ("/api/v1/namespaces/ns/secrets", r#"{"metadata":{"name":"a"},"data":{"a":"YQ==","b":""}}"#),
    (
        "/apis/apps/v1/namespaces/ns/controllerrevisions",
        r#"{"metadata":{"name":"a"},"data":{"b":[1,{"a":2.5}]},"revision":1}"#,
    ),
    (
        "/apis/coordination.k8s.io/v1/namespaces/ns/leases",
        r#"{"metadata":{"name":"a"},"spec":{"renewTime":"2024-01-01T00:00:00.500000Z","leaseTransitions":0}}"#,
    ),
    (
        "/apis/autoscaling/v1/namespaces/ns/horizontalpodautoscalers",
        r#"{"metadata":{"name":"a"},"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"a"}}}"#,
    ),
];

#[tokio::test]
async fn what_is_handed_over_is_what_clients_outside_read() {
    for format in [Format::Json, Format::Protobuf] {
        let server = InMemory::start(format).await;
        let client = Client::new(server.delegate.clone());
        for (path, object) in OBJECTS {
            let named = format!("{path}/a");
            let made = client.create(path, &tree(object)).await.unwrap();
            assert_eq!(made, outside(&server, &named).await, "{path}");
            assert_eq!(client.get(&named).await.unwrap(), made, "{path}");
            // Nothing changes, then something does.
            assert_eq!(client.update(&named, &made).await.unwrap(), made, "{path}");
            let mut changed = made.clone();
            changed.make_map(&["metadata", "labels"]).insert("y", "1".into());
            let changed = client.update(&named, &changed).await.unwrap();
            assert_ne!(changed, made, "{path}");
            assert_eq!(changed, outside(&server, &named).await, "{path}");
            let list = client.get(path).await.unwrap();
            assert_eq!(list.list_at(&["items"]).len(), 1, "{path}");
        }
        let config =
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"x":"1"}}"#;
        let path = "/api/v1/namespaces/ns/configmaps/a";
        for _ in 0..2 {
            let applied = client.apply(path, &tree(config), "m").await.unwrap();
            assert_eq!(applied, outside(&server, path).await);
        }
        assert_eq!(client.delete(path).await.unwrap().str_at(&["status"]), "Success");
    }
}

#[tokio::test]
async fn in_process_errors_equal_those_over_http() {
    let server = InMemory::start(Format::Json).await;
    let client = Client::new(server.delegate.clone());
    let path = "/api/v1/namespaces/ns/pods";
    for object in [
        r#"{"metadata":{"name":"A"},"spec":{"containers":[]}}"#,
        r#"{"metadata":{"name":"a"},"spec":{"containers":{}}}"#,
        r#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","ports":[{"containerPort":"x"}]}]}}"#,
        r#"{"kind":"Service","apiVersion":"v1","metadata":{"name":"a"}}"#,
        r#"{"metadata":{"name":"a","namespace":"other"}}"#,
    ] {
        let told = client.create(path, &tree(object)).await.unwrap_err();
        let response = server.send(&format!("POST {path}"), object, "application/json").await;
        let outside = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(tree(&String::from_utf8(told.status().to_json()).unwrap()), parsed(&outside));
    }
    let missing = client.get(&format!("{path}/a")).await.unwrap_err();
    assert_eq!(missing.status().message, "pods \"a\" not found");
    // Unknown fields are dropped, and no more is said of them to controllers.
    let unknown =
        r#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}],"unknown":1}}"#;
    let made = client.create(path, &tree(unknown)).await.unwrap();
    assert_eq!(made.at(&["spec", "unknown"]), None);
}

#[tokio::test]
async fn a_dry_run_of_a_scale_shows_a_scale() {
    let server = InMemory::start(Format::Json).await;
    let deployment = r#"{"metadata":{"name":"a"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},"template":{
        "metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;
    let path = "/apis/apps/v1/namespaces/ns/deployments";
    server.ok(&format!("POST {path}"), deployment, 201).await;
    let scale = r#"{"metadata":{"name":"a"},"spec":{"replicas":3}}"#;
    let told = server.ok(&format!("PUT {path}/a/scale?dryRun=All"), scale, 200).await;
    assert_eq!(parsed(told.as_bytes()).at(&["spec", "replicas"]), Some(&Value::Int(3)), "{told}");
    assert_eq!(parsed(told.as_bytes()).str_at(&["kind"]), "Scale", "{told}");
    let there = outside(&server, &format!("{path}/a/scale")).await;
    assert_eq!(there.at(&["spec", "replicas"]), Some(&Value::Int(1)));
}

async fn outside(server: &InMemory, path: &str) -> Value {
    tree(&server.ok(&format!("GET {path}"), "", 200).await)
}

fn tree(text: &str) -> Value {
    parsed(text.as_bytes())
}

fn parsed(text: &[u8]) -> Value {
    decode_any(text, Unknown::Ignore).unwrap().value
}
