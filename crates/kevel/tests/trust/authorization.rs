//! Webhooks of authorization: kubeconfig files that an `AuthorizationConfiguration` names.

use kevel_test_support::Cluster;
use kevel_test_support::trust::{TrustCell, each, rows};
use serde_json::{Value, json};

use crate::{ROWS, reviewed, write};

const REVIEWS: &str = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews";

/// One webhook for each row, which is asked about the user of that name.
fn authorizer(cell: &TrustCell, folder: &std::path::Path) -> Value {
    let name = &cell.row.name;
    json!({"type": "Webhook", "name": format!("{name}.trust.test"), "webhook": {
        "timeout": "30s",
        "authorizedTTL": "1s",
        "unauthorizedTTL": "1s",
        "subjectAccessReviewVersion": "v1",
        "matchConditionSubjectAccessReviewVersion": "v1",
        "failurePolicy": "NoOpinion",
        "connectionInfo": {
            "type": "KubeConfigFile",
            "kubeConfigFile": cell.kubeconfig(folder, "/authorize"),
        },
        "matchConditions": [{"expression": format!("request.user == '{name}'")}],
    }})
}

#[tokio::test(flavor = "multi_thread")]
async fn authorization_webhooks_are_trusted_as_go_trusts_them() {
    let allow = |_: &str, body: &[u8]| reviewed(body, "status", json!({"allowed": true}));
    let cells = TrustCell::all(rows(), allow).await;
    let folder = tempfile::tempdir().unwrap();
    let authorizers: Vec<_> = cells.iter().map(|cell| authorizer(cell, folder.path())).collect();
    let config = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthorizationConfiguration",
        "authorizers": authorizers,
    });
    let config = write(folder.path(), "authorization.json", &config.to_string());
    let cluster = Cluster::on(folder, vec![format!("--authorization-config={config}")]).await;
    let tried = each(&cells, async |cell| {
        let attributes = json!({"verb": "get", "resource": "pods", "namespace": "default"});
        let spec = json!({"user": cell.row.name, "resourceAttributes": attributes});
        let review = cluster.ok("admin", REVIEWS, &json!({"spec": spec}).to_string()).await;
        let status = &review["status"];
        let error = status["evaluationError"].as_str();
        cell.judge(error.filter(|_| status["allowed"] != true)).await;
    });
    assert_eq!(tried.await, ROWS);
    cluster.stop().await;
}
