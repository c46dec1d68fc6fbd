//! One record that is not what was written: the others are served, and it is said what is wrong.

use std::fs;
use std::path::Path;

use crate::Server;
use crate::client::{Client, Version, read};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Flips a bit of what is stored, where it stands in the database.
fn damage(data: &Path, text: &str) {
    let file = data.join("db/kevel.db");
    let mut bytes = fs::read(&file).unwrap();
    let found = bytes.windows(text.len()).position(|window| window == text.as_bytes());
    bytes[found.expect("it is in the file")] ^= 1;
    fs::write(&file, bytes).unwrap();
}

async fn get(client: &mut Client, path: &str) -> (u16, String) {
    let response = client.get(path).await.unwrap();
    let status = response.status().as_u16();
    (status, String::from_utf8_lossy(&read(response).await.unwrap()).into_owned())
}

#[tokio::test]
async fn a_damaged_record_is_reported_and_the_others_are_served() {
    let server = Server::start(&[]).await;
    let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
    for name in ["first", "second", "third"] {
        let annotations = format!(r#"{{"mark":"the-{name}-one"}}"#);
        let metadata = format!(r#"{{"name":"{name}","annotations":{annotations}}}"#);
        let created = client.post(SECRETS, format!(r#"{{"metadata":{metadata}}}"#)).await.unwrap();
        assert_eq!(created.status(), 201);
        read(created).await.unwrap();
    }
    server.terminate();
    let (_, folder) = server.ended().await;
    damage(&folder.path().join("data"), "the-second-one");

    let server = Server::start_on(folder, &[]).await;
    let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
    let (status, list) = get(&mut client, SECRETS).await;
    assert_eq!(status, 200, "{list}");
    assert!(list.contains("the-first-one") && list.contains("the-third-one"), "{list}");
    assert!(!list.contains("second"), "{list}");
    assert_eq!(get(&mut client, &format!("{SECRETS}/first")).await.0, 200);
    let (status, text) = get(&mut client, &format!("{SECRETS}/second")).await;
    assert_eq!(status, 500, "{text}");
    let why = "Internal error occurred: StorageError: corrupt object, Code: 7, \
               Key: /registry/secrets/default/second, ResourceVersion: 0, AdditionalErrorMsg: the record \
               of revision";
    assert!(text.contains(why), "{text}");

    // An administrator should look at it; that is no reason to restart the server or to shun it.
    assert_eq!(get(&mut client, "/livez").await.0, 200);
    assert_eq!(get(&mut client, "/readyz").await.0, 200);
    let (status, text) = get(&mut client, "/healthz").await;
    assert_eq!(status, 500);
    assert!(text.contains("[-]storage-records failed: reason withheld"), "{text}");
    let (_, text) = get(&mut client, "/healthz/storage-records").await;
    assert!(text.contains("Key: /registry/secrets/default/second"), "{text}");
    let (_, metrics) = get(&mut client, "/metrics").await;
    let counted = "apiserver_storage_decode_errors_total{group=\"\",resource=\"secrets\"} 1\n";
    assert!(metrics.contains(counted), "{metrics}");
    let log = fs::read_to_string(server.folder.path().join("log")).unwrap();
    let line = log.lines().find(|line| line.contains("an object cannot be read"));
    assert!(line.is_some_and(|line| line.contains("/registry/secrets/default/second")), "{log}");
}
