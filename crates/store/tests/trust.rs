//! Trust in etcd members: each row of `conformance/certificates` on a real socket, compared with the verdict of Go's
//! `crypto/x509`.
#![allow(clippy::unwrap_used)] // Helpers of tests are not in a test module here.

use std::time::Duration;

use kevel_store::etcd::{Etcd, Options, TlsFiles};
use kevel_store::{Engine as _, RangeOptions};
use kevel_test_support::trust::{Presenter, TrustRow, rows};

/// Rows with hosts of the loopback interface.
const LOCAL_ROWS: usize = 89;

/// Calls to an untrusted member are retried until this time has passed.
const REFUSED: Duration = Duration::from_secs(2);

#[tokio::test]
async fn etcd_members_are_trusted_as_go_trusts_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for row in rows().into_iter().filter(TrustRow::is_local) {
        let mut member = Presenter::start(&row, &["h2"]).await;
        let trusted_ca = folder.path().join(&row.name);
        std::fs::write(&trusted_ca, &row.roots).unwrap();
        let endpoint = format!("https://{}:{}", row.host, member.address.port());
        let options = Options {
            endpoints: vec![endpoint],
            tls: Some(TlsFiles { trusted_ca, client: None }),
            ..Options::default()
        };
        // The member does not speak etcd's API: only the handshake can succeed.
        let connecting = tokio::spawn(Etcd::connect(options));
        assert_eq!(member.is_trusted().await, row.server.is_trusted(), "{}", row.name);
        connecting.abort();
        seen += 1;
    }
    assert_eq!(seen, LOCAL_ROWS);
}

#[tokio::test]
async fn etcd_member_that_is_refused_is_told_with_the_rule() {
    let folder = tempfile::tempdir().unwrap();
    let row = rows().into_iter().find(|row| row.name == "anchor-expired").unwrap();
    let member = Presenter::start(&row, &["h2"]).await;
    let trusted_ca = folder.path().join("ca.crt");
    std::fs::write(&trusted_ca, &row.roots).unwrap();
    let options = Options {
        endpoints: vec![format!("https://localhost:{}", member.address.port())],
        tls: Some(TlsFiles { trusted_ca, client: None }),
        request_timeout: REFUSED,
        ..Options::default()
    };
    let etcd = Etcd::connect(options).await.unwrap();
    let error = etcd.range(b"/registry/", RangeOptions::default()).await.unwrap_err().to_string();
    assert!(error.contains("tls: failed to verify certificate: x509: "), "{error}");
    assert!(row.server.is_told_by(&error), "{error}");
}
