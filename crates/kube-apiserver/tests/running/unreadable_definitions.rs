//! CustomResourceDefinitions that cannot be read.

use kevel_store::Engine as _;
use kevel_store::etcd::{Etcd, Options};
use kevel_test_support::{EtcdServer, until};
use tempfile::tempdir;

use crate::Server;
use crate::client::{Client, Version, read};

const BOGUS: &[u8] = b"/registry/apiextensions.k8s.io/customresourcedefinitions/bogus";
/// The APIService of a custom kind, as a server has made it, with white space.
const STALE: &str = r#"{
    "apiVersion": "apiregistration.k8s.io/v1",
    "kind": "APIService",
    "metadata": {"name": "v1.stale.example.com", "uid": "a", "creationTimestamp": "2022-06-08T23:46:32Z",
        "labels": {"kube-aggregator.kubernetes.io/automanaged": "true"}},
    "spec": {"group": "stale.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10}
}"#;

#[tokio::test]
async fn api_services_stay_while_a_definition_is_unreadable() {
    let folder = tempdir().unwrap();
    let Some(etcd) = EtcdServer::start(folder.path()) else { return };
    let endpoints = vec![etcd.endpoint.clone()];
    let options = Options { endpoints, compaction_interval: None, ..Default::default() };
    let store = Etcd::connect(options).await.unwrap();
    let revision = store.create(BOGUS, "bogus data".into(), None).await.unwrap();
    let key = b"/registry/apiregistration.k8s.io/apiservices/v1.stale.example.com";
    store.create(key, STALE.into(), None).await.unwrap();
    let server = Server::start_with_etcd_and(&etcd, &[]).await;
    let get = async |path: &str| {
        let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
        let response = client.get(path).await.unwrap();
        let code = response.status().as_u16();
        (code, String::from_utf8_lossy(&read(response).await.unwrap()).into_owned())
    };
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    // All others have been registered: the stale one has been looked at.
    until(async || get("/readyz/autoregister-completion").await.0 == 200).await;
    let stale = format!("{services}/v1.stale.example.com");
    assert_eq!(get(&stale).await.0, 200);
    store.delete(BOGUS, revision).await.unwrap();
    until(async || get(&stale).await.0 == 404).await;

    let (_, metrics) = get("/metrics").await;
    for line in [
        r#"apiserver_storage_size_bytes{storage_cluster_id="etcd-0"} "#,
        r#"etcd_request_duration_seconds_count{group="",operation="create",resource="namespaces"} "#,
        r#"etcd_requests_total{group="apiregistration.k8s.io",operation="delete",resource="apiservices"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line}");
    }
}
