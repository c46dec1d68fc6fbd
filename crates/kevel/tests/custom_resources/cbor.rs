//! CBOR (`CBORServingAndStorage`): objects of all kinds in bodies and answers, and custom objects in the store.

mod storage;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http_body_util::BodyExt as _;
use kevel_codec::json::Unknown;
use kevel_codec::{cbor, json};
use kevel_test_support::{Cluster, soon};
use serde_json::{Value, json};

use super::{CustomResources as _, version, widgets};

const GATE: &str = "--feature-gates=CBORServingAndStorage=true";
const CBOR: &str = "application/cbor";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// An answer with what was asked in CBOR, and read of it.
struct Answer {
    code: u16,
    media: String,
    body: Bytes,
}

impl Answer {
    /// Its body, in CBOR.
    fn cbor(&self) -> Value {
        assert_eq!(self.media, CBOR, "{self}");
        assert!(self.body.starts_with(cbor::SELF_DESCRIBED), "{self}");
        tree(&self.body)
    }

    /// A failure that is told in CBOR.
    fn failure(&self) -> (u16, String) {
        let status = self.cbor();
        assert_eq!((&status["kind"], &status["apiVersion"]), (&json!("Status"), &json!("v1")));
        (self.code, status["message"].as_str().unwrap().to_owned())
    }

    /// A failure that is told in JSON, or as text.
    fn text(&self) -> (u16, String) {
        let text = String::from_utf8(self.body.to_vec()).unwrap();
        let status: Value = serde_json::from_str(&text).unwrap_or_default();
        (self.code, status["message"].as_str().map_or(text, str::to_owned))
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.code, self.media, String::from_utf8_lossy(&self.body))
    }
}

fn tree(data: &[u8]) -> Value {
    serde_json::from_slice(&cbor::to_json(data).unwrap()).unwrap()
}

/// The bytes of a value.
fn bytes(value: &Value) -> Vec<u8> {
    let value = json::decode_any(value.to_string().as_bytes(), Unknown::Report).unwrap().value;
    let mut out = cbor::SELF_DESCRIBED.to_vec();
    cbor::encode_any(&value, &mut out);
    out
}

async fn ask(cluster: &Cluster, request: &str, headers: [&str; 2], body: Vec<u8>) -> Answer {
    let (method, path) = request.split_once(' ').unwrap();
    let [content_type, accept] = headers;
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .header("accept", accept)
        .body(kube::client::Body::from(body))
        .unwrap();
    let (parts, body) = cluster.admin.0.send(request).await.unwrap().into_parts();
    let media = parts.headers.get("content-type").map_or("", |value| value.to_str().unwrap());
    let media = media.to_owned();
    Answer { code: parts.status.as_u16(), media, body: body.collect().await.unwrap().to_bytes() }
}

/// A request whose body and answer are CBOR.
async fn send(cluster: &Cluster, request: &str, body: Value) -> Answer {
    let body = if body.is_null() { Vec::new() } else { bytes(&body) };
    ask(cluster, request, [CBOR, CBOR], body).await
}

/// The events of a watch in CBOR, each with its object.
async fn watch(cluster: &Cluster, path: &str, count: usize) -> Vec<Value> {
    let request = http::Request::builder().uri(path).header("accept", CBOR);
    let request = request.body(kube::client::Body::empty()).unwrap();
    let answer = cluster.admin.0.send(request).await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/cbor-seq");
    let mut stream = answer.into_body().into_data_stream();
    let (mut read, mut events) = (Vec::new(), Vec::new());
    while events.len() < count {
        read.extend_from_slice(&soon(stream.next()).await.unwrap().unwrap());
        while let Ok((event, rest)) = cbor::first_item(&read) {
            // Both the event and its object are known by their first bytes.
            assert!(event.starts_with(cbor::SELF_DESCRIBED));
            let tags = event.windows(3).filter(|part| part == cbor::SELF_DESCRIBED).count();
            assert_eq!(tags, 2);
            events.push(tree(event));
            read = rest.to_vec();
        }
    }
    events
}

fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

fn scaled() -> Value {
    let fields = json!({"size": {"type": "integer"}, "ratio": {"type": "number"}});
    let mut version = version("v1", fields);
    version["subresources"] = json!({
        "status": {},
        "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.n"},
    });
    widgets(json!([version]))
}

const BODY_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

#[tokio::test(flavor = "multi_thread")]
async fn cbor_is_refused_while_the_gate_is_off() {
    let cluster = Cluster::alone().await;
    cluster.define(scaled()).await;
    for path in [CONFIG_MAPS, WIDGETS] {
        let get = format!("GET {path}/a");
        let (code, message) = ask(&cluster, &get, ["", CBOR], Vec::new()).await.text();
        assert_eq!(code, 406, "{message}");
        assert!(!message.contains("cbor") && message.contains(BODY_TYPES), "{message}");
        let post = format!("POST {path}");
        let (code, message) = ask(&cluster, &post, [CBOR, ""], vec![0xa0]).await.text();
        let types = format!(
            "the body of the request was in an unknown format - accepted media types include: {BODY_TYPES}"
        );
        assert_eq!((code, message), (415, types));
        let patch = format!("PATCH {path}/a?fieldManager=m");
        let apply = ["application/apply-patch+cbor", "application/json"];
        let (code, message) = ask(&cluster, &patch, apply, vec![0xa0]).await.text();
        assert_eq!(code, 415, "{message}");
        assert!(!message.contains("cbor"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn built_in_objects_are_written_and_read_in_cbor() {
    let cluster = Cluster::start(&[GATE]).await;
    let path = CONFIG_MAPS;
    let post = format!("POST {path}");
    let made = send(&cluster, &post, config_map("a", json!({"k": "v"}))).await;
    assert_eq!(made.code, 201, "{made}");
    let mut object = made.cbor();
    assert_eq!(object["data"], json!({"k": "v"}));
    assert_eq!(object["metadata"]["managedFields"][0]["fieldsV1"]["f:data"]["f:k"], json!({}));
    // As JSON it is the same object.
    let get = format!("GET {path}/a");
    let plain = ask(&cluster, &get, ["", "application/json"], Vec::new()).await;
    assert_eq!(serde_json::from_slice::<Value>(&plain.body).unwrap(), object);
    assert_eq!(send(&cluster, &get, Value::Null).await.cbor(), object);
    object["data"]["k"] = "w".into();
    let put = format!("PUT {path}/a");
    assert_eq!(send(&cluster, &put, object.clone()).await.cbor()["data"]["k"], "w");
    assert_eq!(send(&cluster, &put, object).await.failure().0, 409);
    // Bytes are bytes.
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
        "data": {"a": "AQID"}});
    let made = send(&cluster, "POST /api/v1/namespaces/default/secrets", secret).await;
    assert!(made.body.windows(7).any(|part| part == b"\x41a\xd6\x43\x01\x02\x03"), "{made}");
    // A patch of another form is answered in this one.
    let patch = format!("PATCH {path}/a");
    let merge = ["application/merge-patch+json", CBOR];
    let patched = ask(&cluster, &patch, merge, br#"{"data":{"l":"x"}}"#.to_vec()).await;
    assert_eq!(patched.cbor()["data"], json!({"k": "w", "l": "x"}));
    assert_eq!(send(&cluster, "GET /api/v1/pods/a/b", Value::Null).await.code, 404);
    let missing = send(&cluster, &format!("GET {path}/none"), Value::Null).await;
    assert_eq!(missing.failure(), (404, "configmaps \"none\" not found".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_tables_and_metadata_are_answered_in_cbor() {
    let cluster = Cluster::start(&[GATE]).await;
    let names: Vec<String> = (0..30).map(|number| format!("m{number:02}")).collect();
    for name in &names {
        // More than is answered at once, together.
        let data = json!({"k": "v".repeat(10_000)});
        let made = send(&cluster, &format!("POST {CONFIG_MAPS}"), config_map(name, data)).await;
        assert_eq!(made.code, 201, "{made}");
    }
    let get = format!("GET {CONFIG_MAPS}?fieldSelector=metadata.name!=kube-root-ca.crt");
    let found = |list: &Value, name: fn(&Value) -> &Value, items: &str| -> Vec<String> {
        let items = list[items].as_array().unwrap().iter();
        items.map(|item| name(item).as_str().unwrap().to_owned()).collect()
    };
    let list = send(&cluster, &get, Value::Null).await.cbor();
    assert_eq!(list["kind"], "ConfigMapList");
    assert_eq!(found(&list, |item| &item["metadata"]["name"], "items"), names);
    assert_eq!(list["items"][0]["data"]["k"].as_str().unwrap().len(), 10_000);
    let shape = |kind: &str| format!("{CBOR};as={kind};v=v1;g=meta.k8s.io");
    let table = ask(&cluster, &get, ["", &shape("Table")], Vec::new()).await.cbor();
    assert_eq!(found(&table, |row| &row["cells"][0], "rows"), names);
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let metadata = shape("PartialObjectMetadataList");
    let list = ask(&cluster, &get, ["", &metadata], Vec::new()).await.cbor();
    assert_eq!(found(&list, |item| &item["metadata"]["name"], "items"), names);
    let empty = send(&cluster, "GET /api/v1/namespaces/default/pods", Value::Null).await.cbor();
    assert_eq!(empty["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_are_sequences_of_cbor_items() {
    let cluster = Cluster::start(&[GATE]).await;
    cluster.define(scaled()).await;
    for (path, object) in [
        (CONFIG_MAPS, config_map("a", json!({"k": "v"}))),
        (WIDGETS, widget("a", json!({"size": 1}))),
    ] {
        let made = send(&cluster, &format!("POST {path}"), object.clone()).await;
        assert_eq!(made.code, 201, "{made}");
        let made = made.cbor();
        let revision = made["metadata"]["resourceVersion"].as_str().unwrap();
        let selected = format!("{path}?watch=1&fieldSelector=metadata.name=a");
        let events = watch(&cluster, &selected, 1).await;
        assert_eq!(events, [json!({"type": "ADDED", "object": made})]);
        let deleted = send(&cluster, &format!("DELETE {path}/a"), Value::Null).await;
        assert_eq!(deleted.code, 200, "{deleted}");
        let events = watch(&cluster, &format!("{selected}&resourceVersion={revision}"), 1).await;
        assert_eq!(events[0]["type"], "DELETED");
        assert_eq!(events[0]["object"]["metadata"]["name"], "a");
        // The name of a sequence is nothing that can be asked for.
        let get = format!("GET {path}?watch=1");
        let sequence = ask(&cluster, &get, ["", "application/cbor-seq"], Vec::new()).await;
        assert_eq!(sequence.code, 406, "{sequence}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_cbor_is_told() {
    let cluster = Cluster::start(&[GATE]).await;
    cluster.define(scaled()).await;
    let refused = async |path: &str, body: &[u8]| {
        ask(&cluster, &format!("POST {path}"), [CBOR, CBOR], body.to_vec()).await.failure()
    };
    let unknown = bytes(&json!({"kind": "ConfigMap", "apiVersion": "v1", "date": 1}));
    let twice = b"\xa2\x44kind\x49ConfigMap\x44kind\x49ConfigMap";
    let nested = b"\xa2\x44kind\x49ConfigMap\x44data\xa2\x41a\x41b\x41a\x41c";
    let number = b"\xa2\x44kind\x49ConfigMap\x44data\xa1\x41a\x05";
    for (path, body, message) in [
        (
            "?fieldValidation=Strict",
            &unknown[..],
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: cbor: found unknown field at map element index 0",
        ),
        (
            "",
            twice,
            "the object provided is unrecognized (must be of type ConfigMap): unable to determine group/version/kind: cbor: found duplicate map key \"kind\" at map element index 1 (a2446b696e6449436f6e6669674d6170446b696e6449436f6e6669674d61 ...)",
        ),
        (
            "",
            nested,
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: cbor: found duplicate map key \"a\" at map element index 1",
        ),
        (
            "",
            number,
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: cbor: cannot unmarshal positive integer into Go struct field v1.ConfigMap.data of type string",
        ),
        (
            "",
            b"\xa1",
            "the object provided is unrecognized (must be of type ConfigMap): unable to determine group/version/kind: unexpected EOF (a1)",
        ),
    ] {
        let (code, found) = refused(&format!("{CONFIG_MAPS}{path}"), body).await;
        assert_eq!((code, found.as_str()), (400, message));
    }
    let kindless = b"\xa1\x4aapiVersion\x4eexample.com/v1";
    for (path, body, message) in [
        (
            "",
            &kindless[..],
            "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in '{'apiVersion': 'example.com/v1'}' (a14a61706956657273696f6e4e6578616d706c652e636f6d2f7631)",
        ),
        (
            "",
            b"\xa1\x44kind\x46Widget",
            "Widget in version \"\" cannot be handled as a Widget: Object 'apiVersion' is missing in '{'kind': 'Widget'}'",
        ),
        (
            "?fieldValidation=Strict",
            &bytes(&widget("a", json!({"sise": 1}))),
            "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"spec.sise\"",
        ),
    ] {
        let (code, found) = refused(&format!("{WIDGETS}{path}"), body).await;
        assert_eq!((code, found.as_str()), (400, message));
    }
    // A field that is not known is a warning otherwise.
    let made = ask(
        &cluster,
        &format!("POST {CONFIG_MAPS}"),
        [CBOR, CBOR],
        bytes(&json!({"metadata": {"name": "w"}, "date": 1})),
    )
    .await;
    assert_eq!(made.code, 201, "{made}");
}

#[tokio::test(flavor = "multi_thread")]
async fn applied_configurations_and_delete_options_may_be_cbor() {
    let cluster = Cluster::start(&[GATE]).await;
    cluster.define(scaled()).await;
    let apply = ["application/apply-patch+cbor", CBOR];
    for (path, object) in [
        (CONFIG_MAPS, config_map("a", json!({"k": "v"}))),
        (WIDGETS, widget("a", json!({"size": 1}))),
    ] {
        let patch = format!("PATCH {path}/a?fieldManager=m");
        let applied = ask(&cluster, &patch, apply, bytes(&object)).await;
        assert_eq!(applied.code, 201, "{applied}");
        assert_eq!(applied.cbor()["metadata"]["managedFields"][0]["operation"], "Apply");
        let wrong = ask(&cluster, &patch, apply, vec![0x80]).await.failure();
        let message = "error decoding YAML: cbor: cannot unmarshal array into Go value of type map[string]interface {}";
        assert_eq!(wrong, (400, message.to_owned()));
        let delete = format!("DELETE {path}/a");
        let other = json!({"preconditions": {"uid": "x"}});
        assert_eq!(send(&cluster, &delete, other).await.failure().0, 409);
        let uid = applied.cbor()["metadata"]["uid"].clone();
        let deleted = send(&cluster, &delete, json!({"preconditions": {"uid": uid}})).await;
        assert_eq!(deleted.cbor()["status"], "Success", "{deleted}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subresources_of_custom_objects_are_spoken_in_cbor() {
    let cluster = Cluster::start(&[GATE]).await;
    cluster.define(scaled()).await;
    let made =
        send(&cluster, &format!("POST {WIDGETS}"), widget("a", json!({"size": 1, "ratio": 0.5})))
            .await;
    assert_eq!(made.code, 201, "{made}");
    let mut object = made.cbor();
    assert_eq!(object["spec"], json!({"size": 1, "ratio": 0.5}));
    object["status"] = json!({"n": 7});
    let status = send(&cluster, &format!("PUT {WIDGETS}/a/status"), object).await;
    assert_eq!(status.cbor()["status"]["n"], 7);
    let mut scale = send(&cluster, &format!("GET {WIDGETS}/a/scale"), Value::Null).await.cbor();
    assert_eq!((&scale["kind"], &scale["status"]["replicas"]), (&json!("Scale"), &json!(7)));
    scale["spec"]["replicas"] = 4.into();
    let put = send(&cluster, &format!("PUT {WIDGETS}/a/scale"), scale).await;
    assert_eq!(put.cbor()["spec"]["replicas"], 4, "{put}");
}

#[tokio::test(flavor = "multi_thread")]
async fn discovery_of_built_in_versions_and_pages_know_cbor() {
    let gates = format!("{GATE},ComponentFlagz=true");
    let cluster = Cluster::start(&[&gates]).await;
    cluster.define(scaled()).await;
    let get = async |path: &str, accept: &str| {
        ask(&cluster, &format!("GET {path}"), ["", accept], Vec::new()).await
    };
    for path in ["/api/v1", "/apis/apps/v1", "/apis/apiextensions.k8s.io/v1"] {
        assert_eq!(get(path, CBOR).await.cbor()["kind"], "APIResourceList", "{path}");
    }
    for path in ["/api", "/apis", "/apis/apps", "/apis/example.com/v1"] {
        let (code, message) = get(path, CBOR).await.text();
        assert_eq!(code, 406, "{path} {message}");
        assert!(!message.contains("cbor"), "{path} {message}");
    }
    let flagz = get("/flagz", &format!("{CBOR};g=config.k8s.io;v=v1beta1;as=Flagz")).await;
    assert_eq!(flagz.media, format!("{CBOR};g=config.k8s.io;v=v1beta1;as=Flagz"));
    let switched = ":CBORServingAndStorage=true,:ComponentFlagz=true";
    assert_eq!(tree(&flagz.body)["flags"]["feature-gates"], switched);
    let (code, message) = get("/flagz", "application/x").await.text();
    assert_eq!(code, 406);
    assert!(
        message.ends_with("application/json, application/yaml, text/plain, application/cbor"),
        "{message}"
    );
}
