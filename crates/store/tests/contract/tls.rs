//! etcd behind certificates, as clusters run it.

use std::{fs, path::Path, time::Duration};

use kevel_store::{
    Engine, Error, Revision,
    etcd::{self, Etcd, TlsFiles},
};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use crate::engines::{EtcdServer, PATIENCE, events_until, owned};

/// Writes an authority and two certificates by it: `ca`, `server` and `client`, each a `.crt` and a
/// `.key`.
fn write_certificates(directory: &Path) {
    let write = |name: &str, certificate: String, key: &KeyPair| {
        fs::write(directory.join(format!("{name}.crt")), certificate).unwrap();
        fs::write(directory.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    };
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new([]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    write("ca", authority.self_signed(&authority_key).unwrap().pem(), &authority_key);
    let issuer = Issuer::new(authority, authority_key);
    for name in ["server", "client"] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["127.0.0.1".to_string()]).unwrap();
        // etcd is a client of itself.
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        write(name, params.signed_by(&key, &issuer).unwrap().pem(), &key);
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
        let endpoints = vec![server.endpoint()];
        let request_timeout = Duration::from_secs(1);
        Etcd::connect(etcd::Options { endpoints, tls, request_timeout, ..Default::default() })
    };

    let known = connect(Some((file("client.crt"), file("client.key")))).await.unwrap();
    tokio::time::timeout(PATIENCE, async { while known.health().await.is_err() {} }).await.unwrap();
    assert_eq!(known.create(b"/a", owned("1"), None).await, Ok(Revision(2)));
    let mut watch = known.watch(b"/", Revision(1)).await.unwrap();
    assert_eq!(events_until(&mut watch, Revision(1), Revision(2)).await.len(), 1);

    let unknown = connect(None).await.unwrap();
    assert!(matches!(unknown.health().await, Err(Error::Unavailable(_))));
    let nowhere = connect(Some((file("none.crt"), file("none.key")))).await.unwrap_err();
    assert!(matches!(nowhere, Error::Invalid(_)), "{nowhere:?}");
}
