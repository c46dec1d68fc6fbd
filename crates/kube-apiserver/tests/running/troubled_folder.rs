//! Folders that a server must not work on, or cannot: it says which and why, and changes nothing.

use std::fs;
use std::path::Path;

use crate::Server;
use crate::client::{Client, Version, config_map, read};
use crate::disk::Disk;
use crate::written::MAPS;

/// Of a page of the database.
const PAGE: usize = 16 << 10;

/// A server that has written something, and was told to stop.
async fn used(folder: tempfile::TempDir) -> tempfile::TempDir {
    let server = Server::start_on(folder, &[]).await;
    let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
    let created = client.post(MAPS, config_map("kept", 100)).await.unwrap();
    assert_eq!(created.status(), 201);
    read(created).await.unwrap();
    server.terminate();
    server.ended().await.1
}

/// Contents of the store's files.
fn stored(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(folder.join("data/db")).unwrap().map(|file| file.unwrap());
    let mut files: Vec<_> = files
        .map(|file| {
            (file.file_name().to_string_lossy().into_owned(), fs::read(file.path()).unwrap())
        })
        // SQLite may read its log again.
        .filter(|(name, _)| !name.ends_with("-wal") && !name.ends_with("-shm"))
        .collect();
    files.sort();
    files
}

async fn still_there(folder: tempfile::TempDir) {
    let server = Server::start_on(folder, &[]).await;
    let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
    assert_eq!(client.get(&format!("{MAPS}/kept")).await.unwrap().status(), 200);
}

#[tokio::test]
async fn two_servers_do_not_share_a_folder() {
    let server = Server::start(&[]).await;
    let kubeconfig = server.folder.path().join("data/admin.kubeconfig");
    let before = fs::read(&kubeconfig).unwrap();
    let log = Server::refused(server.folder.path(), &[]).await;
    // The second server listens on another port, which the first one's kubeconfig must not name.
    assert_eq!(fs::read(&kubeconfig).unwrap(), before);
    let db = server.folder.path().join("data/db");
    let said = format!(
        "{} is in use by another process: stop it, or choose another folder (--data-dir)",
        db.display()
    );
    assert!(log.contains(&said), "{log}");
    // The first has not noticed.
    let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
    assert_eq!(client.post(MAPS, config_map("a", 1)).await.unwrap().status(), 201);
}

#[tokio::test]
async fn a_folder_that_is_read_only_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::mount(&folder.path().join("data/db")) else { return };
    let folder = used(folder).await;
    let before = stored(folder.path());
    disk.remount_read_only();
    let log = Server::refused(folder.path(), &[]).await;
    let db = folder.path().join("data/db");
    let why = format!("cannot lock data directory \\\"{}\\\": Read-only file system", db.display());
    assert!(log.contains(&why), "{log}");
    assert_eq!(stored(folder.path()), before);
}

#[tokio::test]
async fn damaged_page_is_refused_with_a_remedy() {
    let folder = used(tempfile::tempdir().unwrap()).await;
    let file = folder.path().join("data/db/kevel.db");
    let whole = fs::read(&file).unwrap();
    // The file's head, and the first page of the history.
    for place in [0, PAGE] {
        let mut damaged = whole.clone();
        damaged[place..place + 2000].fill(0x5a);
        fs::write(&file, &damaged).unwrap();
        let before = stored(folder.path());
        let log = Server::refused(folder.path(), &[]).await;
        let db = folder.path().join("data/db");
        assert!(log.contains(&format!("stored data is damaged: {}: ", file.display())), "{log}");
        for command in ["check", "check --drop"] {
            let command = format!("`kube-apiserver store {command} {}`", db.display());
            assert!(log.contains(&command), "{command}\n{log}");
        }
        assert!(log.contains("`kube-apiserver store restore BACKUP NEW-FOLDER`"), "{log}");
        assert_eq!(stored(folder.path()), before, "nothing is created again");
    }
    fs::write(&file, whole).unwrap();
    still_there(folder).await;
}

#[tokio::test]
async fn a_store_that_is_not_whole_is_refused() {
    let folder = used(tempfile::tempdir().unwrap()).await;
    let db = folder.path().join("data/db");
    // As a restore leaves it that was interrupted.
    fs::rename(db.join("kevel.db"), db.join("kevel.db.partial")).unwrap();
    let log = Server::refused(folder.path(), &[]).await;
    assert!(log.contains("holds an import or a restore that was interrupted"), "{log}");
    assert!(!db.join("kevel.db").exists());
    fs::rename(db.join("kevel.db.partial"), db.join("kevel.db")).unwrap();
    still_there(folder).await;
}
