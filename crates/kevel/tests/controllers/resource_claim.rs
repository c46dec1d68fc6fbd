//! Claims of pods for devices.

use kevel_test_support::Cluster;
use kevel_test_support::until;
use serde_json::{Value, json};

use super::{cluster, create_pod, exists};

const PODS: &str = "/api/v1/namespaces/default/pods";
const TEMPLATES: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";

pub async fn create_pod_with_claim(cluster: &Cluster) {
    let spec = json!({"metadata": {"labels": {"of": "worker"}}, "spec": {}});
    let template = json!({"metadata": {"name": "device"}, "spec": spec});
    cluster.admin.create(TEMPLATES, &template).await;
    let claims = json!([{"name": "gpu", "resourceClaimTemplateName": "device"}]);
    create_pod(cluster, "default", "worker", &json!({ "resourceClaims": claims })).await;
}

/// Name of the claim in the pod's status; empty if there is none.
async fn made(cluster: &Cluster) -> String {
    let (_, pod) = cluster.admin.get(&format!("{PODS}/worker")).await;
    let name = &pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"];
    name.as_str().unwrap_or_default().to_owned()
}

pub async fn claim_is_made(cluster: &Cluster) -> bool {
    !made(cluster).await.is_empty()
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_of_an_ended_pod_is_freed_and_deleted() {
    let cluster = cluster().await;
    create_pod_with_claim(&cluster).await;
    until(async || claim_is_made(&cluster).await).await;
    let path = format!("{CLAIMS}/{}", made(&cluster).await);
    let (_, claim) = cluster.admin.get(&path).await;
    let (_, pod) = cluster.admin.get(&format!("{PODS}/worker")).await;
    let uid = &pod["metadata"]["uid"];
    assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], *uid);
    assert_eq!(claim["metadata"]["labels"], json!({"of": "worker"}));
    let of = &claim["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"];
    assert_eq!(of, "gpu");

    let protected = json!({"metadata": {
        "finalizers": ["resource.kubernetes.io/delete-protection", "example.com/hold"],
    }});
    cluster.ok("admin", &format!("PATCH {path}"), &protected.to_string()).await;
    let used = json!({"status": {
        "allocation": {},
        "reservedFor": [{"resource": "pods", "name": "worker", "uid": uid}],
    }});
    cluster.ok("admin", &format!("PATCH {path}/status"), &used.to_string()).await;
    let ended = r#"{"status":{"phase":"Succeeded"}}"#;
    cluster.ok("admin", &format!("PATCH {PODS}/worker/status"), ended).await;
    let is_free = |claim: &Value| {
        claim["status"]["reservedFor"].is_null()
            && claim["status"]["allocation"].is_null()
            && claim["metadata"]["finalizers"] == json!(["example.com/hold"])
            && claim["metadata"]["deletionTimestamp"].is_string()
    };
    cluster.until_ok(&format!("GET {path}"), "", is_free).await;
    let free = r#"{"metadata":{"finalizers":null}}"#;
    cluster.ok("admin", &format!("PATCH {path}"), free).await;
    until(async || !exists(&cluster, &path).await).await;
    cluster.stop().await;
}
