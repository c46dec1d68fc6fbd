//! Certificates that the program is given, and those that it has made: who gets in by them, what is
//! said about them at the start, and what happens when they are lost.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use kevel_test_support::trust::{TrustRow, leaf_key, rows};
use kevel_test_support::{Ca, write_pair};
use rustls::ClientConfig;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;

use crate::client::{Client, Version, read, request};
use crate::{Server, soon};

/// Rows that each start a server: every rule about an anchor, and what must still get in.
const ROWS: &[&str] = &[
    "anchor-ca-absent",
    "anchor-ca-false",
    "anchor-expired",
    "anchor-good",
    "anchor-no-cert-sign",
    "anchor-not-yet-valid",
    "anchor-pinned-leaf-signs",
    "anchor-server-usage",
    "anchor-v1",
    "path-length-0-with-intermediate",
    "path-intermediate",
    "self-signed-leaf-own-ca",
];

#[derive(Debug)]
struct Shown(Arc<CertifiedKey>);

impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// The codes that the row's client gets by itself, and as a front proxy for another user.
async fn codes(server: &Server, row: &TrustRow) -> [u16; 2] {
    let mut tls: ClientConfig = server.tls.clone();
    tls.client_auth_cert_resolver = Arc::new(Shown(row.certified_key()));
    let mut client = Client::connect(server.port, &tls, Version::Http1).await.unwrap();
    let itself = request(Method::GET, "/api/v1/namespaces", "");
    let mut proxied = request(Method::GET, "/api/v1/namespaces", "");
    proxied.headers_mut().insert("x-remote-user", "jane".parse().unwrap());
    let mut codes = [0; 2];
    for (code, request) in codes.iter_mut().zip([itself, proxied]) {
        let answer = client.send(request).await.unwrap();
        *code = answer.status().as_u16();
        read(answer).await.unwrap();
    }
    codes
}

/// A client certificate of `O=system:masters` counts if Go's rules let its signer sign, and not
/// because something of its name is in a file.
#[tokio::test]
async fn clients_of_anchors_that_cannot_sign_are_refused() {
    let mut folder = Server::start(&["--storage=memory"]).await.kill().await;
    let own = fs::read_to_string(folder.path().join("data/pki/ca.crt")).unwrap();
    let bundle = folder.path().join("bundle.crt");
    let rows: Vec<_> = rows().into_iter().filter(|row| ROWS.contains(&&*row.name)).collect();
    assert_eq!(rows.len(), ROWS.len());
    for row in rows {
        fs::write(&bundle, format!("{own}{}", row.roots)).unwrap();
        let proxies = folder.path().join("proxies.crt");
        fs::write(&proxies, &row.roots).unwrap();
        let flags = [
            "--storage=memory",
            &format!("--client-ca-file={}", bundle.display()),
            &format!("--requestheader-client-ca-file={}", proxies.display()),
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-allowed-names=mallory,pinned",
        ];
        let server = soon(Server::start_on(folder, &flags)).await;
        let expected = match (row.client.is_trusted(), row.name.as_str()) {
            // A pinned client is the user that it names, and no administrator.
            (true, "self-signed-leaf-own-ca") => [403, 403],
            (true, _) => [200, 403],
            (false, _) => [401, 401],
        };
        assert_eq!(codes(&server, &row).await, expected, "{}\n{}", row.name, server.log());
        let said = server.log().contains("A certificate of the bundle cannot sign others");
        let unable = row.name.starts_with("anchor-") && !row.client.is_trusted()
            || row.name == "self-signed-leaf-own-ca";
        assert_eq!(said, unable, "{}\n{}", row.name, server.log());
        folder = server.kill().await;
    }
}

/// A serving certificate that is over is said in the log, and when it ends in a metric.
#[tokio::test]
async fn serving_certificate_that_expired_is_said_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let row = rows().into_iter().find(|row| row.name == "leaf-expired").unwrap();
    let (certificate, key) = (folder.path().join("old.crt"), folder.path().join("old.key"));
    fs::write(&certificate, &row.chain).unwrap();
    fs::write(&key, leaf_key()).unwrap();
    let pair =
        format!("--tls-sni-cert-key={},{}:old.example", certificate.display(), key.display());
    let server = Server::start_on(folder, &[&pair]).await;
    assert!(
        server.log().contains("The certificate has expired: peers refuse it"),
        "{}",
        server.log()
    );
    let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
    let metrics = read(client.get("/metrics").await.unwrap()).await.unwrap();
    let metrics = String::from_utf8(metrics.to_vec()).unwrap();
    let name = "kevel_certificate_expiration_timestamp_seconds";
    let lines: Vec<_> = metrics.lines().filter(|line| line.starts_with(name)).collect();
    let old = lines.iter().find(|line| line.contains("old.crt")).unwrap();
    // 2021-01-01T00:00:00Z, as metrics write large numbers.
    assert!(old.contains("tls-sni-cert-key") && old.ends_with(" 1.6094592e+09"), "{old}");
    for flag in ["tls-cert-file", "own-ca"] {
        assert!(lines.iter().any(|line| line.contains(flag)), "{flag}: {lines:?}");
    }
}

/// Certificates that the server shows as a client are told of like those that it serves with.
#[tokio::test]
async fn client_certificates_that_expire_are_said_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let now = kevel_clock::Clock::system().now();
    let (day, ca) = (Duration::from_secs(86_400), Ca::new("clients"));
    for (name, end) in [("old", now - day), ("soon", now + 10 * day), ("late", now + 100 * day)] {
        write_pair(folder.path(), name, &ca.client_until(name, end));
    }
    let file = |name: &str| folder.path().join(name).display().to_string();
    let flags = [
        format!("--kubelet-client-certificate={}", file("old.crt")),
        format!("--kubelet-client-key={}", file("old.key")),
        format!("--proxy-client-cert-file={}", file("soon.crt")),
        format!("--proxy-client-key-file={}", file("soon.key")),
        format!("--tls-sni-cert-key={},{}:late.example", file("late.crt"), file("late.key")),
        "--storage=memory".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let server = Server::start_on(folder, &flags).await;
    let log = server.log();
    let said = |text: &str| log.lines().filter(|line| line.contains(text)).collect::<Vec<_>>();
    for (text, flag) in [
        ("The certificate has expired: peers refuse it", "kubelet-client-certificate"),
        ("The certificate expires soon", "proxy-client-cert-file"),
    ] {
        let lines = said(text);
        assert!(lines.len() == 1 && lines[0].contains(flag), "{text}: {lines:?}\n{log}");
    }
    let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
    let metrics = read(client.get("/metrics").await.unwrap()).await.unwrap();
    let metrics = String::from_utf8(metrics.to_vec()).unwrap();
    let name = "kevel_certificate_expiration_timestamp_seconds";
    for flag in ["kubelet-client-certificate", "proxy-client-cert-file", "tls-sni-cert-key"] {
        let shown = |line: &str| line.starts_with(name) && line.contains(flag);
        assert!(metrics.lines().any(shown), "{flag}");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap().map(|file| file.unwrap()) {
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// New keys over an old store would make all kubeconfigs and tokens worthless without a word.
#[tokio::test]
async fn lost_keys_are_not_made_again_over_a_store() {
    let folder = Server::start(&[]).await.kill().await;
    let (pki, saved) = (folder.path().join("data/pki"), folder.path().join("saved"));
    copy(&pki, &saved);
    for (lost, named) in [
        (&["ca.crt", "ca.key"][..], "ca.crt, ca.key not found"),
        (&["sa.key"], "sa.key not found"),
        (&["*"], "ca.crt, ca.key, sa.key not found"),
    ] {
        match lost {
            ["*"] => fs::remove_dir_all(&pki).unwrap(),
            files => files.iter().for_each(|file| fs::remove_file(pki.join(file)).unwrap()),
        }
        let log = Server::refused(folder.path(), &[]).await;
        for said in [named, "the store is in use", "Restore the folder from a backup"] {
            assert!(log.contains(said), "{said}: {log}");
        }
        assert!(log.contains(&pki.display().to_string()), "{log}");
        assert!(!pki.join("ca.key").exists() || lost == ["sa.key"], "nothing is made");
        copy(&saved, &pki);
    }
    let before = fs::read(pki.join("ca.crt")).unwrap();
    let folder = Server::start_on(folder, &[]).await.kill().await;
    assert_eq!(fs::read(pki.join("ca.crt")).unwrap(), before, "restored, it goes on");
    fs::remove_dir_all(&pki).unwrap();
    fs::create_dir(&pki).unwrap();
    let folder = Server::start_on(folder, &[]).await.kill().await;
    assert_ne!(fs::read(pki.join("ca.crt")).unwrap(), before, "an empty folder asks for new ones");
    drop(folder);
}
