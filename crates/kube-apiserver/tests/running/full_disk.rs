//! A disk without room.

use std::sync::Arc;
use std::time::Duration;

use crate::client::{Client, Version, config_map, read};
use crate::disk::Disk;
use crate::written::{MAPS, Written};
use crate::{Server, soon};

/// Size of the file that is deleted to free the disk in the end.
const BALLAST: usize = 16 << 20;
/// Objects of this size fill it.
const SIZE: usize = 400 << 10;

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_writes_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::mount(&folder.path().join("data")) else { return };
    let ballast = disk.0.join("ballast");
    std::fs::write(&ballast, vec![1; BALLAST]).unwrap();
    let server = Server::start_on(folder, &[]).await;
    let written = Arc::new(Written::default());
    let mut writers = written.begin(&server, 4);
    written.more(40).await;
    let mut client = connect(&server).await;
    let mut kept = Vec::new();
    let refusal = loop {
        let name = format!("large-{}", kept.len());
        let answer = soon(client.post(MAPS, config_map(&name, SIZE))).await.unwrap();
        let status = answer.status().as_u16();
        let text = soon(read(answer)).await.unwrap();
        if status != 201 {
            break format!("{status} {}", String::from_utf8_lossy(&text));
        }
        kept.push(name);
        assert!(kept.len() < 1000, "the disk is never full");
    };
    assert!(refusal.starts_with('5') && refusal.contains("full"), "{refusal}");
    // Reads go on.
    all_there(&server, &kept).await;
    // With room again, so do writes, by themselves.
    std::fs::remove_file(&ballast).unwrap();
    soon(async {
        while client.post(MAPS, config_map("after", SIZE)).await.unwrap().status() != 201 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    kept.push("after".to_owned());
    written.more(40).await;
    written.stop();
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }
    let folder = server.kill().await;
    let server = Server::start_on(folder, &[]).await;
    all_there(&server, &kept).await;
    written.check(&server).await;
    assert!(!server.log().contains("panicked"), "{}", server.log());
    drop(server);
    drop(disk);
}

async fn connect(server: &Server) -> Client {
    soon(Client::connect(server.port, &server.tls, Version::Http2)).await.unwrap()
}

/// Each of these objects is there and whole.
async fn all_there(server: &Server, names: &[String]) {
    let mut client = connect(server).await;
    for name in names {
        let answer = soon(client.get(&format!("{MAPS}/{name}"))).await.unwrap();
        assert_eq!(answer.status(), 200, "{name}");
        let object: serde_json::Value =
            serde_json::from_slice(&soon(read(answer)).await.unwrap()).unwrap();
        assert_eq!(object["data"]["value"].as_str().map(str::len), Some(SIZE), "{name}");
    }
}
