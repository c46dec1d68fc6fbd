//! etcd with TLS and client certificates.

use std::{path::Path, time::Duration};

use kevel_store::{
    Engine, Error, Revision,
    etcd::{self, Etcd, TlsFiles},
};
use kevel_test_support::{Ca, EtcdServer, until, write_pair};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose};

use crate::engines::{events_until, owned};

/// Writes a CA and two certificates issued by it: `ca`, `server` and `client`, each as `.crt` and `.key`.
fn write_certificates(directory: &Path) {
    let ca = Ca::new("etcd");
    ca.write(directory);
    for name in ["server", "client"] {
        let mut params = CertificateParams::new(["127.0.0.1".to_string()]).unwrap();
        // etcd is a client of itself.
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        write_pair(directory, name, &ca.issue(params));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_is_reached_with_certificates() {
    let directory = tempfile::tempdir().unwrap();
    write_certificates(directory.path());
    let file = |name: &str| directory.path().join(name);
    let flag = |flag: &str, name: &str| format!("--{flag}={}", file(name).display());
    let flags = [
        flag("cert-file", "server.crt"),
        flag("key-file", "server.key"),
        flag("trusted-ca-file", "ca.crt"),
        "--client-cert-auth".to_string(),
    ];
    let Some(server) = EtcdServer::start_with(directory.path(), "https", &flags) else { return };
    let connect = |client| {
        let tls = Some(TlsFiles { trusted_ca: file("ca.crt"), client });
        let endpoints = vec![server.endpoint.clone()];
        let request_timeout = Duration::from_secs(1);
        Etcd::connect(etcd::Options { endpoints, tls, request_timeout, ..Default::default() })
    };

    let known = connect(Some((file("client.crt"), file("client.key")))).await.unwrap();
    until(async || known.health().await.is_ok()).await;
    assert_eq!(known.create(b"/a", owned("1"), None).await, Ok(Revision(2)));
    let mut watch = known.watch(b"/", Revision(1)).await.unwrap();
    assert_eq!(events_until(&mut watch, Revision(1), Revision(2)).await.len(), 1);

    let unknown = connect(None).await.unwrap();
    assert!(matches!(unknown.health().await, Err(Error::Unavailable(_))));
    let nowhere = connect(Some((file("none.crt"), file("none.key")))).await.unwrap_err();
    assert!(matches!(nowhere, Error::Invalid(_)), "{nowhere:?}");
}
