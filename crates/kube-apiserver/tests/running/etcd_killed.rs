//! etcd ended by kill -9 while there is much to do. `KEVEL_CRASH_ROUNDS` sets the number of kills.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

use crate::client::{Client, Version, read};
use crate::written::{MAPS, Written, number_of};
use crate::{Server, amount, free_port, soon};

const WRITERS: usize = 8;

/// An etcd of our own, killed when dropped.
struct Etcd {
    program: PathBuf,
    arguments: Vec<String>,
    process: Child,
    endpoint: String,
}

impl Etcd {
    /// `None` where there is none: in `KEVEL_ETCD` or on the `PATH`.
    fn start(folder: &Path) -> Option<Etcd> {
        let named = std::env::var_os("KEVEL_ETCD").map(PathBuf::from);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let installed = std::env::split_paths(&path).map(|folder| folder.join("etcd"));
        let Some(program) = named.into_iter().chain(installed).find(|file| file.is_file()) else {
            eprintln!("SKIPPED etcd killed under load: no etcd in KEVEL_ETCD or PATH");
            return None;
        };
        let [client, peer] =
            [free_port(), free_port()].map(|port| format!("http://127.0.0.1:{port}"));
        let arguments = vec![
            format!("--data-dir={}", folder.join("etcd").display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            "--log-level=error".to_owned(),
        ];
        let process = spawn(&program, &arguments);
        Some(Etcd { program, arguments, process, endpoint: client })
    }

    async fn kill_and_restart(&mut self) {
        soon(self.process.kill()).await.unwrap();
        self.process = spawn(&self.program, &self.arguments);
    }
}

fn spawn(program: &Path, arguments: &[String]) -> Child {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    command.spawn().unwrap()
}

/// Keys and certificates, as a server without flags makes them for itself.
async fn keys() -> (tempfile::TempDir, Vec<String>) {
    let folder = Server::start(&[]).await.kill().await;
    let file = |name: &str| folder.path().join("data/pki").join(name).display().to_string();
    let flags = vec![
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--tls-cert-file={}", file("apiserver.crt")),
        format!("--tls-private-key-file={}", file("apiserver.key")),
        format!("--service-account-key-file={}", file("sa.pub")),
        format!("--service-account-signing-key-file={}", file("sa.key")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
    ];
    (folder, flags)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_etcds_end() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut etcd) = Etcd::start(folder.path()) else { return };
    let (keys, mut flags) = keys().await;
    flags.push(format!("--etcd-servers={}", etcd.endpoint));
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let server = Server::start_on(keys, &flags).await;
    let written = Arc::new(Written::default());
    let seen = Arc::new(Mutex::new(BTreeMap::new()));
    let watcher = tokio::spawn(watch(server.port, server.tls.clone(), seen.clone()));
    let mut writers = written.begin(&server, WRITERS);
    for round in 0..amount("KEVEL_CRASH_ROUNDS", 3) {
        written.more(60 + 23 * (round % 5)).await;
        etcd.kill_and_restart().await;
        // The server lives through it.
        let mut client =
            soon(Client::connect(server.port, &server.tls, Version::Http1)).await.unwrap();
        assert_eq!(soon(client.get("/livez/ping")).await.unwrap().status(), 200);
    }
    written.more(60).await;
    written.stop();
    while let Some(ended) = soon(writers.join_next()).await {
        ended.unwrap();
    }
    written.check(&server).await;
    // The watcher comes to know the last of everything, too.
    let last = written.last().await;
    let knows = |seen: &BTreeMap<String, usize>| {
        last.iter().all(|(name, number)| seen.get(name).is_some_and(|known| known >= number))
    };
    soon(async {
        while !knows(&*seen.lock().await) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    watcher.abort();
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

/// Lists, and watches from there on, for as long as it takes. What is seen never goes back.
async fn watch(port: u16, tls: rustls::ClientConfig, seen: Arc<Mutex<BTreeMap<String, usize>>>) {
    loop {
        let _ = follow(port, &tls, &seen).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Follows until the watch ends, or something fails.
async fn follow(
    port: u16,
    tls: &rustls::ClientConfig,
    seen: &Mutex<BTreeMap<String, usize>>,
) -> Option<()> {
    let mut client = Client::connect(port, tls, Version::Http2).await.ok()?;
    let list = client.get(MAPS).await.ok().filter(|list| list.status() == 200)?;
    let list: serde_json::Value = serde_json::from_slice(&read(list).await.ok()?).ok()?;
    for item in list["items"].as_array()? {
        note(seen, item).await;
    }
    let from = list["metadata"]["resourceVersion"].as_str()?.to_owned();
    let path = format!("{MAPS}?watch=1&resourceVersion={from}");
    let mut body = client.get(&path).await.ok()?.into_body();
    let mut rest = Vec::new();
    while let Some(frame) = body.frame().await {
        rest.extend_from_slice(&frame.ok()?.into_data().ok()?);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let event: serde_json::Value = serde_json::from_slice(&line).unwrap();
            note(seen, &event["object"]).await;
        }
    }
    Some(())
}

async fn note(seen: &Mutex<BTreeMap<String, usize>>, object: &serde_json::Value) {
    let Some((name, number)) = number_of(object) else { return };
    let mut seen = seen.lock().await;
    let known = seen.entry(name.clone()).or_default();
    assert!(number >= *known, "{name} went back from {known} to {number}");
    *known = number;
}
