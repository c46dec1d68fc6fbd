use kevel_codec::base64;
use serde_json::json;

use super::cluster;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// A request for a certificate of a member of a group.
fn request(name: &str, signer: &str, group: &str) -> String {
    let mut parameters = rcgen::CertificateParams::default();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(rcgen::DnType::OrganizationName, group);
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = parameters.serialize_request(&key).unwrap().pem().unwrap();
    let pem = base64::encode(pem.as_bytes());
    json!({"metadata": {"name": name}, "spec": {
        "signerName": signer, "request": pem.as_str(), "usages": ["client auth"],
    }})
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_asks_to_be_allowed_everything() {
    let cluster = cluster(&[]).await;
    let what = format!("POST {REQUESTS}");
    let signer = "kubernetes.io/kube-apiserver-client";
    assert_eq!(
        cluster.refused("admin", &what, &request("r", signer, "system:masters")).await,
        r#"403 certificatesigningrequests.certificates.k8s.io "r" is forbidden: use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"#
    );
    cluster.ok("admin", &what, &request("r", signer, "others")).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_approves_and_signs_speaks_for_the_signer() {
    let cluster = cluster(&["--authorization-mode=RBAC"]).await;
    let role = |name: &str, rules: serde_json::Value| {
        json!({"metadata": {"name": name}, "rules": rules}).to_string()
    };
    let binding = |name: &str| {
        json!({"metadata": {"name": name}, "subjects": [{"kind": "User", "name": "jane"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}})
        .to_string()
    };
    let group = "/apis/rbac.authorization.k8s.io/v1";
    let parts = ["certificatesigningrequests/approval", "certificatesigningrequests/status"];
    let rules = json!([{"apiGroups": ["certificates.k8s.io"], "resources": parts,
        "verbs": ["patch"]}]);
    cluster.ok("admin", &format!("POST {group}/clusterroles"), &role("patch", rules)).await;
    cluster.ok("admin", &format!("POST {group}/clusterrolebindings"), &binding("patch")).await;
    cluster.ok("admin", &format!("POST {REQUESTS}"), &request("r", "a.b/c", "g")).await;
    let condition = |kind: &str| {
        json!({"status": {"conditions": [{"type": kind, "status": "True", "reason": "r",
            "message": "m"}]}})
        .to_string()
    };
    let approval = format!("PATCH {REQUESTS}/r/approval");
    let forbidden = |what: &str| {
        format!(
            r#"403 certificatesigningrequests.certificates.k8s.io "r" is forbidden: user not permitted to {what} requests with signerName "a.b/c""#
        )
    };
    let approved = condition("Approved");
    loop {
        // Until the binding is known, another reason is given.
        let refused = cluster.refused("jane", &approval, &approved).await;
        if refused == forbidden("approve") {
            break;
        }
    }
    let status = format!("PATCH {REQUESTS}/r/status");
    let failed = condition("Failed");
    assert_eq!(cluster.refused("jane", &status, &failed).await, forbidden("sign"));
    let rules = json!([{"apiGroups": ["certificates.k8s.io"], "resources": ["signers"],
        "resourceNames": ["a.b/*"], "verbs": ["approve"]}]);
    cluster.ok("admin", &format!("POST {group}/clusterroles"), &role("approve", rules)).await;
    cluster.ok("admin", &format!("POST {group}/clusterrolebindings"), &binding("approve")).await;
    while cluster.send("jane", &approval, &approved).await.0 != 200 {
        tokio::task::yield_now().await;
    }
    cluster.stop().await;
}
