//! Approval, signature and removal of CertificateSigningRequests.

use std::time::Duration;

use kevel::ManualClock;
use kevel_codec::base64;
use kevel_test_support::{Cluster, until};
use serde_json::{Value, json};

use super::{cluster, exists};

pub const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const SERVING: &str = "kubernetes.io/kubelet-serving";

/// Creates a request for a certificate of a node; returns its key.
async fn ask(cluster: &Cluster, name: &str, signer: &str, usages: &[&str]) -> String {
    let mut parameters = rcgen::CertificateParams::default();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(rcgen::DnType::OrganizationName, "system:nodes");
    parameters.distinguished_name.push(rcgen::DnType::CommonName, "system:node:x");
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = parameters.serialize_request(&key).unwrap().pem().unwrap();
    let request = base64::encode(pem.as_bytes());
    let spec = json!({"signerName": signer, "request": request.as_str(), "usages": usages});
    let request = json!({"metadata": {"name": name}, "spec": spec});
    cluster.admin.create(REQUESTS, &request).await;
    key.serialize_pem()
}

/// Decides on a request, at a time or now.
async fn decide(cluster: &Cluster, name: &str, decision: &str, at: Option<&str>) {
    let condition = json!({
        "type": decision, "status": "True", "reason": "r", "message": "m", "lastUpdateTime": at,
    });
    let patch = json!({"status": {"conditions": [condition]}}).to_string();
    cluster.ok("admin", &format!("PATCH {REQUESTS}/{name}/approval"), &patch).await;
}

/// Asks for a kubelet's client certificate.
pub async fn ask_as_kubelet(cluster: &Cluster, name: &str) -> String {
    ask(cluster, name, KUBELET_CLIENT, &["client auth", "digital signature"]).await
}

/// Asks for a client certificate, and approves that.
pub async fn ask_approved(cluster: &Cluster, name: &str) {
    let signer = "kubernetes.io/kube-apiserver-client";
    ask(cluster, name, signer, &["client auth"]).await;
    decide(cluster, name, "Approved", None).await;
}

/// Asks for a certificate that was denied long ago.
pub async fn ask_denied(cluster: &Cluster, name: &str) {
    ask_pending(cluster, name).await;
    decide(cluster, name, "Denied", Some("2020-01-01T00:00:00Z")).await;
}

/// Asks for a certificate of a signer that is not there.
pub async fn ask_pending(cluster: &Cluster, name: &str) {
    ask(cluster, name, "example.com/signer", &["client auth"]).await;
}

/// Whether a request has a condition.
pub fn has(request: &Value, condition: &str) -> bool {
    let conditions = request["status"]["conditions"].as_array();
    conditions.is_some_and(|conditions| conditions.iter().any(|found| found["type"] == condition))
}

#[tokio::test(flavor = "multi_thread")]
async fn kubelet_gets_a_client_certificate() {
    let cluster = cluster().await;
    let key = ask_as_kubelet(&cluster, "kubelet").await;
    let signed = |request: &Value| request["status"]["certificate"].is_string();
    let request = cluster.until_ok(&format!("GET {REQUESTS}/kubelet"), "", signed).await;
    let approved = &request["status"]["conditions"][0];
    assert_eq!(
        (&approved["type"], &approved["reason"], &approved["message"]),
        (
            &json!("Approved"),
            &json!("AutoApproved"),
            &json!("Auto approving kubelet client certificate after SubjectAccessReview."),
        ),
    );
    let mut certificate = Vec::new();
    let encoded = request["status"]["certificate"].as_str().unwrap();
    base64::decode_into(encoded, &mut certificate).unwrap();
    let certificate = String::from_utf8(certificate).unwrap();
    let node = cluster.certified(&(certificate, key));
    assert_eq!(node.username().await.as_deref(), Some("system:node:x"));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn request_against_the_rules_of_its_signer_fails() {
    let cluster = cluster().await;
    let client = "kubernetes.io/kube-apiserver-client";
    for (name, signer, usages, message) in [
        (
            "nameless",
            SERVING,
            ["server auth", "digital signature"],
            "DNS or IP subjectAltName is required",
        ),
        (
            "server",
            client,
            ["client auth", "server auth"],
            "invalid usage for client certificate: server auth",
        ),
        (
            "purposeless",
            client,
            ["key encipherment", "digital signature"],
            "missing required usage for client certificate: client auth",
        ),
        (
            "kubelet",
            KUBELET_CLIENT,
            ["server auth", "digital signature"],
            "usages did not match [client auth digital signature key encipherment]",
        ),
    ] {
        ask(&cluster, name, signer, &usages).await;
        decide(&cluster, name, "Approved", None).await;
        let failed = |request: &Value| has(request, "Failed");
        let request = cluster.until_ok(&format!("GET {REQUESTS}/{name}"), "", failed).await;
        let condition = &request["status"]["conditions"][1];
        assert_eq!(condition["reason"], "SignerValidationFailure");
        assert_eq!(condition["message"], message);
        assert_eq!(request["status"]["certificate"], Value::Null);
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_denied_long_ago_are_deleted() {
    let cluster = cluster().await;
    ask_denied(&cluster, "old").await;
    ask_pending(&cluster, "pending").await;
    cluster.until(&format!("GET {REQUESTS}/old"), |(code, _)| *code == 404).await;
    assert!(exists(&cluster, &format!("{REQUESTS}/pending")).await);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_pod_certificate_request_is_deleted() {
    let clock = ManualClock::at_present();
    let flag = "--controllers=podcertificaterequest-cleaner-controller";
    let cluster =
        Cluster::with(super::gated(kevel::Server::builder().clock(&clock)).flag(flag)).await;
    let requests = "/apis/certificates.k8s.io/v1beta1/namespaces/default/podcertificaterequests";
    let create = async |name: &str| {
        let key = rcgen::KeyPair::generate().unwrap();
        let request = rcgen::CertificateParams::default().serialize_request(&key).unwrap();
        let request = base64::encode(request.der());
        let spec = json!({
            "signerName": "example.com/signer", "maxExpirationSeconds": 86400,
            "podName": "a", "podUID": "a", "serviceAccountName": "a", "serviceAccountUID": "a",
            "nodeName": "a", "nodeUID": "a", "stubPKCS10Request": request.as_str(),
        });
        let request = json!({"metadata": {"name": name}, "spec": spec});
        cluster.admin.create(requests, &request).await;
    };
    create("old").await;
    clock.advance(Duration::from_secs(14 * 60));
    create("new").await;
    assert!(exists(&cluster, &format!("{requests}/old")).await);
    clock.advance(Duration::from_secs(61));
    until(async || !exists(&cluster, &format!("{requests}/old")).await).await;
    assert!(exists(&cluster, &format!("{requests}/new")).await);
    cluster.stop().await;
}
