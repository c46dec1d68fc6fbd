//! What is forbidden is served under no other name.

use super::cluster::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn no_form_of_a_path_leads_past_permission() {
    let cluster = Cluster::start(&[]).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let secret = r#"{"metadata":{"name":"s"},"stringData":{"k":"v"},"data":{"k":"aGlkZGVu"}}"#;
    cluster.ok("admin", "POST /api/v1/namespaces/default/secrets", secret).await;
    cluster.ok("admin", "POST /api/v1/namespaces/kube-public/secrets", secret).await;
    // Jane reads the config maps of one namespace, and lists one secret, which is another.
    let role = r#"{"metadata":{"name":"r"},"rules":[{"verbs":["get","list"],"apiGroups":[""],"resources":["configmaps"]},{"verbs":["list"],"apiGroups":[""],"resources":["secrets"],"resourceNames":["other"]}]}"#;
    let binding = r#"{"metadata":{"name":"r"},"subjects":[{"kind":"User","name":"jane"}],"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"}}"#;
    cluster.ok("admin", &format!("POST {rbac}/roles"), role).await;
    cluster.ok("admin", &format!("POST {rbac}/rolebindings"), binding).await;
    while cluster.send("jane", "GET /api/v1/namespaces/default/configmaps", "").await.0 != 200 {
        tokio::task::yield_now().await;
    }
    for path in [
        "/api/v1/secrets",
        "/api/v1/namespaces/default/secrets",
        "/api/v1/namespaces/default/secrets/s",
        "/api/v1/namespaces/default/secrets/",
        "/api/v1/namespaces/default/secrets/s/",
        "/api/v1/namespaces/default/configmaps/../secrets/s",
        "/api/v1/namespaces/default/configmaps/%2e%2e/secrets/s",
        "/api/v1/namespaces/default/configmaps/..%2fsecrets%2fs",
        "/api/v1/namespaces/default/./secrets/s",
        "/api/v1/namespaces/default/%2e/secrets/s",
        "/api/v1//namespaces/default/secrets/s",
        "//api/v1/namespaces/default/secrets/s",
        "/api//v1/namespaces/default/secrets/s",
        "/api/v1/namespaces//default/secrets/s",
        "/api/v1/namespaces/default//secrets/s",
        "/api/v1/namespaces/default/secrets//s",
        "/API/v1/namespaces/default/secrets/s",
        "/api/V1/namespaces/default/secrets/s",
        "/api/v1/Namespaces/default/secrets/s",
        "/api/v1/namespaces/default/Secrets/s",
        "/api/v1/namespaces/default/%73ecrets/s",
        "/api/v1/namespaces/default/secrets/%73",
        "/api/v1/namespaces/default/configmaps/%2e%2e%2f%2e%2e%2fdefault/secrets/s",
        "/api/v1/namespaces/default%2fsecrets/s",
        "/api/v1/namespaces/default/../kube-public/secrets/s",
        "/api/v1/namespaces/default/configmaps;/secrets/s",
        "/api/v1/namespaces/default/configmaps/x/secrets/s",
        "/api/v1/watch/secrets",
        "/api/v1/watch/namespaces/default/secrets",
        "/api/v1/watch/namespaces/default/secrets/s",
        "/api/v1/proxy/namespaces/default/secrets/s",
        "/apis//v1/namespaces/default/secrets/s",
        "/apis/core/v1/namespaces/default/secrets/s",
        "/apis/%2e%2e/api/v1/namespaces/default/secrets/s",
        "/healthz/../api/v1/namespaces/default/secrets/s",
        "/version/../api/v1/namespaces/default/secrets/s",
        "/openapi/v2/../../api/v1/namespaces/default/secrets/s",
        // Verbs and names in the query.
        "/api/v1/namespaces/default/secrets?watch=true",
        "/api/v1/namespaces/default/secrets?watch=1&timeoutSeconds=1",
        "/api/v1/namespaces/default/secrets?verb=get&resource=configmaps",
        "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Ds",
        "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name!%3Dother",
        "/api/v1/secrets?fieldSelector=metadata.name%3Dother&fieldSelector=metadata.name%3Ds",
        "/api/v1/namespaces/kube-public/secrets?fieldSelector=metadata.name%3Dother",
        "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dother&watch=true&timeoutSeconds=1",
    ] {
        let what = format!("GET {path}");
        let (code, text) = cluster.send("jane", &what, "").await;
        assert!(!text.contains("aGlkZGVu") && !text.contains("\"k\":"), "{what}: {code} {text}");
        assert!(code != 200, "{what}: {code} {text}");
    }
    // Where several names are asked for, what is served is what was judged.
    for path in [
        "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dother",
        "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dother,metadata.name%3Ds",
        "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dother&fieldSelector=metadata.name%3Ds",
        "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dother&watch=false&watch=true&timeoutSeconds=1",
    ] {
        let (_, text) = cluster.send("jane", &format!("GET {path}"), "").await;
        assert!(!text.contains("aGlkZGVu"), "{path}: {text}");
    }
    // Reading is no writing, whatever headers and parameters say.
    for what in [
        "DELETE /api/v1/namespaces/default/configmaps/x",
        "DELETE /api/v1/namespaces/default/configmaps",
        "DELETE /api/v1/namespaces/default/configmaps?watch=true",
        "DELETE /api/v1/namespaces/default/configmaps/?fieldSelector=metadata.name%3Dx",
        "PUT /api/v1/namespaces/default/configmaps/x",
        "PUT /api/v1/namespaces/default/configmaps/x?_method=GET",
        "PATCH /api/v1/namespaces/default/configmaps/x",
        "POST /api/v1/namespaces/default/configmaps?dryRun=All",
        "POST /api/v1/watch/namespaces/default/configmaps",
    ] {
        let (code, text) = cluster.send("jane", what, "{}").await;
        assert!(matches!(code, 403..=405), "{what}: {code} {text}");
    }
    cluster.stop().await;
}
