//! What the server says of itself while its store does not answer.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::client::{Client, Version, read};
use crate::{Server, free_port, soon};

/// The longest that a health check may take to say that the store does not answer: the two checks of
/// `/readyz` have two seconds each.
const DEADLINE: Duration = Duration::from_secs(5);

/// The etcd to test with: `KEVEL_ETCD`, or one that is installed.
fn etcd_binary() -> Option<PathBuf> {
    let named = std::env::var_os("KEVEL_ETCD").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).map(|folder| folder.join("etcd"));
    let found = named.into_iter().chain(installed).find(|file| file.is_file());
    if found.is_none() {
        eprintln!("SKIPPED: no etcd in KEVEL_ETCD or PATH");
    }
    found
}

fn signal(process: &Child, signal: Signal) {
    let id = Pid::from_raw(process.id().unwrap() as i32).unwrap();
    kill_process(id, signal).unwrap();
}

async fn get(server: &Server, path: &str) -> (u16, String) {
    let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
    let response = client.get(path).await.unwrap();
    let status = response.status().as_u16();
    let body = read(response).await.unwrap();
    (status, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test]
async fn a_store_that_hangs_turns_health_red_in_time_and_green_again() {
    let Some(binary) = etcd_binary() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (port, peer) = (free_port(), free_port());
    let urls = [port, peer].map(|port| format!("http://127.0.0.1:{port}"));
    let etcd = Command::new(binary)
        .arg("--data-dir")
        .arg(folder.path().join("etcd"))
        .args(["--listen-client-urls", &urls[0], "--advertise-client-urls", &urls[0]])
        .args(["--listen-peer-urls", &urls[1], "--initial-advertise-peer-urls", &urls[1]])
        .args(["--initial-cluster", &format!("default={}", urls[1]), "--unsafe-no-fsync"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    // A server that stands alone makes the keys that one on etcd has to be given.
    let alone = Server::start_on(folder, &["--storage=memory"]).await;
    alone.terminate();
    let (_, folder) = alone.ended().await;
    let pki = folder.path().join("data/pki");
    let file = |flag: &str, name: &str| format!("--{flag}={}", pki.join(name).display());
    let flags = [
        format!("--etcd-servers={}", urls[0]),
        file("client-ca-file", "ca.crt"),
        file("tls-cert-file", "apiserver.crt"),
        file("tls-private-key-file", "apiserver.key"),
        file("service-account-key-file", "sa.pub"),
        file("service-account-signing-key-file", "sa.key"),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let server = Server::start_on(folder, &flags).await;
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(get(&server, path).await, (200, "ok".to_owned()), "{path}");
    }

    signal(&etcd, Signal::STOP);
    for (path, checks) in [
        ("/livez", &["etcd"][..]),
        ("/healthz", &["etcd"]),
        ("/readyz", &["etcd", "etcd-readiness"]),
    ] {
        // An answer from before may count for a second.
        let red = soon(async {
            loop {
                let asked = Instant::now();
                let answer = get(&server, path).await;
                assert!(asked.elapsed() < DEADLINE, "{path} took {:?}", asked.elapsed());
                if answer.0 != 200 {
                    return answer;
                }
            }
        });
        let (status, text) = red.await;
        assert_eq!(status, 500, "{text}");
        for check in checks {
            assert!(text.contains(&format!("[-]{check} failed: reason withheld")), "{text}");
        }
        assert!(text.contains("[+]ping ok"), "{text}");
    }
    let (_, why) = get(&server, "/livez/etcd").await;
    assert_eq!(why, "internal server error: store unavailable: no answer within 2s\n");

    signal(&etcd, Signal::CONT);
    for path in ["/healthz", "/livez", "/readyz"] {
        soon(async { while get(&server, path).await.0 != 200 {} }).await;
    }
    drop(etcd);
}
