//! Tables, as `kubectl get` asks for them.
#![allow(clippy::unwrap_used)] // Helpers of tests are not in a test module here.

use http_body_util::BodyExt as _;
use kevel_registry::storage::Format;
use kevel_server::body::Body;
use kevel_test_support::{InMemory, soon};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const CM: &str = "/api/v1/namespaces/ns/configmaps";

/// Request for a table.
trait Tables {
    async fn create(&self, path: &str, body: &str);
    async fn table(&self, path: &str) -> String;
}

impl Tables for InMemory {
    async fn create(&self, path: &str, body: &str) {
        self.ok(&format!("POST {path}"), body, 201).await;
    }

    async fn table(&self, path: &str) -> String {
        let response = self.accept(&format!("GET {path}"), TABLE).await;
        assert_eq!(response.status(), 200, "{path}");
        text(response).await
    }
}

async fn text(response: http::Response<Body>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

#[tokio::test]
async fn a_list_is_a_table_of_its_objects() {
    let server = InMemory::start(Format::Protobuf).await;
    for name in ["a", "b", "c"] {
        let body = format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"k":"v"}}}}"#);
        server.create(CM, &body).await;
    }
    let table = server.table(&format!("{CM}?limit=2")).await;
    let head = r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":""#;
    assert!(table.starts_with(head), "{table}");
    let object = r#""object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","namespace":"ns","uid":"#;
    has(
        &table,
        &[
            r#""continue":""#,
            r#""remainingItemCount":1},"columnDefinitions":[{"name":"Name","type":"string","format":"name","description":""#,
            r#""priority":0}],"rows":[{"cells":["a",1,""#,
            object,
            r#"{"cells":["b",1,""#,
        ],
    );
    assert!(!table.contains(r#""data":"#), "{table}");
    let empty = server.table("/api/v1/namespaces/none/configmaps").await;
    assert!(empty.ends_with("\"rows\":[]}\n"), "{empty}");
}

#[tokio::test]
async fn include_object_selects_the_object_beside_a_row() {
    let server = InMemory::start(Format::Protobuf).await;
    server.create(CM, r#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#).await;
    for path in [CM.to_owned(), format!("{CM}/a")] {
        let none = server.table(&format!("{path}?includeObject=None")).await;
        has(&none, &[r#""rows":[{"cells":["a",1,""#]);
        assert!(none.ends_with("\"],\"object\":null}]}\n"), "{none}");
        let whole = server.table(&format!("{path}?includeObject=Object")).await;
        has(
            &whole,
            &[
                r#""object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"#,
                r#""data":{"k":"v"}"#,
            ],
        );
        let response = server.accept(&format!("GET {path}?includeObject=All"), TABLE).await;
        assert_eq!(response.status(), 400);
        has(&text(response).await, &["Unable to convert to Table as requested: includeObject"]);
    }
}

#[tokio::test]
async fn versions_of_a_kind_have_the_same_cells() {
    let server = InMemory::start(Format::Protobuf).await;
    let body = r#"{"metadata":{"name":"h"},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"maxReplicas":3,"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}]}}"#;
    let path = |version: &str| {
        format!("/apis/autoscaling/{version}/namespaces/ns/horizontalpodautoscalers")
    };
    server.create(&path("v2"), body).await;
    for version in ["v1", "v2"] {
        let path = path(version);
        for path in
            [format!("{path}/h?includeObject=Object"), format!("{path}?includeObject=Object")]
        {
            let table = server.table(&path).await;
            has(&table, &[r#"["h","Deployment/d","cpu: \u003cunknown\u003e/80%","1",3,0,""#]);
            has(&table, &[&format!(r#""apiVersion":"autoscaling/{version}""#)]);
        }
    }
    let event = r#"{"metadata":{"name":"e"},"involvedObject":{"kind":"Pod","name":"p","namespace":"ns"},"reason":"R","message":"m","type":"Normal"}"#;
    server.create("/api/v1/namespaces/ns/events", event).await;
    for path in ["/api/v1/namespaces/ns/events", "/apis/events.k8s.io/v1/namespaces/ns/events"] {
        has(&server.table(path).await, &[r#""Normal","R","pod/p","","","m","#]);
    }
}

#[tokio::test]
async fn rows_of_pods_that_have_ended_are_marked() {
    let server = InMemory::start(Format::Protobuf).await;
    let path = "/api/v1/namespaces/ns/pods";
    let pod = r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]},"status":{"phase":"Failed"}}"#;
    server.create(path, pod).await;
    assert!(!server.table(path).await.contains(r#""conditions""#));
    server.ok(&format!("PUT {path}/p/status"), pod, 200).await;
    let marked = r#""conditions":[{"type":"Completed","status":"True","reason":"Failed","message":"The pod failed."}],"object":"#;
    has(&server.table(path).await, &[r#""cells":["p","0/1","Failed","0",""#, marked]);
}

#[tokio::test]
async fn of_a_watch_s_tables_only_the_first_has_headers() {
    let server = InMemory::start(Format::Protobuf).await;
    server.create(CM, r#"{"metadata":{"name":"a"}}"#).await;
    server.create(CM, r#"{"metadata":{"name":"b"}}"#).await;
    let watch = format!(
        "GET {CM}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&includeObject=None"
    );
    let mut first = server.accept(&watch, TABLE).await.into_body();
    let mut lines = initial(&mut first).await;
    server.create(CM, r#"{"metadata":{"name":"c"}}"#).await;
    lines.push(piece(&mut first).await);
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines[0].starts_with(r#"{"type":"ADDED","object":{"kind":"Table""#), "{}", lines[0]);
    has(&lines[0], &[r#""columnDefinitions":[{"#, r#""rows":[{"cells":["a",0,""#]);
    has(&lines[1], &[r#""columnDefinitions":null"#, r#"{"cells":["b",0,""#]);
    has(&lines[2], &["BOOKMARK", r#"["",0,"\u003cunknown\u003e"]"#, "k8s.io/initial-events-end"]);
    has(&lines[3], &[r#""columnDefinitions":null"#, r#"{"cells":["c",0,""#]);
}

async fn initial(body: &mut Body) -> Vec<String> {
    let mut text = String::new();
    while !text.contains("BOOKMARK") {
        text += &piece(body).await;
    }
    text.lines().map(str::to_owned).collect()
}

async fn piece(body: &mut Body) -> String {
    let frame = soon(body.frame()).await.unwrap().unwrap();
    String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
}
