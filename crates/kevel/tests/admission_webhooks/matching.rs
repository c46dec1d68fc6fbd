//! Matching of writes by webhooks on a running server.

use serde_json::{Value, json};

use crate::{CONFIG_MAPS, Hooked, Kind, allow, config_map, deny};

fn on_config_maps(operations: &[&str]) -> Value {
    json!([{"operations": operations, "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}])
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_decide_with_the_failure_policy() {
    let hooked = Hooked::start(&["--authorization-mode=RBAC"]).await;
    hooked.hooks.on("/deny", |_| deny(json!({"message": "asked"})));
    let asked = "400 admission webhook \"deny.hook.test\" denied the request: asked";
    for kind in Kind::ALL {
        for (policy, conditions, expected) in [
            ("Fail", json!(["object.metadata.name == 'o'"]), Some(asked)),
            ("Fail", json!(["object.metadata.name == 'p'"]), None),
            ("Fail", json!(["true", "request.operation == 'CREATE'"]), Some(asked)),
            // One that is false decides, whatever is wrong with the others.
            ("Fail", json!(["object.data.none == 'x'", "false"]), None),
            (
                "Fail",
                json!(["object.data.none == 'x'"]),
                Some(
                    "403 configmaps \"o\" is forbidden: expression 'object.data.none == 'x'' resulted in error: no such key: none",
                ),
            ),
            ("Ignore", json!(["object.data.none == 'x'"]), None),
            (
                "Fail",
                json!([
                    "authorizer.group('').resource('pods').namespace('default').check('get').allowed()"
                ]),
                Some(asked),
            ),
            (
                "Fail",
                json!([
                    "!authorizer.serviceAccount('default', 'stranger').group('').resource('configmaps').check('create').allowed()"
                ]),
                Some(asked),
            ),
            ("Fail", json!(["has(request.options.fieldManager)"]), None),
        ] {
            let conditions: Vec<Value> = conditions
                .as_array()
                .unwrap()
                .iter()
                .enumerate()
                .map(|(i, expression)| json!({"name": format!("c{i}"), "expression": expression}))
                .collect();
            let fields = json!({"matchConditions": conditions, "failurePolicy": policy});
            hooked.configure(kind, "conditions", &[hooked.webhook("/deny", fields)]).await;
            let post = format!("POST {CONFIG_MAPS}?dryRun=All");
            match expected {
                Some(expected) => assert_eq!(
                    hooked.cluster.refused("admin", &post, &config_map("o")).await,
                    expected
                ),
                None => drop(hooked.cluster.ok("admin", &post, &config_map("o")).await),
            }
            hooked.unconfigure(kind, "conditions").await;
        }
    }
    let metrics = hooked.cluster.metrics().await;
    for expected in [
        r#"apiserver_admission_match_condition_exclusions_total{kind="webhook",name="deny.hook.test",operation="CREATE",type="admit"}"#,
        r#"apiserver_admission_match_condition_evaluation_errors_total{kind="webhook",name="deny.hook.test",operation="CREATE",type="validate"}"#,
    ] {
        assert!(metrics.contains(expected), "{expected}");
    }
    hooked.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn selectors_look_at_labels_as_they_are_and_were() {
    let hooked = Hooked::start(&[]).await;
    hooked.hooks.on("/deny", |_| deny(json!({"message": "asked"})));
    for (name, team) in [("red", "red"), ("blue", "blue")] {
        let namespace = json!({"metadata": {"name": name, "labels": {"team": team}}}).to_string();
        hooked.cluster.ok("admin", "POST /api/v1/namespaces", &namespace).await;
    }
    let labelled =
        |label: &str| json!({"metadata": {"name": "o", "labels": {"app": label}}}).to_string();
    for name in ["red", "blue"] {
        hooked
            .cluster
            .ok("admin", &format!("POST /api/v1/namespaces/{name}/configmaps"), &labelled("web"))
            .await;
    }
    let webhook = hooked.webhook(
        "/deny",
        json!({
            "rules": on_config_maps(&["UPDATE", "DELETE"]),
            "namespaceSelector": {"matchLabels": {"team": "red"}},
            "objectSelector": {"matchLabels": {"app": "web"}},
        }),
    );
    hooked.configure(Kind::Validating, "selected", &[webhook]).await;
    let denied = |answer: (u16, String)| answer.1.contains("denied the request: asked");
    for (what, body, expected) in [
        ("PUT /api/v1/namespaces/red/configmaps/o", labelled("web"), true),
        // It was.
        ("PUT /api/v1/namespaces/red/configmaps/o", labelled("db"), true),
        ("DELETE /api/v1/namespaces/red/configmaps/o", String::new(), true),
        ("PUT /api/v1/namespaces/blue/configmaps/o", labelled("web"), false),
        ("PUT /api/v1/namespaces/blue/configmaps/o", labelled("db"), false),
    ] {
        let answer = hooked.cluster.send("admin", what, &body).await;
        assert_eq!(denied(answer.clone()), expected, "{what} {body}: {answer:?}");
    }
    // Of a namespace, its labels as they are written count.
    let rules = json!([{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["namespaces"]}]);
    let selector = json!({"matchLabels": {"team": "red"}});
    let webhook = hooked.webhook("/deny", json!({"rules": rules, "namespaceSelector": selector}));
    hooked.configure(Kind::Validating, "namespaces", &[webhook]).await;
    let namespace = |name: &str, team: &str| {
        json!({"metadata": {"name": name, "labels": {"team": team}}}).to_string()
    };
    for (what, body, expected) in [
        ("POST /api/v1/namespaces", namespace("n1", "red"), true),
        ("POST /api/v1/namespaces", namespace("n2", "blue"), false),
        ("PUT /api/v1/namespaces/blue", namespace("blue", "red"), true),
        ("PUT /api/v1/namespaces/red", namespace("red", "red"), true),
        ("DELETE /api/v1/namespaces/red", String::new(), true),
        ("DELETE /api/v1/namespaces/blue", String::new(), false),
    ] {
        let answer = hooked.cluster.send("admin", what, &body).await;
        assert_eq!(denied(answer.clone()), expected, "{what} {body}: {answer:?}");
    }
    hooked.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_configuration_counts() {
    let hooked = Hooked::start(&[]).await;
    hooked.hooks.on("/first", |_| deny(json!({"message": "first"})));
    hooked.hooks.on("/second", |_| deny(json!({"message": "second"})));
    hooked.hooks.on("/allow", |_| allow());
    hooked.configure(Kind::Validating, "c", &[hooked.webhook("/first", json!({}))]).await;
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/c";
    let post = format!("POST {CONFIG_MAPS}?dryRun=All");
    for (to, message) in [("/second", "second"), ("/first", "first")] {
        let body = json!({"webhooks": [hooked.webhook(to, json!({}))]}).to_string();
        hooked.cluster.ok("admin", &format!("PATCH {path}"), &body).await;
        let said = format!("denied the request: {message}");
        hooked
            .cluster
            .until_sent("admin", &post, &config_map("o"), |answer| answer.1.contains(&said))
            .await;
    }
    hooked.cluster.ok("admin", &format!("DELETE {path}"), "").await;
    hooked.cluster.until_sent("admin", &post, &config_map("o"), |answer| answer.0 == 201).await;
    hooked.stop().await;
}
