//! Data folders of other versions: one of an earlier server is opened with all that is in it, one of a later format is
//! refused with words.
//!
//! `tests/data/earlier.tar.gz` is what a server of commit bd65b043 (2026-11-16) left in its `--data-dir`, the first with an
//! embedded store, every built-in kind and custom resources: objects of several kinds, one changed, one deleted. Its
//! serving certificate and the administrator's are left out, which end after a year; the authority's ends in 2036.

use std::path::{Path, PathBuf};
use std::process::Command;

use http::Method;
use serde_json::{Value, json};

use crate::client::{Client, Version, read, request};
use crate::{Server, soon};

const FIXTURE: &str = "tests/data/earlier.tar.gz";
/// Revision of the store in the fixture.
const REVISION: u64 = 211;

async fn ask(server: &Server, method: Method, path: &str, body: &str) -> (u16, Value) {
    let mut client = soon(Client::connect(server.port, &server.tls, Version::Http1)).await.unwrap();
    let answer = soon(client.send(request(method, path, body.to_owned()))).await.unwrap();
    let status = answer.status().as_u16();
    (status, serde_json::from_slice(&soon(read(answer)).await.unwrap()).unwrap())
}

/// A folder for a server, with the earlier one's data.
fn earlier() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join(FIXTURE);
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--gzip").arg("--file").arg(fixture);
    assert!(tar.arg("--directory").arg(folder.path()).status().unwrap().success());
    folder
}

fn database(folder: &Path) -> PathBuf {
    folder.join("data/db/kevel.db")
}

fn format(folder: &Path) -> i32 {
    let connection = rusqlite::Connection::open(database(folder)).unwrap();
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

fn set_format(folder: &Path, format: i32) {
    let connection = rusqlite::Connection::open(database(folder)).unwrap();
    connection.pragma_update(None, "user_version", format).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_an_earlier_server_is_served() {
    let server = Server::start_on(earlier(), &[]).await;
    for (path, pointer, expected) in [
        ("/api/v1/namespaces/shop/configmaps/settings", "/data/color", json!("green")),
        ("/api/v1/namespaces/shop/secrets/key", "/data/password", json!("c2VjcmV0")),
        ("/api/v1/namespaces/shop/services/web", "/spec/clusterIP", json!("10.0.0.73")),
        ("/apis/apps/v1/namespaces/shop/deployments/web", "/spec/replicas", json!(2)),
        ("/apis/shop.example.com/v1/namespaces/shop/pizzas/margherita", "/spec/size", json!(30)),
        ("/api/v1/namespaces/shop/configmaps/gone", "/reason", json!("NotFound")),
    ] {
        let (_, object) = ask(&server, Method::GET, path, "").await;
        assert_eq!(object.pointer(pointer), Some(&expected), "{path}: {object}");
    }
    let (_, pizza) =
        ask(&server, Method::GET, "/apis/shop.example.com/v1/pizzas?limit=1", "").await;
    let manager = pizza.pointer("/items/0/metadata/managedFields/0/operation");
    assert_eq!(manager, Some(&json!("Apply")), "{pizza}");

    // What is written goes on after what was there, and a second start has both.
    let maps = "/api/v1/namespaces/shop/configmaps";
    let (status, made) = ask(&server, Method::POST, maps, r#"{"metadata":{"name":"later"}}"#).await;
    assert_eq!(status, 201, "{made}");
    let revision = made.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap();
    assert!(revision.parse::<u64>().unwrap() > REVISION, "{revision}");
    server.terminate();
    let (_, folder) = server.ended().await;
    let server = Server::start_on(folder, &[]).await;
    for name in ["settings", "later"] {
        let (status, answer) = ask(&server, Method::GET, &format!("{maps}/{name}"), "").await;
        assert_eq!(status, 200, "{answer}");
    }
}

#[tokio::test]
async fn a_folder_of_a_later_format_is_refused_unchanged() {
    let folder = earlier();
    let present = format(folder.path());
    let later = present + 1;
    set_format(folder.path(), later);
    let log = Server::refused(folder.path(), &[]).await;
    let why = format!(
        "the data has format {later}, this version understands {present}: start the version that wrote it"
    );
    assert!(log.contains(&why), "{log}");
    for verb in [&["check"][..], &["check", "--drop"], &["defragment"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kube-apiserver"));
        command.arg("store").args(verb).arg(folder.path().join("data/db"));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(&why), "{verb:?}: {output:?}");
    }

    // Nothing of it was changed.
    assert_eq!(format(folder.path()), later);
    set_format(folder.path(), present);
    Server::start_on(folder, &[]).await;
}
