//! Webhooks that refuse what is written, and what else they say.

use kevel::Server;
use kevel_test_support::{Cluster, until};
use serde_json::{Value, json};

use crate::{Answer, CONFIG_MAPS, HookServer, Hooked, Kind, allow, config_map, deny, patch};

#[tokio::test(flavor = "multi_thread")]
async fn denial_has_the_webhook_s_message() {
    let hooked = Hooked::start(&[]).await;
    let denied = "admission webhook \"deny.hook.test\" denied the request";
    for kind in Kind::ALL {
        for (status, expected) in [
            (
                json!({"message": "no cats"}),
                json!({"status": "Failure", "message": format!("{denied}: no cats"), "code": 400}),
            ),
            (
                Value::Null,
                json!({"status": "Failure", "message": format!("{denied} without explanation"), "code": 400}),
            ),
            (
                json!({"code": 200, "status": "Success", "reason": "Because"}),
                json!({"status": "Failure", "message": format!("{denied}: Because"), "reason": "Because", "code": 400}),
            ),
            (
                json!({"code": 402, "reason": "Payment", "message": "pay", "details": {"name": "n", "kind": "k",
                    "causes": [{"reason": "r", "message": "m", "field": "f"}], "retryAfterSeconds": 3}}),
                json!({"status": "Failure", "message": format!("{denied}: pay"), "reason": "Payment", "code": 402,
                    "details": {"name": "n", "kind": "k", "causes": [{"reason": "r", "message": "m", "field": "f"}], "retryAfterSeconds": 3}}),
            ),
            (
                json!({"code": 100_000}),
                json!({"status": "Failure", "message": format!("{denied} without explanation"), "code": 500}),
            ),
        ] {
            let said = status.clone();
            hooked.hooks.on("/deny", move |_| deny(said.clone()));
            // Whatever the failure policy says, an answer is an answer.
            hooked
                .configure(
                    kind,
                    "deny",
                    &[hooked.webhook("/deny", json!({"failurePolicy": "Ignore"}))],
                )
                .await;
            let (code, text) = hooked
                .cluster
                .send("admin", &format!("POST {CONFIG_MAPS}"), &config_map("o"))
                .await;
            let mut answer: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(u64::from(code), expected["code"].as_u64().unwrap(), "{text}");
            for field in ["kind", "apiVersion", "metadata"] {
                answer.as_object_mut().unwrap().remove(field);
            }
            assert_eq!(answer, expected);
            assert!(!hooked.stored(&format!("{CONFIG_MAPS}/o")).await);
            hooked.unconfigure(kind, "deny").await;
        }
    }
    let metrics = hooked.cluster.metrics().await;
    let expected = r#"apiserver_admission_webhook_rejection_count{error_type="no_error",name="deny.hook.test",operation="CREATE",rejection_code="402",type="validating"} 1"#;
    assert!(metrics.contains(expected));
    hooked.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_are_asked_at_once_and_one_no_is_enough() {
    let hooked = Hooked::start(&[]).await;
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let receiver = std::sync::Mutex::new(receiver);
    // The first answers only after the second was asked.
    hooked.hooks.on("/first", move |_| {
        receiver.lock().unwrap().recv_timeout(std::time::Duration::from_secs(20)).unwrap();
        allow()
    });
    hooked.hooks.on("/second", move |_| {
        let _ = sender.send(());
        deny(json!({"message": "no"}))
    });
    hooked.hooks.on("/third", |_| allow());
    let webhooks = ["/first", "/second", "/third"]
        .map(|path| hooked.webhook(path, json!({"timeoutSeconds": 30})));
    hooked.configure(Kind::Validating, "all", &webhooks).await;
    let refused =
        hooked.cluster.refused("admin", &format!("POST {CONFIG_MAPS}"), &config_map("o")).await;
    assert_eq!(refused, "400 admission webhook \"second.hook.test\" denied the request: no");
    for path in ["/first", "/second", "/third"] {
        assert_eq!(hooked.hooks.requests(path).len(), 1, "{path}");
    }
    assert!(!hooked.stored(&format!("{CONFIG_MAPS}/o")).await);
    hooked.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_many_deletions_is_asked_about() {
    let hooked = Hooked::start(&[]).await;
    for name in ["a", "b", "c"] {
        hooked.cluster.ok("admin", &format!("POST {CONFIG_MAPS}"), &config_map(name)).await;
    }
    hooked.hooks.on("/delete", |review| {
        match review["request"]["oldObject"]["metadata"]["name"].as_str() {
            Some("b") => deny(json!({"message": "not b", "code": 403})),
            _ => allow(),
        }
    });
    let rules = json!([{"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]);
    hooked
        .configure(
            Kind::Validating,
            "delete",
            &[hooked.webhook("/delete", json!({"rules": rules}))],
        )
        .await;
    let refused = hooked.cluster.refused("admin", &format!("DELETE {CONFIG_MAPS}"), "").await;
    assert_eq!(refused, "403 admission webhook \"delete.hook.test\" denied the request: not b");
    assert!(hooked.stored(&format!("{CONFIG_MAPS}/b")).await);
    assert!(!hooked.stored(&format!("{CONFIG_MAPS}/a")).await);
    hooked.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_calls_only_webhooks_without_side_effects() {
    let hooked = Hooked::start(&[]).await;
    hooked.hooks.on("/effects", |_| allow());
    for kind in Kind::ALL {
        for (effects, fine) in [("None", true), ("NoneOnDryRun", true)] {
            let fields = json!({"sideEffects": effects});
            hooked.configure(kind, "effects", &[hooked.webhook("/effects", fields)]).await;
            let post = format!("POST {CONFIG_MAPS}?dryRun=All");
            assert_eq!(hooked.cluster.send("admin", &post, &config_map("o")).await.0 == 201, fine);
            hooked.unconfigure(kind, "effects").await;
        }
    }
    hooked.stop().await;
}

const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Request, resources: [{resources: [configmaps]}], users: [kubernetes-admin], namespaces: [default]}
- {level: Metadata, resources: [{resources: [configmaps]}], users: [kubernetes-admin], namespaces: [kube-system]}
- {level: None}
";

#[tokio::test(flavor = "multi_thread")]
async fn warnings_and_annotations_are_passed_on() {
    let folder = tempfile::tempdir().unwrap();
    let (policy, log) = (folder.path().join("policy.yaml"), folder.path().join("audit.log"));
    std::fs::write(&policy, POLICY).unwrap();
    let builder = Server::builder()
        .flag(format!("--audit-policy-file={}", policy.display()))
        .flag(format!("--audit-log-path={}", log.display()));
    let hooked = Hooked { cluster: Cluster::with(builder).await, hooks: HookServer::start().await };
    hooked.hooks.on("/says", |_| {
        Answer::Response(json!({"allowed": true, "warnings": ["careful", "careful", "slow"],
            "auditAnnotations": {"key": "value", "not a key": "lost"}}))
    });
    hooked.hooks.on("/patches", |_| patch(json!([{"op": "add", "path": "/data/b", "value": "2"}])));
    let missing =
        json!({"failurePolicy": "Ignore", "clientConfig": {"url": "https://127.0.0.1:1/"}});
    hooked
        .configure(
            Kind::Mutating,
            "m",
            &[hooked.webhook("/patches", json!({})), hooked.webhook("/gone", missing.clone())],
        )
        .await;
    hooked
        .configure(
            Kind::Validating,
            "v",
            &[hooked.webhook("/says", json!({})), hooked.webhook("/lost", missing)],
        )
        .await;
    let (warnings, _) =
        hooked.cluster.warned("admin", &format!("POST {CONFIG_MAPS}"), &config_map("o")).await;
    assert_eq!(warnings, ["299 - \"careful\"", "299 - \"slow\""]);
    hooked
        .cluster
        .ok("admin", "POST /api/v1/namespaces/kube-system/configmaps", &config_map("o"))
        .await;
    let event = |namespace: &'static str| {
        let log = log.clone();
        move || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            events.into_iter().find(|event| {
                let made = &event["objectRef"];
                made["name"] == "o" && made["namespace"] == namespace && event["verb"] == "create"
            })
        }
    };
    let (with_patch, without) = (event("default"), event("kube-system"));
    until(async || without().is_some()).await;
    let annotations = &with_patch().unwrap()["annotations"];
    for (key, value) in [
        (
            "mutation.webhook.admission.k8s.io/round_0_index_0",
            r#"{"configuration":"m","webhook":"patches.hook.test","mutated":true}"#,
        ),
        (
            "patch.webhook.admission.k8s.io/round_0_index_0",
            r#"{"configuration":"m","webhook":"patches.hook.test","patch":[{"op":"add","path":"/data/b","value":"2"}],"patchType":"JSONPatch"}"#,
        ),
        (
            "mutation.webhook.admission.k8s.io/round_0_index_1",
            r#"{"configuration":"m","webhook":"gone.hook.test","mutated":false}"#,
        ),
        ("failed-open.mutation.webhook.admission.k8s.io/round_0_index_1", "gone.hook.test"),
        ("failed-open.validating.webhook.admission.k8s.io/round_0_index_1", "lost.hook.test"),
        ("says.hook.test/key", "value"),
    ] {
        assert_eq!(annotations[key], value, "{key}: {annotations:#}");
    }
    assert_eq!(annotations.get("says.hook.test/not a key"), None);
    // Who does not see what is written does not see how it was changed, either.
    let annotations = &without().unwrap()["annotations"];
    assert_eq!(annotations.get("patch.webhook.admission.k8s.io/round_0_index_0"), None);
    assert!(annotations["mutation.webhook.admission.k8s.io/round_0_index_0"].is_string());
    hooked.stop().await;
}
