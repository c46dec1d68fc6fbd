//! Audit annotations of policies.

use kevel::Server;
use kevel_test_support::Cluster;
use serde_json::{Value, json};

use super::{MAPS, bound, create, in_force, map, only, try_out};

#[tokio::test(flavor = "multi_thread")]
async fn failures_and_annotations_are_noted() {
    let folder = tempfile::tempdir().unwrap();
    let (policy, log) = (folder.path().join("policy.yaml"), folder.path().join("audit.log"));
    let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\nomitStages: [RequestReceived]\n";
    std::fs::write(&policy, text).unwrap();
    let builder = Server::builder()
        .flag(format!("--audit-policy-file={}", policy.display()))
        .flag(format!("--audit-log-path={}", log.display()));
    let cluster = Cluster::with(builder).await;
    for (name, value) in [("p1", "one"), ("p2", "two"), ("p3", "two")] {
        let param =
            json!({"metadata": {"name": name, "labels": {"params": "yes"}}, "data": {"v": value}});
        create(&cluster, MAPS, &param).await;
    }
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": only("noted"),
        "validations": [{"expression": "true"}, {"expression": "object.data.a != '<b>'", "message": "no <b>"}],
        "auditAnnotations": [
            {"key": "value", "valueExpression": "' ' + params.data.v + ' '"},
            {"key": "empty", "valueExpression": "'  '"},
            {"key": "null", "valueExpression": "null"},
            {"key": "long", "valueExpression": "object.data.?long.orValue('') + 'x'"},
        ],
    });
    let binding = json!({
        "validationActions": ["Audit", "Warn"],
        "paramRef": {"selector": {"matchLabels": {"params": "yes"}}, "parameterNotFoundAction": "Deny"},
    });
    bound(&cluster, "validating", "noted", spec, binding).await;
    let spec = json!({
        "matchConstraints": only("failed"),
        "validations": [{"expression": "true"}],
        "auditAnnotations": [{"key": "bad", "valueExpression": "string(object.data.none)"}],
    });
    bound(&cluster, "validating", "failed", spec, json!({"validationActions": ["Audit"]})).await;
    in_force(&cluster).await;

    let object = map("noted", json!({"a": "<b>", "long": "l".repeat(11_000)}));
    assert_eq!(try_out(&cluster, &object).await.0, 201);
    // What cannot be noted is a failure, whatever the binding does about failures.
    let (code, refused) = try_out(&cluster, &map("failed", json!({}))).await;
    assert_eq!(code, 422, "{refused}");
    let expected = "denied request: expression 'string(object.data.none)' resulted in error: no such key: data";
    assert!(refused["message"].as_str().unwrap().ends_with(expected), "{refused}");

    cluster.stop().await;
    let text = std::fs::read_to_string(&log).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| {
        events.iter().find(|event| {
            event["verb"] == "create"
                && event["objectRef"]["resource"] == "configmaps"
                && event["objectRef"]["name"] == name
        })
    };
    let annotations = &of("noted").unwrap()["annotations"];
    assert_eq!(
        annotations["validation.policy.admission.k8s.io/validation_failure"],
        r#"[{"message":"no \u003cb\u003e","policy":"noted","binding":"noted","expressionIndex":1,"validationActions":["Audit","Warn"]}]"#
    );
    assert_eq!(annotations["noted/value"], "one, two");
    assert_eq!(annotations["noted/long"].as_str().unwrap().len(), 10 * 1024);
    assert!(
        annotations.get("noted/empty").is_none() && annotations.get("noted/null").is_none(),
        "{annotations}"
    );
    assert!(of("failed").unwrap()["annotations"].get("failed/bad").is_none());
}
