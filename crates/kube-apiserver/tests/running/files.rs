//! Modes of the files in the data directory: accessible to their owner only.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::client::{Client, Version};
use crate::{Server, soon};

/// Files below a folder that other users can access.
fn open_to_others(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    let mut seen = 0;
    while let Some(path) = folders.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let mode = metadata.permissions().mode() & 0o7777;
        let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
        if mode != expected {
            found.push((path.clone(), mode));
        }
        if metadata.is_dir() {
            folders.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        seen += 1;
    }
    assert!(seen > 10, "there is something to look at");
    found
}

#[tokio::test]
async fn everything_below_the_data_directory_is_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    // As an earlier version left it, or as it was copied there by hand.
    let data = folder.path().join("data");
    fs::create_dir_all(data.join("db")).unwrap();
    fs::create_dir_all(data.join("backups/old")).unwrap();
    for (name, mode) in [("backups/old/kevel.db", 0o644), ("db/lock", 0o666)] {
        fs::write(data.join(name), "").unwrap();
        fs::set_permissions(data.join(name), Permissions::from_mode(mode)).unwrap();
    }
    fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(data.join("db"), Permissions::from_mode(0o777)).unwrap();
    let server = Server::start_on(folder, &[]).await;
    let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
    let secret = r#"{"metadata":{"name":"s"},"stringData":{"a":"b"}}"#;
    let created = client.post("/api/v1/namespaces/default/secrets", secret).await.unwrap();
    assert_eq!(created.status(), 201);
    assert!(data.join("db/kevel.db-wal").exists(), "SQLite's own files are there");
    assert_eq!(open_to_others(&data), []);
    let log = fs::read_to_string(server.folder.path().join("log")).unwrap();
    for name in ["data", "data/db", "data/db/lock", "data/backups/old/kevel.db"] {
        let path = server.folder.path().join(name);
        let line = format!("Others had access to {}; now its owner alone has", path.display());
        assert!(log.contains(&line), "{line}\n{log}");
    }

    // Files that it made itself are loosened, and it is started again.
    server.terminate();
    let (_, folder) = server.ended().await;
    for name in ["data/db/kevel.db", "data/pki/ca.key", "data/admin.kubeconfig"] {
        fs::set_permissions(folder.path().join(name), Permissions::from_mode(0o644)).unwrap();
    }
    let server = soon(Server::start_on(folder, &[])).await;
    assert_eq!(open_to_others(&data), []);
    drop(server);
}
