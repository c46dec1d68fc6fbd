//! Attempts at impersonation without permission.

use serde_json::{Value, json};

use kevel_test_support::{Cluster, until};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Grants: joe may impersonate bob, jane no one.
async fn begin() -> Cluster {
    let cluster = Cluster::start(&[]).await;
    let role = json!({"metadata": {"name": "be-bob"}, "rules": [
        {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"]},
    ]});
    let binding = json!({
        "metadata": {"name": "be-bob"}, "subjects": [{"kind": "User", "name": "joe"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "be-bob"},
    });
    cluster.ok("admin", &format!("POST {RBAC}/clusterroles"), &role.to_string()).await;
    cluster.ok("admin", &format!("POST {RBAC}/clusterrolebindings"), &binding.to_string()).await;
    let bob = [("Impersonate-User", "bob")];
    until(async || whoami(&cluster, "joe", &bob).await.0 == 201).await;
    cluster
}

/// Status code, and the user as the server sees it.
async fn whoami(cluster: &Cluster, who: &str, headers: &[(&str, &str)]) -> (u16, Value) {
    let path = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews";
    let headers = [&[("content-type", "application/json")], headers].concat();
    let (code, text) = cluster.send_with(who, path, &headers, "{}").await;
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    (code, answer["status"]["userInfo"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn impersonation_needs_permission_for_user_and_groups() {
    let cluster = begin().await;
    let user = "Impersonate-User";
    let group = "Impersonate-Group";
    for (who, headers, code) in [
        ("jane", &[(user, "bob")][..], 403),
        ("jane", &[(user, "admin")], 403),
        ("joe", &[(user, "admin")], 403),
        ("joe", &[(user, "Bob")], 403),
        ("joe", &[(user, "bob, admin")], 403),
        // Groups, UID and extra fields need permissions of their own.
        ("joe", &[(user, "bob"), (group, "system:masters")], 403),
        ("joe", &[(user, "bob"), (group, "dev")], 403),
        ("joe", &[(user, "bob"), (group, "")], 403),
        ("joe", &[(user, "bob"), ("Impersonate-Uid", "1")], 403),
        ("joe", &[(user, "bob"), ("Impersonate-Extra-Scopes", "all")], 403),
        ("joe", &[(user, "bob"), ("Impersonate-Extra-", "all")], 403),
        // Users who are something else, too.
        ("joe", &[(user, "system:serviceaccount:kube-system:default")], 403),
        ("joe", &[(user, "system:node:a")], 403),
        ("joe", &[(user, "system:anonymous")], 403),
        // Groups without a user.
        ("joe", &[(group, "system:masters")], 400),
        ("joe", &[("Impersonate-Uid", "1")], 400),
        ("joe", &[("Impersonate-Extra-Scopes", "all")], 400),
        ("joe", &[(user, ""), (group, "system:masters")], 400),
        // Said twice, the first counts.
        ("joe", &[(user, "admin"), (user, "bob")], 403),
    ] {
        let found = whoami(&cluster, who, headers).await;
        assert_eq!(found.0, code, "{who} {headers:?}: {}", found.1);
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn impersonated_users_have_their_own_permissions_only() {
    let cluster = begin().await;
    for (who, headers, expected) in [
        ("joe", &[("Impersonate-User", "bob")][..], "bob"),
        ("joe", &[("impersonate-user", "bob")], "bob"),
        ("joe", &[("Impersonate-User", "bob"), ("Impersonate-User", "admin")], "bob"),
        // What a proxy in front may say is not believed of others.
        ("joe", &[("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters")], "joe"),
        ("jane", &[("X-Remote-User", "admin"), ("Impersonate-Foo", "admin")], "jane"),
    ] {
        let (code, info) = whoami(&cluster, who, headers).await;
        assert_eq!((code, &info["username"]), (201, &json!(expected)), "{headers:?}: {info}");
        let groups = info["groups"].as_array().unwrap();
        assert!(!groups.contains(&json!("system:masters")), "{headers:?}: {info}");
    }
    // The permissions are those of the impersonated user.
    let secrets = "GET /api/v1/namespaces/default/secrets";
    let (code, text) = cluster.send_with("joe", secrets, &[("Impersonate-User", "bob")], "").await;
    assert!(code == 403 && text.contains(r#"User \"bob\" cannot list"#), "{code} {text}");
    // What joe may, bob may not: to be bob.
    let (code, info) =
        whoami(&cluster, "admin", &[("Impersonate-User", "bob"), ("Impersonate-User", "x")]).await;
    assert_eq!((code, &info["username"]), (201, &json!("bob")));
    cluster.stop().await;
}
