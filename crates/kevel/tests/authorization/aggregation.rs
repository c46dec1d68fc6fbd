use kevel_test_support::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_alone_gathers_the_rules_of_its_roles() {
    let cluster = Cluster::start(&[]).await;
    let role = |name: &str| format!("GET /apis/rbac.authorization.k8s.io/v1/clusterroles/{name}");
    for (name, rule) in
        [("view", "endpointslices"), ("edit", "pods/eviction"), ("admin", "rolebindings")]
    {
        cluster.until(&role(name), |(_, text)| text.contains(rule)).await;
    }
    // Administrators of a namespace may all that its editors may, and so on.
    cluster.until(&role("admin"), |(_, text)| text.contains("pods/eviction")).await;
    cluster.until(&role("admin"), |(_, text)| text.contains("endpointslices")).await;
    // A role that is labeled so is part of it from then on, and no longer when it goes.
    let own = r#"{"metadata":{"name":"widgets","labels":{"rbac.authorization.k8s.io/aggregate-to-view":"true"}},"rules":[{"verbs":["get"],"apiGroups":["example.com"],"resources":["widgets"]}]}"#;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    cluster.ok("admin", &format!("POST {roles}"), own).await;
    cluster.until(&role("admin"), |(_, text)| text.contains("widgets")).await;
    cluster.ok("admin", &format!("DELETE {roles}/widgets"), "").await;
    cluster.until(&role("admin"), |(_, text)| !text.contains("widgets")).await;
    let manager = r#""manager":"clusterrole-aggregation-controller","operation":"Apply""#;
    cluster.until(&role("view"), |(_, text)| text.contains(manager)).await;
    cluster.stop().await;
}
