//! Policies and bindings come, change and go while the server runs.

use std::time::Duration;

use kevel_test_support::{Cluster, until};
use serde_json::json;

use super::{
    GROUP, MAPS, apply, create, in_force, map, mutating, only, rules, try_out, validating,
};

/// A change must count within this time.
const SOON: Duration = Duration::from_secs(1);

/// Attempts at a duration: the machine may be busy.
const ATTEMPTS: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn policy_takes_effect_within_a_second_of_its_binding() {
    let cluster = Cluster::alone().await;
    let policy = json!({
        "metadata": {"name": "no"},
        "spec": {"matchConstraints": only("no"), "validations": [{"expression": "false"}]},
    });
    create(&cluster, &format!("{GROUP}/validatingadmissionpolicies"), &policy).await;
    in_force(&cluster).await;
    assert_eq!(try_out(&cluster, &map("no", json!({}))).await.0, 201);

    let bindings = format!("{GROUP}/validatingadmissionpolicybindings");
    let binding = json!({
        "metadata": {"name": "no"},
        "spec": {"policyName": "no", "validationActions": ["Deny"]},
    });
    let mut fastest = Duration::MAX;
    for _ in 0..ATTEMPTS {
        let began = kevel_clock::monotonic_now();
        create(&cluster, &bindings, &binding).await;
        until(async || try_out(&cluster, &map("no", json!({}))).await.0 == 422).await;
        fastest = fastest.min(began.elapsed());
        cluster.admin.delete(&format!("{bindings}/no")).await;
        until(async || try_out(&cluster, &map("no", json!({}))).await.0 == 201).await;
    }
    assert!(fastest < SOON, "{fastest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_changes_is_another_one() {
    let cluster = Cluster::alone().await;
    let deny = json!({"matchConstraints": only("no"), "validations": [{"expression": "false", "message": "one"}]});
    validating(&cluster, "no", deny).await;
    let object = map("no", json!({"a": "b"}));
    until(async || try_out(&cluster, &object).await.0 == 422).await;

    let path = format!("PATCH {GROUP}/validatingadmissionpolicies/no");
    let other =
        r#"{"spec":{"validations":[{"expression":"object.data.a == 'c'","message":"two"}]}}"#;
    cluster.ok("admin", &path, other).await;
    until(async || {
        let message = try_out(&cluster, &object).await.1["message"].to_string();
        message.contains("denied request: two")
    })
    .await;
    assert_eq!(try_out(&cluster, &map("no", json!({"a": "c"}))).await.0, 201);

    let binding = format!("PATCH {GROUP}/validatingadmissionpolicybindings/no");
    cluster.ok("admin", &binding, r#"{"spec":{"validationActions":["Warn"]}}"#).await;
    until(async || try_out(&cluster, &object).await.0 == 201).await;
    let post = format!("POST {MAPS}?dryRun=All");
    let (warnings, _) = cluster.warned("admin", &post, &object.to_string()).await;
    let expected =
        "299 - \"Validation failed for ValidatingAdmissionPolicy 'no' with binding 'no': two\"";
    assert_eq!(warnings, [expected]);
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_apply_to_the_first_request_after_restart() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::on(folder, vec!["--storage=embedded".into()]).await;
    let deny = json!({"matchConstraints": only("no"), "validations": [{"expression": "false"}]});
    validating(&cluster, "no", deny).await;
    let change = json!({
        "matchConstraints": only("yes"),
        "reinvocationPolicy": "Never",
        "mutations": [apply(r#"Object{data: {"b": "c"}}"#)],
    });
    mutating(&cluster, "yes", change).await;
    in_force(&cluster).await;
    let cluster = cluster.restart().await;
    assert_eq!(try_out(&cluster, &map("no", json!({}))).await.0, 422);
    assert_eq!(try_out(&cluster, &map("yes", json!({}))).await.1["data"], json!({"b": "c"}));
}

/// An administrator who has denied everything can undo it.
#[tokio::test(flavor = "multi_thread")]
async fn policies_are_not_asked_about_policies() {
    let cluster = Cluster::alone().await;
    let everything = json!({"resourceRules": [{
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": ["*"],
        "resources": ["*"],
    }]});
    let deny = json!({"matchConstraints": everything, "validations": [{"expression": "false"}]});
    validating(&cluster, "nothing-goes", deny).await;
    until(async || try_out(&cluster, &map("any", json!({}))).await.0 == 422).await;
    let review = json!({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}});
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(create(&cluster, reviews, &review).await["status"]["allowed"], true);
    let namespaces =
        cluster.refused("admin", "POST /api/v1/namespaces", r#"{"metadata":{"name":"n"}}"#).await;
    assert!(namespaces.starts_with("422 namespaces \"n\" is forbidden"), "{namespaces}");
    let wanted = json!({"matchConstraints": rules(), "validations": [{"expression": "true"}]});
    validating(&cluster, "other", wanted).await;
    cluster.admin.delete(&format!("{GROUP}/validatingadmissionpolicybindings/nothing-goes")).await;
    until(async || try_out(&cluster, &map("any", json!({}))).await.0 == 201).await;
}

/// Denied objects are not stored, admitted ones are.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_stored_that_was_denied() {
    let cluster = Cluster::alone().await;
    let mut all = rules();
    all["resourceRules"][0]["operations"] = json!(["*"]);
    all["objectSelector"] = json!({"matchExpressions": [{"key": "case", "operator": "Exists"}]});
    let spec = json!({"matchConstraints": all, "validations": [
        {"expression": "object == null || object.data.v != 'bad'"},
        {"expression": "object != null || oldObject.data.v != 'kept'"},
    ]});
    validating(&cluster, "guard", spec).await;
    let bad = map("bad", json!({"v": "bad"}));
    until(async || try_out(&cluster, &bad).await.0 == 422).await;

    assert_eq!(cluster.admin.post(MAPS, &bad).await.0, 422);
    assert_eq!(cluster.admin.get(&format!("{MAPS}/bad")).await.0, 404);
    for name in ["kept", "loose"] {
        create(&cluster, MAPS, &map(name, json!({"v": name}))).await;
    }
    for (method, body) in [
        ("PATCH", r#"{"data":{"v":"bad"}}"#.to_owned()),
        ("PUT", map("kept", json!({"v": "bad"})).to_string()),
        ("DELETE", String::new()),
    ] {
        let refused = cluster.refused("admin", &format!("{method} {MAPS}/kept"), &body).await;
        assert!(refused.starts_with("422 "), "{method}: {refused}");
        assert_eq!(cluster.admin.get(&format!("{MAPS}/kept")).await.1["data"]["v"], "kept");
    }
    // Of many, those before the first that is denied may be gone; that one is not.
    let refused = cluster.refused("admin", &format!("DELETE {MAPS}?labelSelector=case"), "").await;
    assert!(refused.starts_with("422 "), "{refused}");
    assert_eq!(cluster.admin.get(&format!("{MAPS}/kept")).await.0, 200);
    cluster.ok("admin", &format!("PATCH {MAPS}/kept"), r#"{"data":{"v":"free"}}"#).await;
    cluster.admin.delete(&format!("{MAPS}/kept")).await;
}
