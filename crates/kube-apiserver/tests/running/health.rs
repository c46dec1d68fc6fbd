//! Health checks while the store does not answer.

use std::time::Duration;

use kevel_test_support::{EtcdServer, until};
use rustix::process::{Pid, Signal, kill_process};

use crate::client::{Client, Version, read};
use crate::{Server, soon};

/// The longest that a health check may take to say that the store does not answer: the two checks of
/// `/readyz` have two seconds each.
const DEADLINE: Duration = Duration::from_secs(5);

fn signal(etcd: &EtcdServer, signal: Signal) {
    let id = Pid::from_raw(etcd.id() as i32).unwrap();
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
async fn hanging_store_fails_health_checks_until_it_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let Some(etcd) = EtcdServer::start(folder.path()) else { return };
    let server = Server::start_with_etcd(&etcd).await;
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
                let asked = kevel_clock::monotonic_now();
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
        until(async || get(&server, path).await.0 == 200).await;
    }
    drop(etcd);
}
