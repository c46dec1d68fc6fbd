//! The stand-in for etcd of controller tests (`crates/envtest-etcd`) behind `--etcd-servers`.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use kevel_envtest_etcd::{flags::StandInFlags, serve};
use kevel_test_support::process::etcd_flags;
use kevel_test_support::{Relay, free_port, until};

use crate::client::{Client, Version};
use crate::{Server, soon};

/// Runs a stand-in in this process, until that ends. Returns its address.
async fn stand_in(folder: &Path) -> SocketAddr {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    start_at(address, folder).await;
    address
}

async fn start_at(address: SocketAddr, folder: &Path) {
    let options =
        StandInFlags { addresses: vec![address.to_string()], data_dir: folder.join("stand-in") };
    std::thread::spawn(move || serve(&options));
    until(async || tokio::net::TcpStream::connect(address).await.is_ok()).await;
}

/// A server with the flags that it has on an etcd.
async fn server_on(folder: tempfile::TempDir, address: SocketAddr) -> Server {
    let flags = etcd_flags(folder.path(), &format!("http://{address}"));
    Server::start_on(folder, &flags.iter().map(String::as_str).collect::<Vec<_>>()).await
}

async fn client(server: &Server) -> Client {
    soon(Client::connect(server.port, &server.tls, Version::Http1)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn server_on_a_stand_in_finds_its_data_again() {
    let folder = Server::start(&["--storage=memory"]).await.kill().await;
    let address = stand_in(folder.path()).await;
    let server = server_on(folder, address).await;
    let namespace = r#"{"metadata":{"name":"kept"}}"#;
    let created = soon(client(&server).await.post("/api/v1/namespaces", namespace)).await.unwrap();
    assert_eq!(created.status(), 201);
    assert!(server.log().contains("--etcd-servers leads to Kevel's stand-in"), "{}", server.log());
    // Without flags that say otherwise, as on an etcd.
    assert!(server.log().contains("Controllers are off"), "{}", server.log());

    let flags = etcd_flags(server.folder.path(), &format!("http://{address}"));
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let refused = Server::refused(server.folder.path(), &flags).await;
    assert!(refused.contains("takes one at a time"), "{refused}");

    let server = server_on(server.kill().await, address).await;
    let kept = soon(client(&server).await.get("/api/v1/namespaces/kept")).await.unwrap();
    assert_eq!(kept.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn server_waits_for_a_stand_in_that_starts_later() {
    let folder = Server::start(&["--storage=memory"]).await.kill().await;
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let data = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let later = async {
        let waits =
            || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("does not answer"));
        until(async || waits()).await;
        start_at(address, data.path()).await;
    };
    let (server, ()) = tokio::join!(server_on(folder, address), later);
    assert!(server.log().contains("--etcd-servers leads to Kevel's stand-in"), "{}", server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn server_ends_with_its_stand_in() {
    let folder = Server::start(&["--storage=memory"]).await.kill().await;
    let relay = Relay::start().await;
    relay.lead_to(vec![stand_in(folder.path()).await]);
    let server = server_on(folder, SocketAddr::from(([127, 0, 0, 1], relay.port))).await;
    let mut watching = client(&server).await;
    let watch = soon(watching.get("/api/v1/configmaps?watch=1")).await.unwrap();
    assert_eq!(watch.status(), 200);
    drop(relay);
    let ended = tokio::time::timeout(Duration::from_secs(10), server.ended()).await;
    let (status, folder) = ended.unwrap();
    assert_eq!(status.code(), Some(1));
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.contains("has ended: this server ends with it"), "{log}");
}
