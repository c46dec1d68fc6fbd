//! Traces of requests, as a collector receives them.

#![allow(clippy::unwrap_used)]

use kevel_test_support::{Cluster, ReceivedSpan, Replicas, TraceCollector};

const CONFIG_MAPS: &str = "POST /api/v1/namespaces/default/configmaps";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn sampled() -> String {
    format!("00-{TRACE}-{PARENT}-01")
}

fn object(name: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}"}}}}"#)
}

/// A cluster that records so many requests in a million.
async fn traced(collector: &TraceCollector, per_million: u32) -> Cluster {
    let folder = tempfile::tempdir().unwrap();
    let flag = collector.flag(folder.path(), per_million);
    Cluster::start(&[&flag]).await
}

async fn create(cluster: &Cluster, who: &str, name: &str, parent: &str) {
    let mut headers = vec![("content-type", "application/json"), ("user-agent", "traces-test")];
    headers.extend((!parent.is_empty()).then_some(("traceparent", parent)));
    let (code, text) = cluster.send_with(who, CONFIG_MAPS, &headers, &object(name)).await;
    assert!(code == 201 || code == 403, "{text}");
}

fn named<'s>(spans: &'s [ReceivedSpan], name: &str) -> &'s ReceivedSpan {
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name}: {names:?}"))
}

/// Every step of a request that a trusted client wants recorded, each a part of the one before.
#[tokio::test(flavor = "multi_thread")]
async fn create_of_trusted_client_is_recorded() {
    let collector = TraceCollector::start().await;
    let cluster = traced(&collector, 0).await;
    create(&cluster, "admin", "a", &sampled()).await;
    cluster.stop().await;
    let spans = collector.of(TRACE);
    assert_eq!(spans.len(), collector.spans().len(), "only what was asked for is recorded");
    let path = [
        "POST /api/v1/namespaces/{:namespace}/configmaps",
        "audit",
        "constrainedimpersonation",
        "priorityandfairness",
        "authorization",
        "Create",
        "Create etcd3",
    ];
    let mut parent = PARENT.to_owned();
    for name in path {
        let span = named(&spans, name);
        assert_eq!(span.parent, parent, "{name}");
        parent.clone_from(&span.id);
    }
    let http = named(&spans, path[0]);
    for (key, value) in [
        ("http.request.method", "POST"),
        ("http.response.status_code", "201"),
        ("url.path", "/api/v1/namespaces/default/configmaps"),
        ("url.scheme", "https"),
        ("user_agent.original", "traces-test"),
        ("client.address", "127.0.0.1"),
    ] {
        assert_eq!(http.attributes.get(key).map(String::as_str), Some(value), "{key}");
    }
    assert!(http.attributes.get("audit-id").is_some_and(|id| !id.is_empty()));
    assert!(http.nanos > 0);
    assert_eq!(http.scope, "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp");
    assert_eq!(http.resource["service.name"], "apiserver");
    assert!(http.resource["service.instance.id"].starts_with("apiserver-"));
    let verb = named(&spans, "Create");
    assert_eq!(verb.attributes["verb"], "create");
    let events = [
        "limitedReadBody succeeded",
        "About to convert to expected version",
        "Conversion done",
        "About to store object in database",
        "Write to database call succeeded",
        "About to write a response",
        "Writing http response done",
    ];
    assert_eq!(verb.events, events);
    let stored = named(&spans, "Create etcd3");
    assert_eq!(stored.attributes["key"], "/configmaps/default/a");
    assert_eq!(stored.attributes["type"], "*core.ConfigMap");
    let encoded = named(&spans, "SerializeObject");
    assert_eq!(encoded.parent, verb.id);
    assert_eq!(encoded.events, ["About to start writing response", "Write call succeeded"]);
}

/// Other users than administrators do not decide what is recorded, nor of which trace it is a part.
#[tokio::test(flavor = "multi_thread")]
async fn clients_without_trust_do_not_decide_what_is_recorded() {
    let collector = TraceCollector::start().await;
    let cluster = traced(&collector, 0).await;
    create(&cluster, "jane", "a", &sampled()).await;
    create(&cluster, "admin", "b", "").await;
    create(&cluster, "admin", "c", &sampled().replace("-01", "-00")).await;
    cluster.stop().await;
    assert!(collector.spans().is_empty(), "{:?}", collector.spans());

    let collector = TraceCollector::start().await;
    let cluster = traced(&collector, 1_000_000).await;
    create(&cluster, "jane", "a", &sampled()).await;
    cluster.stop().await;
    assert!(collector.of(TRACE).is_empty());
    let spans = collector.spans();
    let linked = spans.iter().find(|span| span.links == [TRACE]).unwrap();
    assert_eq!(
        (linked.name.as_str(), linked.parent.as_str()),
        ("POST /api/v1/namespaces/{:namespace}/configmaps", "")
    );
    assert!(spans.iter().any(|span| span.name == "authentication"));
}

/// Reads, lists and watches have spans of their own.
#[tokio::test(flavor = "multi_thread")]
async fn reads_show_where_they_are_answered_from() {
    let collector = TraceCollector::start().await;
    let cluster = traced(&collector, 0).await;
    let parent = sampled();
    let headers = [("traceparent", parent.as_str())];
    for path in [
        "/api/v1/namespaces/default",
        "/api/v1/namespaces/default?resourceVersion=0",
        "/api/v1/namespaces",
        "/api/v1/namespaces?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&timeoutSeconds=1\
         &resourceVersionMatch=NotOlderThan",
    ] {
        let (code, text) = cluster.send_with("admin", &format!("GET {path}"), &headers, "").await;
        assert_eq!(code, 200, "{path}: {text}");
    }
    cluster.stop().await;
    let spans = collector.of(TRACE);
    let gets: Vec<_> = spans.iter().filter(|span| span.name == "cacher.Get").collect();
    let events: Vec<&str> = gets.iter().flat_map(|get| &get.events).map(String::as_str).collect();
    let expected = ["About to Get from underlying storage", "About to fetch object from cache"];
    assert_eq!(events, expected);
    assert!(named(&spans, "cacher.GetList").events.iter().any(|event| event == "Filtered items"));
    assert_eq!(named(&spans, "cacher.Watch").parent, named(&spans, "WatchList").id);
    let watch = named(&spans, "WatchServer.HandleHTTP");
    assert_eq!(watch.events, ["About to start writing response", "Writing initial events done"]);
}

/// Calls of etcd are parts of the write that they are made for.
#[tokio::test(flavor = "multi_thread")]
async fn writes_of_etcd_are_recorded() {
    let Some(cluster) = Replicas::new().await else { return };
    let collector = TraceCollector::start().await;
    let flag = collector.flag(cluster.folder.path(), 0);
    let replica = cluster.start("traced", &[&flag]).await;
    let parent = sampled();
    let (_, path) = CONFIG_MAPS.split_once(' ').unwrap();
    let headers = [("traceparent", parent.as_str())];
    let (code, made) = replica.admin.send("POST", path, &headers, &object("a")).await;
    assert_eq!(code, 201, "{made}");
    let (code, _) =
        replica.admin.send("PUT", &format!("{path}/a"), &headers, &made.to_string()).await;
    assert_eq!(code, 200);
    replica.stop().await;
    let spans = collector.of(TRACE);
    let call = named(&spans, "etcdserverpb.KV/Txn");
    assert_eq!(call.parent, named(&spans, "Create etcd3").id);
    assert_eq!(call.attributes["rpc.system.name"], "grpc");
    assert_eq!(call.attributes["rpc.response.status_code"], "OK");
    assert_eq!(call.events, ["message", "message"]);
    let update = named(&spans, "GuaranteedUpdate etcd3");
    assert_eq!(update.parent, named(&spans, "Update").id);
}
