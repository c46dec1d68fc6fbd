//! A webhook that hangs for everything, with `failurePolicy: Fail`: the server's own writes wait for it too, and
//! neither its start nor its end waits for them longer than the reference's.

use std::time::Duration;

use http::Method;
use kevel_clock::Stopwatch;
use kevel_test_support::Ca;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::Server;
use crate::client::{Client, Version, read, request};

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";
/// Limit on a start, on a busy machine: less than any wait for a webhook, or for an object that it keeps away.
const SOON_READY: Duration = Duration::from_secs(4);
/// The times that the reference gives its end: 10 s to delete its lease, 20 s to leave the endpoints.
const END: Duration = Duration::from_secs(10 + 20);
const BUSY: Duration = Duration::from_secs(10);

/// A server that takes connections and says nothing.
async fn silent() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    port
}

fn configuration(kind: &str, port: u16) -> Value {
    let ca = kevel_codec::base64::encode(Ca::new("hooks").pem.as_bytes()).to_string();
    let webhook = json!({
        "name": format!("{kind}.hook.test"),
        "clientConfig": {"url": format!("https://127.0.0.1:{port}/"), "caBundle": ca},
        "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}],
        "failurePolicy": "Fail", "timeoutSeconds": 30, "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    json!({"metadata": {"name": "all"}, "webhooks": [webhook]})
}

async fn configure(server: &Server, port: u16) {
    let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
    for kind in ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"] {
        let path = format!("{CONFIGURATIONS}/{kind}");
        let answer = client.post(&path, configuration(kind, port).to_string()).await.unwrap();
        assert_eq!(answer.status(), 201);
        read(answer).await.unwrap();
    }
    kevel_test_support::until(async || !writes(server).await).await;
}

/// Whether a write is admitted.
async fn writes(server: &Server) -> bool {
    let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
    let path = "/api/v1/namespaces/default/configmaps?dryRun=All&timeout=200ms";
    let object = json!({"metadata": {"name": "a"}}).to_string();
    let answer = client.send(request(Method::POST, path, object)).await.unwrap();
    answer.status() == 201
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_that_hangs_for_everything_delays_no_start() {
    let server = Server::start(&[]).await;
    configure(&server, silent().await).await;
    // Its lease, the mark of its endpoint: all that it has is left behind.
    let folder = server.kill().await;
    let started = Stopwatch::start();
    let server = Server::start_on(folder, &[]).await;
    let took = started.elapsed();
    println!("ready after a kill: {took:?}");
    assert!(took < SOON_READY, "{took:?}\n{}", server.log());
    assert!(!writes(&server).await);

    let started = Stopwatch::start();
    server.terminate();
    let (status, folder) = server.ended().await;
    let took = started.elapsed();
    println!("ended: {took:?}");
    assert!(status.success() && took < END + BUSY, "{took:?} {status}");
    let started = Stopwatch::start();
    let server = Server::start_on(folder, &[]).await;
    let took = started.elapsed();
    println!("ready after an end in order: {took:?}");
    assert!(took < SOON_READY, "{took:?}\n{}", server.log());
}
