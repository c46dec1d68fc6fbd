//! Webhooks of admission: `caBundle` of a configuration.

use kevel_test_support::{Cluster, until};
use serde_json::{Value, json};

use crate::{LOCAL_ROWS, local_rows, reviewed};
use kevel_test_support::trust::{TrustCell, each};

const CONFIG_MAPS: &str = "POST /api/v1/namespaces/default/configmaps?dryRun=All";

/// One webhook for each row, which is asked about the objects that are labelled with it.
fn configuration(kind: &str, cells: &[TrustCell]) -> Value {
    let webhook = |cell: &TrustCell| {
        json!({
            "name": format!("{}.trust.test", cell.row.name),
            "clientConfig": {"url": cell.url("/review"), "caBundle": cell.ca_bundle()},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["configmaps"]}],
            "objectSelector": {"matchLabels": {kind: cell.row.name}},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        })
    };
    let webhooks: Vec<_> = cells.iter().map(webhook).collect();
    json!({"metadata": {"name": "trust"}, "webhooks": webhooks})
}

#[tokio::test(flavor = "multi_thread")]
async fn admission_webhooks_are_trusted_as_go_trusts_them() {
    let cluster = Cluster::alone().await;
    for kind in ["mutating", "validating"] {
        let allow = |_: &str, body: &[u8]| reviewed(body, "response", json!({"allowed": true}));
        let cells = TrustCell::all(local_rows(), allow).await;
        let path =
            format!("POST /apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations");
        cluster.ok("admin", &path, &configuration(kind, &cells).to_string()).await;
        let create = async |cell: &TrustCell| {
            let labels = json!({kind: cell.row.name});
            let object = json!({"metadata": {"name": cell.row.name, "labels": labels}});
            cluster.send("admin", CONFIG_MAPS, &object.to_string()).await
        };
        // The configuration is followed, not waited for.
        let good = cells.iter().find(|cell| cell.row.name == "anchor-good").unwrap();
        until(async || create(good).await.0 == 201 && good.peer.requests() > 0).await;
        let tried = each(&cells, async |cell| {
            let (code, text) = create(cell).await;
            let status: Value = serde_json::from_str(&text).unwrap();
            cell.judge(status["message"].as_str().filter(|_| code != 201)).await;
        });
        assert_eq!(tried.await, LOCAL_ROWS, "{kind}");
    }
    cluster.stop().await;
}
