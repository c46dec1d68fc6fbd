//! Devices: who may use what others use, and who may say which devices a claim has.

use serde_json::{Value, json};

use super::{Cluster, cluster};

const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const TEMPLATES: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";

fn spec(admin_access: bool) -> Value {
    json!({"devices": {"requests": [{"name": "q", "exactly": {"deviceClassName": "c"}},
        {"name": "r", "exactly": {"deviceClassName": "c", "adminAccess": admin_access}}]}})
}

fn object(name: &str, spec: Value) -> String {
    json!({"metadata": {"name": name}, "spec": spec}).to_string()
}

/// Lets jane write claims and their status, and a role more.
async fn permit(cluster: &Cluster, more: Value) {
    let group = "/apis/rbac.authorization.k8s.io/v1";
    let mut rules = vec![json!({"apiGroups": ["resource.k8s.io"], "verbs": ["*"], "resources":
        ["resourceclaims", "resourceclaims/status", "resourceclaimtemplates"]})];
    rules.extend(more.as_array().unwrap().clone());
    let role = json!({"metadata": {"name": "claims"}, "rules": rules}).to_string();
    cluster.ok("admin", &format!("POST {group}/clusterroles"), &role).await;
    let binding = json!({"metadata": {"name": "claims"}, "subjects": [{"kind": "User", "name": "jane"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "claims"}});
    let bindings = format!("POST {group}/clusterrolebindings");
    cluster.ok("admin", &bindings, &binding.to_string()).await;
    cluster.until_sent("jane", &format!("GET {CLAIMS}"), "", |answer| answer.0 == 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_in_use_are_for_namespaces_that_are_marked() {
    let cluster = cluster(&["--authorization-mode=RBAC"]).await;
    let refused = "spec.devices.requests[1].adminAccess: Forbidden: admin access to devices \
                   requires the `resource.kubernetes.io/admin-access: true` label on the \
                   containing namespace";
    let (claim, template) = (spec(true), json!({"spec": spec(true)}));
    for (path, spec) in [(CLAIMS, &claim), (TEMPLATES, &template)] {
        let post = format!("POST {path}");
        let answer = cluster.refused("admin", &post, &object("a", spec.clone())).await;
        assert!(answer.starts_with("422 ") && answer.ends_with(refused), "{answer}");
    }
    // Nor by a change of what was asked for.
    cluster.ok("admin", &format!("POST {CLAIMS}"), &object("a", spec(false))).await;
    let change = json!({"spec": spec(true)}).to_string();
    let answer = cluster.refused("admin", &format!("PATCH {CLAIMS}/a"), &change).await;
    assert!(answer.starts_with("422 ") && answer.ends_with("field is immutable"), "{answer}");
    let given = json!({"status": {"allocation": {"devices": {"results": [{"request": "r",
        "driver": "a.b", "pool": "p", "device": "d", "adminAccess": true}]}}}});
    let status = format!("PATCH {CLAIMS}/a/status");
    let answer = cluster.refused("admin", &status, &given.to_string()).await;
    assert!(
        answer.contains("status.allocation.devices.results[0].adminAccess: Forbidden"),
        "{answer}"
    );
    let label = r#"{"metadata":{"labels":{"resource.kubernetes.io/admin-access":"true"}}}"#;
    cluster.ok("admin", "PATCH /api/v1/namespaces/default", label).await;
    let post = format!("POST {CLAIMS}");
    cluster.until_sent("admin", &post, &object("b", spec(true)), |answer| answer.0 == 201).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_allocation_needs_the_binding_permission() {
    let cluster = cluster(&["--authorization-mode=RBAC"]).await;
    permit(&cluster, json!([])).await;
    cluster.ok("jane", &format!("POST {CLAIMS}"), &object("a", spec(false))).await;
    let status = format!("PATCH {CLAIMS}/a/status");
    let allocation = json!({"devices": {"results": [{"request": "r", "driver": "a.b", "pool": "p",
        "device": "d"}]}});
    let allocated = json!({"status": {"allocation": allocation}}).to_string();
    assert_eq!(
        cluster.refused("jane", &status, &allocated).await,
        r#"422 ResourceClaim.resource.k8s.io "a" is invalid: status.allocation: Forbidden: changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="patch" permission: resourceclaims.resource.k8s.io is forbidden: User "jane" cannot patch resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope"#
    );
    cluster.ok("admin", &status, &allocated).await;
    let ready = json!({"status": {"devices": [{"driver": "a.b", "pool": "p", "device": "d"}]}});
    assert_eq!(
        cluster.refused("jane", &status, &ready.to_string()).await,
        r#"422 ResourceClaim.resource.k8s.io "a" is invalid: status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver", verb="[arbitrary-node:patch]" permission: resourceclaims.resource.k8s.io "a.b" is forbidden: User "jane" cannot arbitrary-node:patch resource "resourceclaims/driver" in API group "resource.k8s.io" in the namespace "default""#
    );
    // Told together with what the rules of the kind say, and before it.
    let both = json!({"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
        "devices": [{"driver": "a.b", "pool": "p", "device": "other"}]}});
    let answer = cluster.refused("jane", &status, &both.to_string()).await;
    let faults: Vec<&str> = [
        "status.allocation: Forbidden: changing",
        "status.devices: Forbidden",
        "status.devices[0]: Invalid value",
    ]
    .into_iter()
    .filter(|fault| answer.contains(fault))
    .collect();
    assert_eq!(faults.len(), 3, "{answer}");
    let at = |fault: &str| answer.find(fault).unwrap();
    assert!(at(faults[0]) < at(faults[1]) && at(faults[1]) < at(faults[2]), "{answer}");
    // Who changes neither is not asked.
    cluster.ok("jane", &status, r#"{"status":{}}"#).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn drivers_and_schedulers_have_rights_of_their_own() {
    let cluster = cluster(&["--authorization-mode=RBAC"]).await;
    let drivers = json!({"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/driver"],
        "resourceNames": ["a.b"], "verbs": ["arbitrary-node:patch"]});
    let binding = json!({"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/binding"],
        "verbs": ["patch"]});
    permit(&cluster, json!([drivers, binding])).await;
    cluster.ok("jane", &format!("POST {CLAIMS}"), &object("a", spec(false))).await;
    let device = |driver: &str| json!({"driver": driver, "pool": "p", "device": "d"});
    let result = |driver: &str| {
        let mut result = device(driver);
        result["request"] = "r".into();
        result
    };
    let status = format!("PATCH {CLAIMS}/a/status");
    let results = json!([result("a.b"), result("c.d")]);
    let allocated = json!({"status": {"allocation": {"devices": {"results": results}}}});
    cluster.ok("jane", &status, &allocated.to_string()).await;
    let said = |driver| json!({"status": {"devices": [device(driver)]}}).to_string();
    cluster.ok("jane", &status, &said("a.b")).await;
    let answer = cluster.refused("jane", &status, &said("c.d")).await;
    assert!(answer.contains(r#"resourceclaims.resource.k8s.io "c.d" is forbidden"#), "{answer}");
    cluster.stop().await;
}
