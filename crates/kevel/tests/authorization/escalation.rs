//! Escalation of privileges by users who may write roles and bindings.

use serde_json::json;

use kevel_test_support::Cluster;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const OPERATIONS: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Permissions of jane: she reads pods, and writes roles and bindings, without the verbs `escalate` and `bind`.
async fn begin() -> Cluster {
    let cluster = Cluster::start(&[]).await;
    let verbs = ["get", "list", "create", "update", "patch", "delete", "deletecollection"];
    let resources = ["roles", "rolebindings", "clusterroles", "clusterrolebindings"];
    let role = json!({"metadata": {"name": "writer"}, "rules": [
        {"verbs": verbs, "apiGroups": ["rbac.authorization.k8s.io"], "resources": resources},
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
    ]});
    cluster.ok("admin", &format!("POST {RBAC}/clusterroles"), &role.to_string()).await;
    let binding = binding("writer", "ClusterRole", "writer");
    cluster.ok("admin", &format!("POST {RBAC}/clusterrolebindings"), &binding).await;
    cluster
        .until_sent("jane", &format!("GET {RBAC}/clusterroles/writer"), "", |answer| {
            answer.0 == 200
        })
        .await;
    // What she may write, and what is above her.
    let own = json!({"metadata": {"name": "own"}, "rules": [pods()]}).to_string();
    cluster.ok("jane", &format!("POST {RBAC}/namespaces/default/roles"), &own).await;
    cluster.ok("jane", &format!("POST {RBAC}/clusterroles"), &own).await;
    let of_own = binding_of_own();
    cluster.ok("jane", &format!("POST {RBAC}/namespaces/default/rolebindings"), &of_own).await;
    let strong = json!({"metadata": {"name": "strong"}, "rules": [secrets("get")]}).to_string();
    cluster.ok("admin", &format!("POST {RBAC}/clusterroles"), &strong).await;
    let of_strong = json!({
        "metadata": {"name": "strong"}, "subjects": [{"kind": "User", "name": "joe"}],
        "roleRef": reference("ClusterRole", "strong"),
    });
    let bindings = format!("POST {RBAC}/namespaces/default/rolebindings");
    cluster.ok("admin", &bindings, &of_strong.to_string()).await;
    cluster
}

fn pods() -> serde_json::Value {
    json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]})
}

fn secrets(verb: &str) -> serde_json::Value {
    json!({"verbs": [verb], "apiGroups": [""], "resources": ["secrets"]})
}

fn reference(kind: &str, role: &str) -> serde_json::Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role})
}

fn binding(name: &str, kind: &str, role: &str) -> String {
    json!({
        "metadata": {"name": name}, "subjects": [{"kind": "User", "name": "jane"}],
        "roleRef": reference(kind, role),
    })
    .to_string()
}

fn binding_of_own() -> String {
    binding("own", "Role", "own")
}

fn role(name: &str, rule: serde_json::Value) -> String {
    json!({"metadata": {"name": name}, "rules": [rule]}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn writing_roles_gives_no_further_permissions() {
    let cluster = begin().await;
    let cases = roles().into_iter().chain(changes()).chain(bindings());
    let mut tried = 0;
    for (what, content_type, body, code) in cases {
        let headers = [("content-type", content_type)];
        let (found, text) = cluster.send_with("jane", &what, &headers, &body).await;
        assert_eq!(found, code, "{what} {body}: {text}");
        tried += 1;
    }
    assert!(tried >= 12);
    // None of it has an effect, also a moment later.
    let review = json!({"spec": {"resourceAttributes":
        {"verb": "get", "resource": "secrets", "namespace": "default"}}});
    let path = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let status = cluster.ok("jane", path, &review.to_string()).await["status"].clone();
    assert_eq!(status["allowed"], false, "{status}");
    let secret = "GET /api/v1/namespaces/default/secrets/s";
    assert_eq!(cluster.send("jane", secret, "").await.0, 403);
    cluster.stop().await;
}

type Case = (String, &'static str, String, u16);

/// New roles that hold more than their maker.
fn roles() -> Vec<Case> {
    let rules = [
        secrets("get"),
        secrets("*"),
        json!({"verbs": ["get"], "apiGroups": ["*"], "resources": ["pods"]}),
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["*"]}),
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/*"]}),
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["*/log"]}),
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "secrets"]}),
        // One name is more than none.
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["s"]}),
        json!({"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"]}),
        json!({"verbs": ["create"], "apiGroups": [""], "resources": ["serviceaccounts/token"]}),
        json!({"verbs": ["bind", "escalate"], "apiGroups": ["rbac.authorization.k8s.io"],
               "resources": ["clusterroles"]}),
    ];
    let path = format!("{RBAC}/namespaces/default/roles");
    let new =
        |rule: &serde_json::Value| (format!("POST {path}"), JSON, role("new", rule.clone()), 403);
    let mut cases: Vec<Case> = rules.iter().map(new).collect();
    let paths = json!({"verbs": ["get"], "nonResourceURLs": ["/metrics"]});
    cases.push((format!("POST {RBAC}/clusterroles"), JSON, role("new", paths), 403));
    // By an update or an apply of what is not there, and as a dry run.
    cases.push((format!("PUT {path}/new"), JSON, role("new", secrets("get")), 403));
    let applied = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "new"}, "rules": [secrets("get")]});
    let apply = format!("PATCH {path}/new?fieldManager=jane");
    cases.push((apply, APPLY, applied.to_string(), 403));
    let dry = format!("POST {path}?dryRun=All");
    cases.push((dry, JSON, role("new", secrets("get")), 403));
    // Whose rules are those of others.
    let gathers = json!({"metadata": {"name": "new"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
    cases.push((format!("POST {RBAC}/clusterroles"), JSON, gathers.to_string(), 403));
    cases
}

/// Changes of roles that are there.
fn changes() -> Vec<Case> {
    let own = format!("{RBAC}/namespaces/default/roles/own");
    let more = json!({"rules": [pods(), secrets("get")]});
    let added = json!([{"op": "add", "path": "/rules/-", "value": secrets("get")}]);
    let verb = json!([{"op": "add", "path": "/rules/0/resources/-", "value": "secrets"}]);
    let applied = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "own"}, "rules": [secrets("get")]});
    let strong = format!("{RBAC}/clusterroles/strong");
    // A strong role whose rules a role that everybody has would gather.
    let label =
        json!({"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}});
    let gather = json!({"aggregationRule": {"clusterRoleSelectors": [{}]}});
    vec![
        (format!("PUT {own}"), JSON, role("own", secrets("get")), 403),
        (format!("PATCH {own}"), MERGE, more.to_string(), 403),
        (format!("PATCH {own}"), STRATEGIC, more.to_string(), 403),
        (format!("PATCH {own}"), OPERATIONS, added.to_string(), 403),
        (format!("PATCH {own}"), OPERATIONS, verb.to_string(), 403),
        (format!("PATCH {own}?fieldManager=jane&force=true"), APPLY, applied.to_string(), 403),
        (format!("PATCH {strong}"), MERGE, label.to_string(), 403),
        (format!("PATCH {RBAC}/clusterroles/own"), MERGE, gather.to_string(), 403),
    ]
}

/// Bindings to roles that hold more than who binds.
fn bindings() -> Vec<Case> {
    let path = format!("{RBAC}/namespaces/default/rolebindings");
    let subject = json!({"subjects": [{"kind": "User", "name": "jane"}]});
    let group = json!({"subjects": [{"kind": "Group", "name": "dev"}]});
    let changed = |role: &str| json!({"roleRef": reference("ClusterRole", role)}).to_string();
    let applied = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "strong"}, "subjects": subject["subjects"],
        "roleRef": reference("ClusterRole", "strong")});
    let all = |role: &str| binding("new", "ClusterRole", role);
    vec![
        (format!("POST {path}"), JSON, all("cluster-admin"), 403),
        (format!("POST {path}"), JSON, all("strong"), 403),
        (format!("POST {RBAC}/clusterrolebindings"), JSON, all("cluster-admin"), 403),
        (format!("POST {RBAC}/clusterrolebindings"), JSON, all("system:aggregate-to-view"), 403),
        (format!("PUT {path}/new"), JSON, all("strong"), 403),
        (format!("PATCH {path}/strong"), MERGE, subject.to_string(), 403),
        (format!("PATCH {path}/strong"), STRATEGIC, group.to_string(), 403),
        (
            format!("PATCH {path}/strong?fieldManager=jane&force=true"),
            APPLY,
            applied.to_string(),
            403,
        ),
        (format!("PATCH {path}/own"), MERGE, changed("cluster-admin"), 403),
        // A binding is to one role for ever, also where that were no gain.
        (format!("PATCH {path}/own"), MERGE, changed("own"), 422),
        // What is not there yet may be anything later.
        (format!("POST {path}"), JSON, binding("new", "Role", "later"), 404),
    ]
}
