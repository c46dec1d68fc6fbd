//! A server whose store was taken from the embedded engine to etcd, and back.

use std::fs;
use std::path::Path;

use http::Method;
use kevel_store::{UNREPORTED, etcd, migrate};
use kevel_test_support::EtcdServer;
use kevel_test_support::process::etcd_flags;
use tempfile::TempDir;

use crate::client::{Client, Version, read, request};
use crate::{Server, soon};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const CRD: &str = r#"{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
    "names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,
    "schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object",
    "x-kubernetes-preserve-unknown-fields":true}}}}}]}}"#;
const ENCRYPTION: &str = "apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - aescbc: {keys: [{name: key1, secret: c2VjcmV0IGlzIHNlY3VyZQ==}]}
";

/// An answer: its code and its text.
async fn ask(server: &Server, method: Method, path: &str, body: &str) -> (u16, String) {
    let mut client = soon(Client::connect(server.port, &server.tls, Version::Http1)).await.unwrap();
    let answer = soon(client.send(request(method, path, body.to_owned()))).await.unwrap();
    let status = answer.status().as_u16();
    (status, String::from_utf8_lossy(&soon(read(answer)).await.unwrap()).into_owned())
}

async fn create(server: &Server, path: &str, body: &str) {
    let (status, text) = ask(server, Method::POST, path, body).await;
    assert_eq!(status, 201, "{text}");
}

/// The object that was made on the first server, as it is served now.
async fn get(server: &Server, path: &str) -> serde_json::Value {
    let (status, text) = ask(server, Method::GET, path, "").await;
    assert_eq!(status, 200, "{path}: {text}");
    let mut object: serde_json::Value = serde_json::from_str(&text).unwrap();
    // It is another store's.
    object["metadata"].as_object_mut().unwrap().remove("resourceVersion").unwrap();
    object
}

async fn objects(server: &Server) -> Vec<serde_json::Value> {
    let mut found = Vec::new();
    for path in [&format!("{MAPS}/m"), &format!("{SECRETS}/s"), &format!("{WIDGETS}/w")] {
        found.push(get(server, path).await);
    }
    found
}

async fn revision(server: &Server) -> u64 {
    let (_, text) = ask(server, Method::GET, MAPS, "").await;
    let list: serde_json::Value = serde_json::from_str(&text).unwrap();
    list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// No client of the store before takes what it has seen for something of this one.
async fn starts_over(server: &Server, seen: u64, stale: &str) {
    assert!(revision(server).await > seen);
    let path = format!("{MAPS}?watch=1&resourceVersion={seen}");
    let (_, text) = ask(server, Method::GET, &path, "").await;
    assert!(text.contains(r#""code":410"#), "{text}");
    let (status, text) = ask(server, Method::PUT, &format!("{MAPS}/m"), stale).await;
    assert_eq!(status, 409, "{text}");
}

async fn end(server: Server) -> TempDir {
    server.terminate();
    server.ended().await.1
}

fn options(server: &EtcdServer) -> etcd::Options {
    etcd::Options {
        endpoints: vec![server.endpoint.clone()],
        compaction_interval: None,
        ..etcd::Options::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn store_moves_to_etcd_and_back() {
    let aside = tempfile::tempdir().unwrap();
    let Some(etcd) = EtcdServer::start(aside.path()) else { return };
    let config = aside.path().join("encryption.yaml");
    fs::write(&config, ENCRYPTION).unwrap();
    let encryption = format!("--encryption-provider-config={}", config.display());
    let server = Server::start(&[&encryption]).await;
    create(&server, MAPS, r#"{"metadata":{"name":"m"},"data":{"a":"b"}}"#).await;
    create(&server, SECRETS, r#"{"metadata":{"name":"s"},"stringData":{"a":"top-secret"}}"#).await;
    create(&server, CRDS, CRD).await;
    let widget =
        r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"a":1}}"#;
    soon(async { while ask(&server, Method::POST, WIDGETS, widget).await.0 != 201 {} }).await;
    let (expected, seen) = (objects(&server).await, revision(&server).await);
    let stale = ask(&server, Method::GET, &format!("{MAPS}/m"), "").await.1;

    let folder = end(server).await;
    let db = folder.path().join("data/db");
    let moved = migrate::export(&db, options(&etcd), UNREPORTED).await.unwrap();
    assert!(moved.keys > 50, "{moved:?}");
    let flags = etcd_flags(folder.path(), &etcd.endpoint);
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain([encryption.as_str()]).collect();
    let server = Server::start_on(folder, &flags).await;
    assert_eq!(objects(&server).await, expected);
    starts_over(&server, seen, &stale).await;
    create(&server, MAPS, r#"{"metadata":{"name":"in-etcd"}}"#).await;
    let (seen, stale) =
        (revision(&server).await, ask(&server, Method::GET, &format!("{MAPS}/m"), "").await.1);

    let folder = end(server).await;
    fs::rename(&db, folder.path().join("data/old")).unwrap();
    migrate::import(options(&etcd), &db, UNREPORTED).await.unwrap();
    assert!(!contains(&db, "top-secret"), "what is encrypted stays so");
    let server = Server::start_on(folder, &[&encryption]).await;
    assert_eq!(objects(&server).await, expected);
    get(&server, &format!("{MAPS}/in-etcd")).await;
    starts_over(&server, seen, &stale).await;
    assert_eq!(ask(&server, Method::GET, "/healthz", "").await.0, 200);
}

fn contains(db: &Path, text: &str) -> bool {
    let bytes = fs::read(db.join("kevel.db")).unwrap();
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
