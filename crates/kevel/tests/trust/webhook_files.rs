//! Webhooks that a server has one of, by a kubeconfig file: authentication, audit and image policy. One
//! server for each row asks all three, which is why there are few rows: all of them are tried where the
//! server makes its webhooks (`server/webhook_files.rs` of `kube-apiserver`, `image_policy_webhook.rs`).

use kevel_test_support::Cluster;
use kevel_test_support::trust::{TrustCell, TrustRow, each, rows};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{reviewed, write};

const PODS: &str = "POST /api/v1/namespaces/default/pods";

/// One row of each of the reasons that an operator meets, and what is accepted.
const ROWS: &[&str] = &[
    "anchor-expired",
    "anchor-no-cert-sign",
    "anchor-unknown",
    "leaf-client-usage",
    "name-other",
    "path-intermediate",
];

/// A peer for each use: the requests of each are counted.
struct Peers {
    authentication: TrustCell,
    audit: TrustCell,
    images: TrustCell,
}

impl Peers {
    async fn start(row: &TrustRow) -> Self {
        let one = async || {
            TrustCell::start(row.clone(), |path, body| match path {
                "/token" => reviewed(
                    body,
                    "status",
                    json!({"authenticated": true, "user": {"username": "jane"}}),
                ),
                "/images" => reviewed(body, "status", json!({"allowed": true})),
                _ => String::new(),
            })
            .await
        };
        Peers { authentication: one().await, audit: one().await, images: one().await }
    }

    fn flags(&self, folder: &TempDir) -> Vec<String> {
        let folder = folder.path();
        let images = json!({"imagePolicy": {
            "kubeConfigFile": self.images.kubeconfig(folder, "/images"), "retryBackoff": 1,
        }});
        let admission = json!({
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AdmissionConfiguration",
            "plugins": [{"name": "ImagePolicyWebhook", "configuration": images}],
        });
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["ResponseComplete"],
            "rules": [{"level": "Metadata", "nonResourceURLs": ["/version"]}, {"level": "None"}],
        });
        let admission = write(folder, "admission.json", &admission.to_string());
        let policy = write(folder, "policy.json", &policy.to_string());
        let token = self.authentication.kubeconfig(folder, "/token");
        let audit = self.audit.kubeconfig(folder, "/audit");
        vec![
            format!("--authentication-token-webhook-config-file={token}"),
            "--authentication-token-webhook-version=v1".to_owned(),
            "--enable-admission-plugins=ImagePolicyWebhook".to_owned(),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            format!("--admission-control-config-file={admission}"),
            format!("--audit-policy-file={policy}"),
            format!("--audit-webhook-config-file={audit}"),
            "--audit-webhook-mode=blocking-strict".to_owned(),
            "--audit-webhook-initial-backoff=1ms".to_owned(),
        ]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_of_files_are_trusted_as_go_trusts_them() {
    let rows: Vec<_> = rows().into_iter().filter(|row| ROWS.contains(&&*row.name)).collect();
    let tried = each(&rows, async |row| {
        let (peers, folder) = (Peers::start(row).await, tempfile::tempdir().unwrap());
        let flags = peers.flags(&folder);
        let cluster = Cluster::on(folder, flags).await;
        let status = cluster.review("a-token", &[]).await;
        let error = status["error"].as_str().filter(|_| status["authenticated"] != true);
        peers.authentication.judge(error).await;

        let pod = json!({"metadata": {"name": "a"}, "spec": {
            "containers": [{"name": "c", "image": "i"}]}});
        let (code, text) = cluster.send("admin", PODS, &pod.to_string()).await;
        let status: Value = serde_json::from_str(&text).unwrap();
        peers.images.judge(status["message"].as_str().filter(|_| code != 201)).await;

        // The client is not told why an event was not kept: its request fails.
        let trusted = row.server.is_trusted();
        let (code, text) = cluster.send("admin", "GET /version", "").await;
        assert_eq!(code, if trusted { 200 } else { 500 }, "{}: {text}", row.name);
        peers.audit.judge_connection().await;
        cluster.stop().await;
    });
    assert_eq!(tried.await, ROWS.len());
}
