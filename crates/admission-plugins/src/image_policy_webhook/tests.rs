use kevel_test_support::trust::{TrustCell, each, rows};

use super::*;

/// Number of rows, so that a lost row fails the test.
const ROWS: usize = 98;

/// Runs each row of `conformance/certificates` on a real socket and compares with the verdict of Go's `crypto/x509`.
#[tokio::test(flavor = "multi_thread")]
async fn image_policy_webhooks_are_trusted_as_go_trusts_them() {
    let folder = tempfile::tempdir().unwrap();
    let answer =
        format!(r#"{{"apiVersion":"{API_VERSION}","kind":"{KIND}","status":{{"allowed":true}}}}"#);
    let cells = TrustCell::all(rows(), move |_, _| answer.clone()).await;
    let tried = each(&cells, async |cell| {
        let file = cell.kubeconfig(folder.path(), "/images");
        let config = format!("imagePolicy: {{kubeConfigFile: '{file}', retryBackoff: 1}}");
        let webhook = ImagePolicyWebhook::new(&config, &kevel_clock::Clock::system()).unwrap();
        let refusal = webhook.ask(b"{}").await.map(|status| assert!(status.allowed)).err();
        cell.judge(refusal.as_deref()).await;
    });
    assert_eq!(tried.await, ROWS);
}
