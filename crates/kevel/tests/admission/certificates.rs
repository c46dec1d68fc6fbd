use kevel_codec::base64;
use kevel_test_support::until;
use serde_json::json;

use super::cluster;

const APPLY: &str = "application/apply-patch+yaml";
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
async fn certificates_for_system_masters_are_refused() {
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
    // Until the binding is known, another reason is given.
    until(async || cluster.refused("jane", &approval, &approved).await == forbidden("approve"))
        .await;
    let status = format!("PATCH {REQUESTS}/r/status");
    let failed = condition("Failed");
    assert_eq!(cluster.refused("jane", &status, &failed).await, forbidden("sign"));
    let rules = json!([{"apiGroups": ["certificates.k8s.io"], "resources": ["signers"],
        "resourceNames": ["a.b/*"], "verbs": ["approve"]}]);
    cluster.ok("admin", &format!("POST {group}/clusterroles"), &role("approve", rules)).await;
    cluster.ok("admin", &format!("POST {group}/clusterrolebindings"), &binding("approve")).await;
    cluster.until_sent("jane", &approval, &approved, |answer| answer.0 == 200).await;
    cluster.stop().await;
}

/// Every way to write a request: none changes who asked, or for what.
#[tokio::test(flavor = "multi_thread")]
async fn requestor_fields_are_set_by_the_server_and_immutable() {
    let cluster = cluster(&["--authorization-mode=AlwaysAllow"]).await;
    let forged = json!({"username": "system:node:evil", "uid": "9", "groups": ["system:masters"],
        "extra": {"a": ["b"]}});
    let approved = json!({"conditions": [{"type": "Approved", "status": "True"}],
        "certificate": "aGVsbG8="});
    let made = |name: &str, signer: &str| -> serde_json::Value {
        let mut made: serde_json::Value =
            serde_json::from_str(&request(name, signer, "g")).unwrap();
        made["apiVersion"] = "certificates.k8s.io/v1".into();
        made["kind"] = "CertificateSigningRequest".into();
        made["spec"].as_object_mut().unwrap().extend(forged.as_object().unwrap().clone());
        made["status"] = approved.clone();
        made
    };
    let first = made("r", "a.b/c");
    let own = |object: &serde_json::Value| {
        let spec = &object["spec"];
        let field = |name: &str| spec[name].clone();
        json!([
            field("username"),
            field("uid"),
            field("groups"),
            field("extra"),
            field("signerName"),
            field("request") == first["spec"]["request"],
            object["status"]
        ])
    };
    let expected = json!(["jane", "1", ["dev", "system:authenticated"], null, "a.b/c", true, {}]);
    let stored = cluster.ok("jane", &format!("POST {REQUESTS}"), &first.to_string()).await;
    assert_eq!(own(&stored), expected, "{stored}");
    // No manager owns what the update did not change.
    assert_eq!(stored["metadata"]["managedFields"], json!(null));
    let other = made("r", "other.io/x");
    let mut bare = other.clone();
    bare["spec"] = json!({});
    for (what, body, content_type) in [
        ("PUT", &other, "application/json"),
        ("PUT", &bare, "application/json"),
        ("PATCH", &other, "application/merge-patch+json"),
        ("PATCH", &other, "application/strategic-merge-patch+json"),
        ("PATCH", &other, APPLY),
    ] {
        let what = format!("{what} {REQUESTS}/r?fieldManager=m&force={}", content_type == APPLY);
        let what = what.trim_end_matches("&force=false");
        let (code, answer) = cluster
            .send_with("joe", what, &[("content-type", content_type)], &body.to_string())
            .await;
        assert_eq!(code, 200, "{what} {content_type}: {answer}");
        let answer = serde_json::from_str(&answer).unwrap();
        assert_eq!(own(&answer), expected, "{what} {content_type}");
    }
    let unapproved = json!({"metadata": {"name": "r"}, "spec": other["spec"], "status": {}});
    for part in ["status", "approval"] {
        let what = format!("PUT {REQUESTS}/r/{part}");
        let answer = cluster.ok("joe", &what, &unapproved.to_string()).await;
        assert_eq!(own(&answer), expected, "{what}");
    }
    // A request that is made by an apply is signed, too.
    let applied = made("applied", "a.b/c");
    let what = format!("PATCH {REQUESTS}/applied?fieldManager=m");
    let answer =
        cluster.send_with("jane", &what, &[("content-type", APPLY)], &applied.to_string()).await;
    assert_eq!(answer.0, 201, "{}", answer.1);
    let answer: serde_json::Value = serde_json::from_str(&answer.1).unwrap();
    assert_eq!(answer["spec"]["username"], "jane");
    assert_eq!(answer["status"], json!({}));
    cluster.stop().await;
}

/// Approvers approve, signers issue, and neither does the other's work or takes back what was said.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_decided_stays() {
    let cluster = cluster(&["--authorization-mode=AlwaysAllow"]).await;
    cluster.ok("jane", &format!("POST {REQUESTS}"), &request("r", "a.b/c", "g")).await;
    let (approval, status) =
        (format!("PATCH {REQUESTS}/r/approval"), format!("PATCH {REQUESTS}/r/status"));
    let said = |status: serde_json::Value| json!({"status": status}).to_string();
    let condition = |ty: &str| json!({"conditions": [{"type": ty, "status": "True"}]});
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::default().self_signed(&key).unwrap();
    let certificate = base64::encode(certificate.pem().as_bytes());
    let issued = said(json!({"certificate": certificate.as_str()}));
    for (what, body, error) in [
        (
            &status,
            said(condition("Approved")),
            r#"status.conditions: Forbidden: updates may not add a condition of type "Approved""#,
        ),
        (&approval, said(condition("Approved")), ""),
        (&approval, issued.clone(), ""),
        (
            &approval,
            said(condition("Denied")),
            r#"status.conditions: Forbidden: updates may not remove a condition of type "Approved""#,
        ),
        (
            &status,
            said(json!({"certificate": "aGVsbG8="})),
            r#"status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block"#,
        ),
        (&status, issued, ""),
        (
            &status,
            said(json!({"certificate": null})),
            "status.certificate: Forbidden: updates may not modify existing certificate content",
        ),
    ] {
        let (code, answer) = cluster.send("joe", what, &body).await;
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        if error.is_empty() {
            assert_eq!(code, 200, "{what} {body}: {answer}");
            let approver = what == &approval;
            assert!(!approver || answer["status"]["certificate"].is_null(), "{answer}");
        } else {
            let message = answer["message"].as_str().unwrap();
            assert_eq!(code, 422, "{what} {body}: {answer}");
            assert!(message.ends_with(&format!("is invalid: {error}")), "{message}");
        }
    }
    let stored = cluster.ok("joe", &format!("GET {REQUESTS}/r"), "").await;
    let condition = &stored["status"]["conditions"][0];
    assert_eq!(condition["type"], "Approved");
    assert!(condition["lastUpdateTime"].is_string() && condition["lastTransitionTime"].is_string());
    assert_eq!(stored["status"]["certificate"], certificate.as_str());
    cluster.stop().await;
}
