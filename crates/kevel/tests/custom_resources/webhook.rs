//! Conversion of versions by a webhook.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::{StreamExt as _, TryStreamExt as _};
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use kevel_test_support::Cluster;
use kube::ResourceExt as _;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent,
    WatchParams,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};

use super::{CustomResources as _, failure, object, version, widgets};

/// A webhook over TLS that counts the objects it converts.
pub(super) struct Webhook {
    url: String,
    ca: String,
    pub converted: Arc<AtomicUsize>,
    /// Whether it takes reviews and does not answer.
    pub hangs: Arc<AtomicBool>,
}

impl Webhook {
    pub async fn start() -> Self {
        let issued = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let (ca, key) = (issued.cert.pem(), issued.signing_key.serialize_pem());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}/convert", listener.local_addr().unwrap().port());
        let converted = Arc::new(AtomicUsize::new(0));
        let hangs = Arc::new(AtomicBool::new(false));
        let (count, hung) = (converted.clone(), hangs.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, count, hung) = (acceptor.clone(), count.clone(), hung.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request: http::Request<_>| {
                        let (count, hung) = (count.clone(), hung.clone());
                        async move {
                            if hung.load(Ordering::Relaxed) {
                                std::future::pending::<()>().await;
                            }
                            let body: hyper::body::Incoming = request.into_body();
                            let body = body.collect().await.unwrap().to_bytes();
                            let review = serde_json::from_slice(&body).unwrap();
                            let answer = answer(review, &count).to_string();
                            let answer = http::Response::new(Full::<bytes::Bytes>::from(answer));
                            Ok::<_, Infallible>(answer)
                        }
                    });
                    let server = auto::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Webhook { url, ca, converted, hangs }
    }

    /// A definition of widgets whose versions this webhook converts.
    pub fn definition(&self) -> Value {
        let mut old = version("v1", json!({"hostPort": {"type": "string"}}));
        old["storage"] = false.into();
        let new = version("v2", json!({"host": {"type": "string"}, "port": {"type": "string"}}));
        let mut definition = widgets(json!([old, new]));
        definition["spec"]["conversion"] = json!({
            "strategy": "Webhook",
            "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {
                    "url": self.url,
                    "caBundle": kevel_codec::base64::encode(self.ca.as_bytes()).to_string(),
                },
            },
        });
        definition
    }
}

fn answer(review: Value, count: &AtomicUsize) -> Value {
    let (request, to) = (&review["request"], review["request"]["desiredAPIVersion"].as_str());
    let mut converted = Vec::new();
    for object in request["objects"].as_array().unwrap() {
        count.fetch_add(1, Ordering::Relaxed);
        let mut object = object.clone();
        let spec = &object["spec"];
        object["spec"] = match to.unwrap() {
            "example.com/v1" => {
                let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
                json!({"hostPort": format!("{}:{}", text("host"), text("port"))})
            }
            _ => {
                let both = spec["hostPort"].as_str().unwrap_or(":");
                let (host, port) = both.split_once(':').unwrap_or((both, ""));
                json!({"host": host, "port": port})
            }
        };
        object["apiVersion"] = to.unwrap().into();
        match object["metadata"]["name"].as_str().unwrap() {
            "renamed" => object["metadata"]["name"] = "other".into(),
            "annotated" => {
                object["metadata"]["annotations"] = json!({"a": "x".repeat(256 << 10)});
            }
            _ => {}
        }
        converted.push(object);
    }
    let result = match converted.iter().any(|object| object["metadata"]["name"] == "refused") {
        true => json!({"status": "Failure", "message": "not this one"}),
        false => json!({"status": "Success"}),
    };
    json!({
        "apiVersion": review["apiVersion"],
        "kind": review["kind"],
        "response": {"uid": request["uid"], "convertedObjects": converted, "result": result},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_makes_versions_of_each_other() {
    let webhook = Webhook::start().await;
    let cluster = Cluster::alone().await;
    cluster.define(webhook.definition()).await;
    let (v1, v2) = (cluster.objects("v1", "Widget"), cluster.objects("v2", "Widget"));
    let mut events =
        v1.watch(&WatchParams::default().disable_bookmarks(), "0").await.unwrap().boxed();
    let new = object("v1", "Widget", "a", json!({"hostPort": "localhost:1"}));
    let made = v1.create(&PostParams::default(), &new).await.unwrap();
    assert_eq!(made.data["spec"], json!({"hostPort": "localhost:1"}));
    let stored = v2.get("a").await.unwrap();
    assert_eq!(stored.data["spec"], json!({"host": "localhost", "port": "1"}));
    assert_eq!(made.uid(), stored.uid());
    let patch = json!({"spec": {"port": "2"}});
    v2.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!(v1.get("a").await.unwrap().data["spec"], json!({"hostPort": "localhost:2"}));
    // Lists are sent whole, watchers see the version that they asked for.
    let second = object("v2", "Widget", "b", json!({"host": "x", "port": "3"}));
    v2.create(&PostParams::default(), &second).await.unwrap();
    let listed = v1.list(&Default::default()).await.unwrap();
    let ports: Vec<_> = listed.items.iter().map(|o| o.data["spec"]["hostPort"].clone()).collect();
    assert_eq!(ports, ["localhost:2", "x:3"]);
    for expected in ["localhost:1", "localhost:2", "x:3"] {
        let (WatchEvent::Added(seen) | WatchEvent::Modified(seen)) =
            events.try_next().await.unwrap().unwrap()
        else {
            panic!("{expected}");
        };
        assert_eq!(seen.data["spec"]["hostPort"], expected);
    }
    // Who wrote another version still owns what it became.
    let wanted = object("v2", "Widget", "a", json!({"host": "z"}));
    let apply = Patch::Apply(&wanted);
    v2.patch("a", &PatchParams::apply("one"), &apply).await.unwrap();
    let wanted = object("v1", "Widget", "a", json!({"hostPort": "w:5"}));
    let apply = Patch::Apply(&wanted);
    let (code, message) = failure(v1.patch("a", &PatchParams::apply("two"), &apply).await);
    assert_eq!(code, 409, "{message}");
    assert!(message.contains("conflicts with \"one\":\n- .spec.host"), "{message}");
    v1.delete("a", &DeleteParams::default()).await.unwrap();
    // Objects that need no conversion are served whatever the webhook does.
    for (name, expected) in [
        ("refused", "conversion webhook for example.com/v1, Kind=Widget failed: not this one"),
        ("renamed", "must have the same name: renamed != other"),
    ] {
        let new = object("v1", "Widget", name, json!({"hostPort": "y:4"}));
        let (code, message) = failure(v1.create(&PostParams::default(), &new).await);
        assert_eq!(code, 500);
        assert!(message.contains(expected), "{message}");
        let new = object("v2", "Widget", name, json!({"host": "y", "port": "4"}));
        v2.create(&PostParams::default(), &new).await.unwrap();
        assert_eq!(failure(v1.get(name).await).0, 500);
    }
    assert_eq!(v2.list(&Default::default()).await.unwrap().items.len(), 3);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_stored_in_another_version_is_converted() {
    let webhook = Webhook::start().await;
    let cluster = Cluster::alone().await;
    cluster.define(webhook.definition()).await;
    let (v1, v2) = (cluster.objects("v1", "Widget"), cluster.objects("v2", "Widget"));
    let new = object("v2", "Widget", "a", json!({"host": "x", "port": "3"}));
    v2.create(&PostParams::default(), &new).await.unwrap();
    let patch = json!([
        {"op": "replace", "path": "/spec/versions/0/storage", "value": true},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": false},
    ]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
    let params = PatchParams::default();
    cluster.definitions().patch("widgets.example.com", &params, &patch).await.unwrap();
    // It is still stored in v2: v1 is converted each time, until it is written again.
    let mut found = v1.get("a").await.unwrap();
    assert_eq!(found.data["spec"], json!({"hostPort": "x:3"}));
    found.data["spec"]["hostPort"] = "x:4".into();
    v1.replace("a", &PostParams::default(), &found).await.unwrap();
    assert_eq!(v2.get("a").await.unwrap().data["spec"], json!({"host": "x", "port": "4"}));
    cluster.stop().await;
}

/// Names of what is listed by fields.
async fn selected(of: &Api<DynamicObject>, fields: &str) -> Vec<String> {
    let listed = of.list(&ListParams::default().fields(fields)).await.unwrap();
    listed.items.iter().map(|item| item.name_any()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_are_those_of_the_version_that_is_asked_for() {
    let webhook = Webhook::start().await;
    let cluster = Cluster::alone().await;
    let mut definition = webhook.definition();
    for (version, fields) in [(0, vec![".spec.hostPort"]), (1, vec![".spec.host", ".spec.port"])] {
        let fields: Vec<_> = fields.into_iter().map(|path| json!({"jsonPath": path})).collect();
        definition["spec"]["versions"][version]["selectableFields"] = fields.into();
    }
    cluster.define(definition).await;
    let (v1, v2) = (cluster.objects("v1", "Widget"), cluster.objects("v2", "Widget"));
    let params = WatchParams::default().disable_bookmarks().fields("spec.hostPort=x:1");
    let mut events = v1.watch(&params, "0").await.unwrap().boxed();
    for (name, host, port) in [("a", "x", "1"), ("b", "x", "2"), ("c", "y", "1"), ("d", "x", "1")] {
        let new = object("v2", "Widget", name, json!({"host": host, "port": port}));
        v2.create(&PostParams::default(), &new).await.unwrap();
    }
    // v2 is stored, v1 is made of it.
    assert_eq!(selected(&v2, "spec.host=x").await, ["a", "b", "d"]);
    assert_eq!(selected(&v2, "spec.host=x,spec.port!=1").await, ["b"]);
    assert_eq!(selected(&v1, "spec.hostPort=x:1").await, ["a", "d"]);
    assert_eq!(selected(&v1, "spec.hostPort!=x:1,metadata.name!=b").await, ["c"]);
    let first = v1.list(&ListParams::default().fields("spec.hostPort=x:1").limit(1)).await.unwrap();
    assert_eq!(first.items[0].name_any(), "a");
    let token = first.metadata.continue_.unwrap();
    let rest = ListParams::default().fields("spec.hostPort=x:1").limit(1).continue_token(&token);
    let rest = v1.list(&rest).await.unwrap();
    assert_eq!(rest.items[0].name_any(), "d");
    assert_eq!(rest.metadata.continue_.unwrap_or_default(), "");
    // One that comes to be selected is added, one that no longer is is deleted.
    let patch = |port: &str| Patch::Merge(json!({"spec": {"port": port}}));
    v2.patch("b", &PatchParams::default(), &patch("1")).await.unwrap();
    v2.patch("a", &PatchParams::default(), &patch("3")).await.unwrap();
    let chosen = ListParams::default().fields("spec.hostPort=x:1");
    v1.delete_collection(&DeleteParams::default(), &chosen).await.unwrap();
    assert_eq!(selected(&v2, "").await, ["a", "c"]);
    for expected in ["added a", "added d", "added b", "deleted a", "deleted b", "deleted d"] {
        let seen = match events.try_next().await.unwrap().unwrap() {
            WatchEvent::Added(seen) => format!("added {}", seen.name_any()),
            WatchEvent::Deleted(seen) => format!("deleted {}", seen.name_any()),
            other => panic!("{expected}: {other:?}"),
        };
        assert_eq!(seen, expected);
    }
    cluster.stop().await;
}
