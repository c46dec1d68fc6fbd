//! Tests of webhooks that a server has one of, by a kubeconfig file of a flag: each row of
//! `conformance/certificates` on a real socket, held against the verdict of Go's `crypto/x509`.

use std::sync::Arc;

use kevel_auth::authentication::TokenCacheMetrics;
use kevel_server::audit::{Errors, Event};
use kevel_server::authentication::TokenAuthenticator as _;
use kevel_server::egress::{Dialer, EgressSelector};
use kevel_server::metrics::Metrics;
use kevel_test_support::trust::{TrustCell, each, rows};

use super::audit;
use super::authentication::token_webhook;
use crate::options::ServerRunOptions;

/// Rows of the table: one that is lost is noticed.
const ROWS: usize = 98;

fn options(flags: Vec<String>) -> ServerRunOptions {
    let mut options = ServerRunOptions::default();
    options.parse(flags).unwrap();
    options
}

#[tokio::test(flavor = "multi_thread")]
async fn authentication_webhooks_are_trusted_as_go_trusts_them() {
    const REVIEW: &str = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview",
        "status":{"authenticated":true,"user":{"username":"jane"}}}"#;
    let folder = tempfile::tempdir().unwrap();
    let cells = TrustCell::all(rows(), |_, _| REVIEW.to_owned()).await;
    let tried = each(&cells, async |cell| {
        let file = cell.kubeconfig(folder.path(), "/authenticate");
        let options = options(vec![
            format!("--authentication-token-webhook-config-file={file}"),
            "--authentication-token-webhook-version=v1".to_owned(),
        ]);
        let metrics = Arc::new(TokenCacheMetrics::new(&Metrics::default()));
        let egress = EgressSelector::default();
        let webhook =
            token_webhook(&options.authentication, &egress, metrics, &kevel_clock::Clock::system())
                .unwrap();
        let known = webhook.authenticate_token("a-token", &[]).await;
        let name = known.map(|known| known.map(|known| known.user.name.clone()));
        let refusal = name.map(|name| assert_eq!(name.as_deref(), Some("jane"))).err();
        cell.judge(refusal.map(|error| error.0).as_deref()).await;
    });
    assert_eq!(tried.await, ROWS);
}

/// The log says why an event was not taken: there is no client that could be told.
#[tokio::test(flavor = "multi_thread")]
async fn audit_webhooks_are_trusted_as_go_trusts_them() {
    let folder = tempfile::tempdir().unwrap();
    let cells = TrustCell::all(rows(), |_, _| String::new()).await;
    let tried = each(&cells, async |cell| {
        let options = options(vec![
            format!("--audit-webhook-config-file={}", cell.kubeconfig(folder.path(), "/audit")),
            "--audit-webhook-mode=blocking-strict".to_owned(),
            "--audit-webhook-initial-backoff=1ms".to_owned(),
        ]);
        let errors = Errors::new(&Metrics::default());
        let webhook = audit::webhook(&options.audit, Dialer::default(), &errors);
        let taken = webhook.unwrap().unwrap().process(&[Arc::new(Event::default())]).await;
        assert_eq!(taken, cell.row.server.is_trusted(), "{}", cell.row.name);
        cell.judge_connection().await;
    });
    assert_eq!(tried.await, ROWS);
}
