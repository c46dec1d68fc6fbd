//! Authorization of policy parameters.

use serde_json::{Value, json};

use super::{Cluster, cluster};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Lets jane write policies and bindings, and what more the rules say.
async fn permit(cluster: &Cluster) {
    let rules = json!([{"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]}]);
    let role = json!({"metadata": {"name": "r"}, "rules": rules}).to_string();
    cluster.ok("admin", &format!("POST {RBAC}/clusterroles"), &role).await;
    let binding = json!({"metadata": {"name": "r"}, "subjects": [{"kind": "User", "name": "jane"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}});
    cluster.ok("admin", &format!("POST {RBAC}/clusterrolebindings"), &binding.to_string()).await;
    let policies = format!("GET {GROUP}/validatingadmissionpolicies");
    cluster.until_sent("jane", &policies, "", |answer| answer.0 == 200).await;
}

/// A policy with parameters of a kind.
fn policy(plural: &str, name: &str, kind: Value) -> String {
    let mut spec = json!({"paramKind": kind, "matchConstraints": {"resourceRules": [{
        "operations": ["CREATE"], "apiGroups": ["example.com"], "apiVersions": ["v1"],
        "resources": ["nothings"]}]}});
    match plural {
        "mutatingadmissionpolicies" => {
            spec["reinvocationPolicy"] = json!("Never");
            spec["mutations"] = json!([{"patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": "Object{}"}}]);
        }
        _ => spec["validations"] = json!([{"expression": "true"}]),
    }
    json!({"metadata": {"name": name}, "spec": spec}).to_string()
}

/// A binding of a policy to parameters.
fn binding(plural: &str, policy: &str, param_ref: Value) -> String {
    let mut spec = json!({"policyName": policy, "paramRef": param_ref});
    spec["paramRef"]["parameterNotFoundAction"] = json!("Deny");
    if plural == "validatingadmissionpolicybindings" {
        spec["validationActions"] = json!(["Deny"]);
    }
    json!({"metadata": {"name": policy}, "spec": spec}).to_string()
}

/// Response without the way in which the user was authenticated.
fn masked(answer: &str) -> String {
    let Some((before, rest)) = answer.split_once(" map[") else { return answer.to_owned() };
    let (_, after) = rest.split_once("]}").unwrap();
    format!("{before} map[]}}{after}")
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_parameters_need_read_permission() {
    let cluster = cluster(&["--authorization-mode=RBAC"]).await;
    permit(&cluster).await;
    let jane = "&{jane 1 [dev system:authenticated] map[]}";
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let nothing = json!({"apiVersion": "example.com/v1", "kind": "Nothing"});
    for (policies, bindings) in [
        ("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
        ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
    ] {
        let post = format!("POST {GROUP}/{policies}");
        // A policy without parameters needs no permission to read.
        cluster.ok("jane", &post, &policy(policies, "none", Value::Null)).await;
        let refused = format!(
            "spec.paramKind: Forbidden: user {jane} must have \"get\" permission on all objects of \
             the referenced paramKind (kind=ConfigMap, apiVersion=v1)"
        );
        let answer =
            cluster.refused("jane", &post, &policy(policies, "p", config_map.clone())).await;
        let answer = masked(&answer);
        assert!(answer.starts_with("422 ") && answer.ends_with(&refused), "{answer}");
        let put = format!("PATCH {GROUP}/{policies}/none");
        let change = json!({"spec": {"paramKind": config_map}}).to_string();
        let answer = masked(&cluster.refused("jane", &put, &change).await);
        assert!(answer.starts_with("422 ") && answer.ends_with(&refused), "{answer}");
        cluster.ok("admin", &post, &policy(policies, "p", config_map.clone())).await;
        cluster.ok("admin", &post, &policy(policies, "q", nothing.clone())).await;
        // What stays as it was is not asked for again.
        let label = r#"{"metadata":{"labels":{"a":"b"}}}"#;
        cluster.ok("jane", &format!("PATCH {GROUP}/{policies}/p"), label).await;

        let post = format!("POST {GROUP}/{bindings}");
        let required = "to determine minimum required permissions and user";
        let everything = "permission for all groups, versions and resources";
        let object = match bindings {
            "validatingadmissionpolicybindings" => {
                format!(
                    "user {jane} does not have \"get\" permission on the object referenced by paramRef"
                )
            }
            _ => format!(
                "user get does not have \"{jane}\" permission on the object referenced by paramRef"
            ),
        };
        let (named, selected) =
            (json!({"name": "a", "namespace": "default"}), json!({"selector": {}}));
        for (policy, reference, why) in [
            ("p", &named, object.clone()),
            ("none", &named, object),
            (
                "q",
                &selected,
                format!(
                    "unable to resolve paramKind &{{example.com/v1 Nothing}} {required} {jane} does not have \"list\" {everything}"
                ),
            ),
            (
                "gone",
                &named,
                format!(
                    "unable to get policy gone {required} {jane} does not have \"get\" {everything}"
                ),
            ),
        ] {
            let body = binding(bindings, policy, reference.clone());
            let answer = masked(&cluster.refused("jane", &post, &body).await);
            let why = format!("spec.paramRef: Forbidden: {why}");
            assert!(answer.starts_with("422 ") && answer.ends_with(&why), "{answer}\n{why}");
        }
        let without = binding(bindings, "p", json!({"name": "a"}));
        cluster.ok("admin", &post, &without).await;
        let change = r#"{"spec":{"paramRef":null}}"#;
        cluster.ok("jane", &format!("PATCH {GROUP}/{bindings}/p"), change).await;
    }
    // With the right to read just that one, jane may have it read.
    let role = json!({"metadata": {"name": "a"}, "rules": [{"apiGroups": [""], "verbs": ["get"],
        "resources": ["configmaps"], "resourceNames": ["a"]}]});
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    cluster.ok("admin", &format!("POST {roles}/roles"), &role.to_string()).await;
    let bound = json!({"metadata": {"name": "a"}, "subjects": [{"kind": "User", "name": "jane"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"}});
    cluster.ok("admin", &format!("POST {roles}/rolebindings"), &bound.to_string()).await;
    let post = format!("PATCH {GROUP}/validatingadmissionpolicybindings/p");
    let reference = json!({"name": "a", "namespace": "default", "parameterNotFoundAction": "Deny"});
    let change = json!({"spec": {"paramRef": reference}}).to_string();
    cluster.until_sent("jane", &post, &change, |answer| answer.0 == 200).await;
}
