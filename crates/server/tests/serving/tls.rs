//! Tests of certificates, versions and server names.

use kevel_server::certificates::Subject;
use kevel_server::serving::{ServingCertificate, TlsOptions};

use crate::client::{Tls, connect, get, shown, text};
use crate::handler::Paths;
use crate::{Start, server_certificate, write_pair};
use kevel_test_support::soon;

#[tokio::test]
async fn versions_below_the_lowest_are_refused() {
    let only_1_2: &[_] = &[&rustls::version::TLS12];
    let only_1_3: &[_] = &[&rustls::version::TLS13];
    for (min_version, versions, accepted) in [
        ("", only_1_2, true),
        ("", only_1_3, true),
        ("VersionTLS12", only_1_2, true),
        ("VersionTLS13", only_1_2, false),
        ("VersionTLS13", only_1_3, true),
    ] {
        let options = TlsOptions { min_version: min_version.into(), ..TlsOptions::default() };
        let server = Start { options, ..Start::default() }.serve(Paths::default());
        let connected = soon(connect(&server, Tls { versions, ..Tls::default() })).await;
        assert_eq!(connected.is_ok(), accepted, "{min_version:?}");
    }
}

#[tokio::test]
async fn http2_can_be_disabled() {
    for (disable_http2, chosen) in [(false, &b"h2"[..]), (true, b"http/1.1")] {
        let options = TlsOptions { disable_http2, ..TlsOptions::default() };
        let server = Start { options, ..Start::default() }.serve(Paths::default());
        let tls = Tls { alpn: &["h2", "http/1.1"], ..Tls::default() };
        let stream = soon(connect(&server, tls)).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(chosen));
    }
}

#[tokio::test]
async fn server_name_selects_the_certificate() {
    let start = Start::default();
    let folder = tempfile::tempdir().unwrap();
    let pair = |common_name: &str, in_certificate: &[&str], names: &[&str]| {
        let issued = server_certificate(&start.authority, common_name, in_certificate);
        let (certificate, key) = write_pair(&folder, common_name, &issued);
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        ServingCertificate { certificate, key, names }
    };
    let certificates = vec![
        pair("default", &["localhost", "a.wild.test", "deep.a.wild.test"], &[]),
        pair("wild", &["*.wild.test"], &[]),
        pair("extracted", &["exact.wild.test", "both.test"], &[]),
        pair("explicit", &["both.test", "other.test"], &["both.test"]),
        pair("address", &["x.test"], &["127.0.0.1"]),
    ];
    let start = Start { certificates: Some(certificates), ..start };
    let server = start.serve(Paths::default());
    for (name, expected) in [
        ("localhost", "default"),
        ("a.wild.test", "wild"),
        ("A.Wild.Test", "wild"),
        ("exact.wild.test", "extracted"),
        ("both.test", "explicit"),
        ("deep.a.wild.test", "default"),
        // A client that connects to an address sends no server name.
        ("127.0.0.1", "address"),
    ] {
        assert_eq!(soon(shown(&server, name)).await, expected, "{name}");
    }
}

#[tokio::test]
async fn a_changed_certificate_is_shown_to_the_next_client() {
    let start = Start::default();
    let folder = tempfile::tempdir().unwrap();
    let issue = |name| server_certificate(&start.authority, name, &["localhost"]);
    let (old, new) = (issue("old"), issue("new"));
    let (certificate, key) = write_pair(&folder, "apiserver", &old);
    let pair = ServingCertificate { certificate, key, names: Vec::new() };
    let certificates = Some(vec![pair.clone()]);
    let server = Start { certificates, ..start }.serve(Paths::default());
    assert_eq!(soon(shown(&server, "localhost")).await, "old");
    // A certificate that does not match its key is not loaded.
    std::fs::write(&pair.certificate, &new.certificate).unwrap();
    assert_eq!(soon(shown(&server, "localhost")).await, "old");
    std::fs::write(&pair.key, &new.key).unwrap();
    assert_eq!(soon(shown(&server, "localhost")).await, "new");
}

#[tokio::test]
async fn the_handler_sees_client_certificates_of_any_signer() {
    let server = Start::default().serve(Paths::default());
    let other =
        kevel_server::certificates::Authority::new("other", &kevel_clock::Clock::system()).unwrap();
    let client = |name: &str| Subject::Client { common_name: name.into(), organizations: vec![] };
    let ours = server.authority.issue(&client("jane")).unwrap();
    let theirs = other.issue(&client("joe")).unwrap();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for (certificate, expected) in [
            (None, "HTTP/1.1 nobody 0"),
            (Some((&ours, &ours)), "HTTP/1.1 jane 0"),
            (Some((&theirs, &theirs)), "HTTP/1.1 joe 0"),
        ] {
            let tls = Tls { certificate, versions: &[version], ..Tls::default() };
            let stream = soon(connect(&server, tls)).await.unwrap();
            let stream = hyper_util::rt::TokioIo::new(stream);
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            let answer = soon(text(sender.send_request(get("/")).await)).await;
            assert_eq!(answer, (200, expected.to_owned()), "{version:?}");
        }
    }
}

#[tokio::test]
async fn a_certificate_without_its_key_is_refused() {
    let server = Start::default().serve(Paths::default());
    let client = Subject::Client { common_name: "jane".into(), organizations: vec![] };
    let (shown, signs) =
        (server.authority.issue(&client).unwrap(), server.authority.issue(&client).unwrap());
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let certificate = Some((&shown, &signs));
        let tls = Tls { certificate, versions: &[version], ..Tls::default() };
        // In TLS 1.3 the client gets the error after its part of the handshake.
        if let Ok(stream) = soon(connect(&server, tls)).await {
            let stream = hyper_util::rt::TokioIo::new(stream);
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake::<_, crate::client::Body>(stream)
                    .await
                    .unwrap();
            tokio::spawn(connection);
            soon(sender.send_request(get("/"))).await.unwrap_err();
        }
    }
    assert_eq!(server.served.handshake_errors.count(), 2);
}
