//! Resources that have an etcd of their own.

use kevel_store::etcd::{Etcd, Options};
use kevel_store::{Engine as _, RangeOptions};
use kevel_test_support::{EtcdServer, until};
use tempfile::tempdir;

use crate::Server;
use crate::client::{Client, Version, read};

const EVENT: &str = r#"{"metadata":{"name":"e"},"involvedObject":{"namespace":"default"}}"#;

async fn keys(etcd: &EtcdServer, prefix: &str) -> Vec<String> {
    let endpoints = vec![etcd.endpoint.clone()];
    let options = Options { endpoints, compaction_interval: None, ..Default::default() };
    let store = Etcd::connect(options).await.unwrap();
    let found = store.range(prefix.as_bytes(), RangeOptions::default()).await.unwrap();
    found.entries.iter().map(|entry| String::from_utf8_lossy(&entry.key).into_owned()).collect()
}

#[tokio::test]
async fn events_expire_in_an_etcd_of_their_own() {
    let (folder, other) = (tempdir().unwrap(), tempdir().unwrap());
    let Some(main) = EtcdServer::start(folder.path()) else { return };
    let Some(mut apart) = EtcdServer::start(other.path()) else { return };
    let overrides = format!("--etcd-servers-overrides=/events#{}", apart.endpoint);
    let server = Server::start_with_etcd_and(&main, &[&overrides, "--event-ttl=3s"]).await;

    let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
    let path = "/api/v1/namespaces/default/events";
    let response = client.post(path, EVENT).await.unwrap();
    let created = response.status().as_u16();
    let text = read(response).await.unwrap();
    assert_eq!(created, 201, "{}", String::from_utf8_lossy(&text));
    let key = "/registry/events/default/e".to_owned();
    assert!(keys(&apart, "/registry/events/").await.contains(&key));
    assert!(!keys(&main, "/registry/events/").await.contains(&key));
    assert!(keys(&main, "/registry/namespaces/").await.len() >= 4);
    assert_eq!(keys(&apart, "/registry/namespaces/").await, [""; 0]);

    // Read where it was written, by either group; gone when its time is over.
    let listed = async |path: &str| {
        let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
        let response = client.get(path).await.unwrap();
        String::from_utf8_lossy(&read(response).await.unwrap()).contains(r#""name":"e""#)
    };
    assert!(listed("/apis/events.k8s.io/v1/namespaces/default/events").await);
    until(async || !listed(path).await).await;

    let verbose = async |path: &str| {
        let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
        let response = client.get(path).await.unwrap();
        String::from_utf8_lossy(&read(response).await.unwrap()).into_owned()
    };
    let text = verbose("/readyz?verbose").await;
    for check in ["etcd", "etcd-readiness", "etcd-override-0", "etcd-override-readiness-0"] {
        assert!(text.contains(&format!("[+]{check} ok")), "{text}");
    }
    apart.kill();
    until(async || verbose("/readyz").await.contains("[-]etcd-override-0 failed")).await;
    assert!(verbose("/readyz").await.contains("[+]etcd ok"));
}

#[tokio::test]
async fn definitions_custom_resources_and_apiservices_follow_no_override() {
    let (folder, other) = (tempdir().unwrap(), tempdir().unwrap());
    let Some(main) = EtcdServer::start(folder.path()) else { return };
    let Some(apart) = EtcdServer::start(other.path()) else { return };
    let there = |resource: &str| format!("{resource}#{}", apart.endpoint);
    let overrides = [
        "apiextensions.k8s.io/customresourcedefinitions",
        "apiregistration.k8s.io/apiservices",
        "example.com/widgets",
        "example.com/*",
        // The last one counts, and this one is read where core's events are.
        "/configmaps",
        "events.k8s.io/events",
    ]
    .map(there);
    let back = format!("/configmaps#{}", main.endpoint);
    let overrides = format!("--etcd-servers-overrides={},{back}", overrides.join(","));
    let server = Server::start_with_etcd_and(&main, &[&overrides]).await;
    let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
    let mut post = async |path: &str, body: &str| {
        let response = client.post(path, body.to_owned()).await.unwrap();
        let status = response.status().as_u16();
        read(response).await.unwrap();
        status
    };
    let crd = r#"{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
        "names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,
        "schema":{"openAPIV3Schema":{"type":"object"}}}]}}"#;
    assert_eq!(post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await, 201);
    let widget = r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"}}"#;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    until(async || post(widgets, widget).await == 201).await;
    assert_eq!(post("/api/v1/namespaces/default/events", EVENT).await, 201);
    assert_eq!(keys(&apart, "/registry/").await, [""; 0]);
    for key in [
        "/registry/example.com/widgets/default/w",
        "/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com",
        "/registry/apiregistration.k8s.io/apiservices/v1.apps",
        "/registry/configmaps/kube-system/extension-apiserver-authentication",
        "/registry/events/default/e",
    ] {
        assert_eq!(keys(&main, key).await, [key]);
    }
}
