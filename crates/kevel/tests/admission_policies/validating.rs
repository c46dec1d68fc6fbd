//! Decisions of validating policies that need more than one request to be seen.

use kevel_test_support::Cluster;
use serde_json::json;

use super::{MAPS, bound, in_force, map, only, rules, try_out, validating};

/// A variable is evaluated when it is first looked at, and then not again: that its questions cost so much is seen.
#[tokio::test(flavor = "multi_thread")]
async fn variables_are_evaluated_when_needed_and_once() {
    let cluster = Cluster::alone().await;
    // Two questions to the authorizer cost 700,000; an expression may cost 1,000,000, all of them 10,000,000.
    let ask = "authorizer.group('').resource('pods').check('get').allowed() && \
               authorizer.group('').resource('nodes').check('get').allowed()";
    let many =
        |expression: &str| (0..20).map(|_| json!({"expression": expression})).collect::<Vec<_>>();
    for (name, variables, validations) in [
        ("direct", json!([]), many(ask)),
        ("once", json!([{"name": "v", "expression": ask}]), many("variables.v")),
        ("unused", json!([{"name": "v", "expression": "1 / 0 == 1"}]), many("true || variables.v")),
    ] {
        let spec = json!({"matchConstraints": only(name), "variables": variables, "validations": validations});
        validating(&cluster, name, spec).await;
    }
    in_force(&cluster).await;
    for (name, code) in [("direct", 422), ("once", 201), ("unused", 201)] {
        let (found, answer) = try_out(&cluster, &map(name, json!({}))).await;
        assert_eq!(found, code, "{name}: {answer}");
    }
    let message = try_out(&cluster, &map("direct", json!({}))).await.1["message"].to_string();
    assert!(message.contains("validation failed due to running out of cost budget"), "{message}");
}

/// Rights are those of who asks; what they are may change while the server runs.
#[tokio::test(flavor = "multi_thread")]
async fn the_authorizer_is_asked_about_who_asks() {
    let cluster = Cluster::start(&[]).await;
    let spec = json!({"matchConstraints": only("rights"), "validations": [{
        "expression": "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()",
        "message": "who makes this must be allowed to read secrets",
    }]});
    validating(&cluster, "rights", spec).await;
    let role = |name: &str, resource: &str, verb: &str| json!({"metadata": {"name": name}, "rules": [{"apiGroups": [""], "resources": [resource], "verbs": [verb]}]});
    let grant = |name: &str| {
        json!({"metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]})
    };
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    for (name, resource, verb) in [("maps", "configmaps", "create"), ("secrets", "secrets", "get")]
    {
        cluster.admin.create(&format!("{rbac}/roles"), &role(name, resource, verb)).await;
    }
    cluster.admin.create(&format!("{rbac}/rolebindings"), &grant("maps")).await;
    in_force(&cluster).await;
    let (what, object) = (format!("POST {MAPS}?dryRun=All"), map("rights", json!({})).to_string());
    let (_, refused) = cluster.until_sent("jane", &what, &object, |answer| answer.0 != 403).await;
    assert!(refused.contains("who makes this must be allowed to read secrets"), "{refused}");
    cluster.ok("admin", &what, &object).await;
    cluster.admin.create(&format!("{rbac}/rolebindings"), &grant("secrets")).await;
    cluster.until_sent("jane", &what, &object, |answer| answer.0 == 201).await;
}

/// A binding narrows down the objects of its policy.
#[tokio::test(flavor = "multi_thread")]
async fn bindings_apply_to_the_objects_that_they_select() {
    let cluster = Cluster::alone().await;
    let spec =
        json!({"matchConstraints": rules(), "validations": [{"expression": "!has(object.data)"}]});
    let binding = json!({"validationActions": ["Deny"], "matchResources": {
        "objectSelector": {"matchLabels": {"case": "bound"}}}});
    bound(&cluster, "validating", "narrow", spec, binding).await;
    in_force(&cluster).await;
    for (case, data, code) in [
        ("bound", json!({"a": "b"}), 422),
        ("bound", json!(null), 201),
        ("other", json!({"a": "b"}), 201),
    ] {
        let (found, answer) = try_out(&cluster, &map(case, data)).await;
        assert_eq!(found, code, "{case}: {answer}");
    }
}

/// Metrics of failures, by the action taken.
#[tokio::test(flavor = "multi_thread")]
async fn decisions_are_counted() {
    let cluster = Cluster::alone().await;
    let spec = |case: &str, policy: &str| {
        json!({"matchConstraints": only(case), "failurePolicy": policy, "validations": [
            {"expression": "object.data.a == 'b'"},
            {"expression": "true"},
        ]})
    };
    for (name, policy, actions) in [
        ("denies", "Fail", json!(["Deny", "Audit"])),
        ("warns", "Fail", json!(["Warn"])),
        ("ignores", "Ignore", json!(["Deny"])),
    ] {
        bound(
            &cluster,
            "validating",
            name,
            spec(name, policy),
            json!({"validationActions": actions}),
        )
        .await;
    }
    in_force(&cluster).await;
    for (name, data) in
        [("denies", json!({"a": "c"})), ("warns", json!({"a": "c"})), ("ignores", json!({}))]
    {
        try_out(&cluster, &map(name, data)).await;
    }
    let metrics = cluster.metrics().await;
    for (policy, action) in
        [("denies", "deny"), ("denies", "audit"), ("warns", "warn"), ("ignores", "allow")]
    {
        let labels = format!(
            "{{enforcement_action=\"{action}\",error_type=\"invalid_error\",policy=\"{policy}\",policy_binding=\"{policy}\"}} 1"
        );
        for name in ["check_total", "check_duration_seconds_count"] {
            let line = format!("apiserver_validating_admission_policy_{name}{labels}");
            assert!(metrics.contains(&line), "{line} in\n{metrics}");
        }
    }
}
