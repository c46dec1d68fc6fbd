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
async fn events_are_kept_in_their_own_etcd_for_as_long_as_the_flag_says() {
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
