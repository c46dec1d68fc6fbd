//! SIGTERM while there is much to do.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::BodyExt as _;
use kevel_test_support::KmsPlugin;
use tokio::sync::watch as signal;
use tokio::task::JoinSet;

use crate::client::{Client, Version, config_map, read};
use crate::{Server, soon};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Number of clients of each kind.
const WRITERS: usize = 100;
const LISTERS: usize = 50;
const WATCHERS: usize = 50;

/// Events of the clients so far.
#[derive(Default)]
struct Seen {
    stopping: AtomicBool,
    /// Clients that have had an answer.
    busy: signal::Sender<usize>,
    acknowledged: Mutex<BTreeSet<String>>,
    /// Asked for, and neither granted nor refused.
    unanswered: Mutex<BTreeSet<String>>,
    wrong: Mutex<Vec<String>>,
}

impl Seen {
    fn wrong(&self, what: impl std::fmt::Display) {
        let when = if self.stopping.load(Ordering::SeqCst) { "after" } else { "before" };
        self.wrong.lock().unwrap().push(format!("{when} the stop: {what}"));
    }

    /// A server that stops may close a connection on which nothing was asked, or send a client away.
    fn allowed(&self, what: &str) {
        if !self.stopping.load(Ordering::SeqCst) {
            self.wrong(what);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_answers_accepted_requests_and_keeps_their_writes() {
    let server = Server::start(&[]).await;
    let seen = Arc::new(Seen::default());
    let mut connected = JoinSet::new();
    for number in 0..WRITERS + LISTERS + WATCHERS {
        let version = if number % 3 == 0 { Version::Http1 } else { Version::Http2 };
        let (port, tls) = (server.port, server.tls.clone());
        connected.spawn(async move { Client::connect(port, &tls, version).await.unwrap() });
    }
    let connected = soon(connected.join_all()).await;
    let mut clients = Vec::new();
    for (number, client) in connected.into_iter().enumerate() {
        let seen = seen.clone();
        clients.push(match number {
            0..WRITERS => tokio::spawn(write(client, number, seen)),
            number if number < WRITERS + LISTERS => tokio::spawn(list(client, seen)),
            _ => tokio::spawn(watch(client, seen)),
        });
    }
    let mut busy = seen.busy.subscribe();
    soon(busy.wait_for(|busy| *busy >= clients.len())).await.unwrap();

    seen.stopping.store(true, Ordering::SeqCst);
    server.terminate();
    let told = kevel_clock::monotonic_now();
    for client in clients {
        soon(client).await.unwrap();
    }
    let (status, folder) = server.ended().await;
    assert!(status.success(), "{status}");
    assert!(told.elapsed() < Duration::from_secs(15), "{:?}", told.elapsed());
    assert_eq!(*seen.wrong.lock().unwrap(), Vec::<String>::new());

    let server = Server::start_on(folder, &[]).await;
    let kept = names(&server).await;
    let acknowledged = seen.acknowledged.lock().unwrap().clone();
    assert!(acknowledged.len() >= WRITERS);
    let lost: Vec<_> = acknowledged.difference(&kept).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    // What the server has done it has said.
    let unanswered = seen.unanswered.lock().unwrap().clone();
    let unsaid: Vec<_> = unanswered.intersection(&kept).collect();
    assert!(unsaid.is_empty(), "written and not acknowledged: {unsaid:?}");
}

/// A start that waits for a KMS plug-in can be stopped like any other.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_ready_stops_in_order() {
    const SECRETS: &str = "/api/v1/namespaces/default/secrets";
    let keys = tempfile::tempdir().unwrap();
    let (socket, file) = (keys.path().join("kms.sock"), keys.path().join("encryption.yaml"));
    let text = format!(
        "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n\
         - resources: [secrets]\n  providers:\n\
         \x20 - kms: {{apiVersion: v2, name: vault, endpoint: 'unix://{}', timeout: 1s}}\n",
        socket.display()
    );
    std::fs::write(&file, text).unwrap();
    let flag = format!("--encryption-provider-config={}", file.display());
    let plugin = KmsPlugin::start(&socket, "key");
    let server = Server::start(&[&flag]).await;
    let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
    let secret = r#"{"metadata": {"name": "token"}}"#;
    assert_eq!(client.post(SECRETS, secret).await.unwrap().status(), 201);
    let folder = server.kill().await;
    drop(plugin);

    let server = Server::start_unready(folder, &[&flag]).await;
    let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
    let hook = client.get("/readyz/poststarthook/storage-readiness").await.unwrap();
    assert_eq!(hook.status(), 500, "it waits for the plug-in");
    server.terminate();
    let told = kevel_clock::monotonic_now();
    let log = server.folder.path().join("log");
    let (status, _folder) = server.ended().await;
    let log = std::fs::read_to_string(log).unwrap();
    assert!(status.success(), "{status}: {log}");
    assert!(log.contains("Stopped listening"), "{log}");
    assert!(told.elapsed() < Duration::from_secs(15), "{:?}", told.elapsed());
}

/// Creates objects until the server does not want any more.
async fn write(mut client: Client, writer: usize, seen: Arc<Seen>) {
    for number in 0.. {
        let name = format!("map-{writer}-{number}");
        match client.post(MAPS, config_map(&name, 100)).await {
            Ok(answer) => match answer.status().as_u16() {
                201 => {
                    if read(answer).await.is_err() {
                        seen.wrong(format!("the answer for {name} broke off"));
                    }
                    seen.acknowledged.lock().unwrap().insert(name);
                    if number == 0 {
                        seen.busy.send_modify(|busy| *busy += 1);
                    }
                }
                429 | 503 => return seen.allowed("sent away"),
                code => return seen.wrong(format!("{name}: {code}")),
            },
            Err(error) => {
                seen.unanswered.lock().unwrap().insert(name);
                return seen.allowed(&format!("{error:?}"));
            }
        }
    }
}

/// Lists until the server does not want any more.
async fn list(mut client: Client, seen: Arc<Seen>) {
    for number in 0.. {
        match client.get(&format!("{MAPS}?limit=20")).await {
            Ok(answer) => match answer.status().as_u16() {
                200 => {
                    let body = read(answer).await;
                    if !body.is_ok_and(|body| body.ends_with(b"]}\n")) {
                        seen.wrong("a list is not whole");
                    }
                    if number == 0 {
                        seen.busy.send_modify(|busy| *busy += 1);
                    }
                }
                429 | 503 => return seen.allowed("sent away"),
                code => return seen.wrong(format!("list: {code}")),
            },
            Err(error) => return seen.allowed(&format!("{error:?}")),
        }
    }
}

/// Watches until the server ends it, which it does between events.
async fn watch(mut client: Client, seen: Arc<Seen>) {
    let answer = match client.get(&format!("{MAPS}?watch=1")).await {
        Ok(answer) if answer.status() == 200 => answer,
        other => return seen.wrong(format!("watch: {other:?}")),
    };
    seen.busy.send_modify(|busy| *busy += 1);
    let mut body = answer.into_body();
    let mut last = b'\n';
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => {
                let events = frame.into_data().unwrap_or_default();
                last = events.last().copied().unwrap_or(last);
            }
            Err(error) => return seen.wrong(format!("a watch broke off: {error:?}")),
        }
    }
    if last != b'\n' {
        seen.wrong("a watch ended in an event");
    }
    seen.allowed("a watch ended");
}

/// The names of all objects.
async fn names(server: &Server) -> BTreeSet<String> {
    let mut client = Client::connect(server.port, &server.tls, Version::Http2).await.unwrap();
    let all = read(client.get(MAPS).await.unwrap()).await.unwrap();
    let all: serde_json::Value = serde_json::from_slice(&all).unwrap();
    let names = all["items"].as_array().unwrap().iter();
    names.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}
