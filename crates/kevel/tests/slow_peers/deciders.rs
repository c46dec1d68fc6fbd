//! Webhooks that decide who asks and what is allowed, and the one that is told of it.

use kevel_clock::Stopwatch;
use kevel_test_support::{Cluster, until};
use serde_json::json;

use super::dripping::{BODY, Dripping, HEAD};
use super::{LATE, base64, on_time};

/// Batches that an audit webhook is sent at once, at most.
const MAX_SENDING: usize = 64;

fn kubeconfig(server: &Dripping, path: &str) -> String {
    let cluster = json!({
        "server": server.url(path), "certificate-authority-data": base64(&server.ca),
    });
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "c", "cluster": cluster}], "users": [],
        "contexts": [{"name": "x", "context": {"cluster": "c"}}],
    })
    .to_string()
}

/// A folder with the kubeconfig of a webhook, and the flag's value that names it.
fn configured(server: &Dripping, path: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("webhook.kubeconfig");
    std::fs::write(&file, kubeconfig(server, path)).unwrap();
    (folder, file.display().to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn dripping_authentication_webhooks_end_with_the_request() {
    for path in [HEAD, BODY] {
        let server = Dripping::start("localhost").await;
        let (_folder, file) = configured(&server, path);
        let flag = format!("--authentication-token-webhook-config-file={file}");
        let cluster = Cluster::start(&[&flag]).await;
        let ask = "GET /api/v1/namespaces/default/configmaps/a?timeout=1s";
        let refused = on_time(cluster.refused("unknown", ask, "")).await;
        assert_eq!(refused, "504 Timeout: request did not complete within the allotted timeout");
        // A token that is known needs no answer of the webhook.
        let started = Stopwatch::start();
        assert_eq!(cluster.send("jane", ask, "").await.0, 403);
        assert!(started.elapsed() < LATE, "{:?}", started.elapsed());
        assert_eq!(server.requests(), 1);
        cluster.stop().await;
    }
}

/// `timeout` of the configuration is for the whole answer; a webhook that is late is counted as such.
#[tokio::test(flavor = "multi_thread")]
async fn dripping_authorization_webhooks_end_at_their_timeout() {
    for (policy, path) in [("Deny", HEAD), ("Deny", BODY), ("NoOpinion", HEAD), ("NoOpinion", BODY)]
    {
        let server = Dripping::start("localhost").await;
        let (folder, file) = configured(&server, path);
        let configuration = json!({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration",
            "authorizers": [
                {"type": "RBAC", "name": "rbac"},
                {"type": "Webhook", "name": "slow", "webhook": {
                    "timeout": "1s", "failurePolicy": policy,
                    "subjectAccessReviewVersion": "v1",
                    "matchConditionSubjectAccessReviewVersion": "v1",
                    "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": file},
                    "matchConditions": [{"expression": "request.user == 'jane'"}],
                }},
            ],
        });
        let config = folder.path().join("authorization.yaml");
        std::fs::write(&config, configuration.to_string()).unwrap();
        let flag = format!("--authorization-config={}", config.display());
        let cluster = Cluster::start(&[&flag]).await;
        let ask = "GET /api/v1/namespaces/default/configmaps/a";
        let (code, refused) = on_time(cluster.send("jane", ask, "")).await;
        let late = match path {
            HEAD => format!("Post \"{}?timeout=1s\": context deadline exceeded", server.url(path)),
            _ => "unexpected error when reading response body. Please retry. Original error: \
                  context deadline exceeded"
                .to_owned(),
        };
        assert_eq!(code, 500, "{refused}");
        assert!(refused.starts_with("Internal Server Error: "), "{refused}");
        assert!(refused.trim_end().ends_with(&late), "{refused}");
        until(async || server.open() == 0).await;
        let metrics = cluster.metrics().await;
        let counted =
            "apiserver_authorization_webhook_evaluations_total{name=\"slow\",result=\"timeout\"} 1";
        assert!(metrics.contains(counted), "{path}");
        let open = "apiserver_authorization_webhook_evaluations_fail_open_total{name=\"slow\",result=\"timeout\"} 1";
        assert_eq!(metrics.contains(open), policy == "NoOpinion", "{path}");
        cluster.stop().await;
    }
}

/// No request waits for an audit webhook that gathers batches, and few connections are open to it.
#[tokio::test(flavor = "multi_thread")]
async fn dripping_audit_webhooks_hold_no_request() {
    for path in [HEAD, BODY] {
        let server = Dripping::start("localhost").await;
        let (folder, file) = configured(&server, path);
        let policy = folder.path().join("policy.yaml");
        let all = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]});
        std::fs::write(&policy, all.to_string()).unwrap();
        let flags = [
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-webhook-config-file={file}"),
            "--audit-webhook-batch-max-size=1".to_owned(),
            "--audit-webhook-batch-throttle-enable=false".to_owned(),
            "--audit-webhook-batch-buffer-size=200".to_owned(),
        ];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let cluster = Cluster::start(&flags).await;
        for _ in 0..300 {
            let started = Stopwatch::start();
            assert_eq!(cluster.send("admin", "GET /version", "").await.0, 200);
            assert!(started.elapsed() < LATE, "{:?}", started.elapsed());
        }
        until(async || server.open() > 1).await;
        assert!(server.open() <= MAX_SENDING, "{}", server.open());
        let metrics = cluster.metrics().await;
        assert!(metrics.contains("apiserver_audit_error_total{plugin=\"buffered\"}"));
        // Its end waits for batches, as the reference's does: the process ends before it.
        std::mem::forget(cluster);
    }
}
