//! A start on which nothing is wrong.

use kevel_test_support::{EtcdServer, until};

use crate::Server;
use crate::client::{Client, Version, read};

/// The identity of the server is the last thing that a first start writes.
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

#[tokio::test(flavor = "multi_thread")]
async fn a_first_start_has_nothing_to_complain_of() {
    let server = Server::start(&[]).await;
    assert_quiet(&server).await;
    // Nor has the next one.
    server.terminate();
    let (_, folder) = server.ended().await;
    assert_quiet(&Server::start_on(folder, &[]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_start_on_etcd_has_nothing_to_complain_of() {
    let folder = tempfile::tempdir().unwrap();
    let Some(etcd) = EtcdServer::start(folder.path()) else { return };
    assert_quiet(&Server::start_with_etcd(&etcd).await).await;
}

/// Waits until the start is over, and looks for warnings and errors in the log.
async fn assert_quiet(server: &Server) {
    until(async || {
        let client = Client::connect(server.port, &server.tls, Version::Http1);
        let leases = client.await.unwrap().get(LEASES).await.unwrap();
        String::from_utf8_lossy(&read(leases).await.unwrap()).contains("holderIdentity")
    })
    .await;
    let log = server.log();
    assert!(log.lines().count() > 0, "nothing is logged");
    let complaints: Vec<&str> = log.lines().filter(|line| line.starts_with(['W', 'E'])).collect();
    assert_eq!(complaints, [""; 0], "{log}");
}
