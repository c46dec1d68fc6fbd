//! Admission and audit of connections.

use kevel_streaming::channel::{STDIN, V5};
use kevel_streaming::testing::client::{WebSocketCommand, websocket};
use kevel_test_support::{soon, until};
use serde_json::{Value, json};

use super::hook_server::{Answer, HookServer};
use super::{PODS, start};

/// A GET that runs a command needs what a POST needs.
#[tokio::test(flavor = "multi_thread")]
async fn a_get_that_runs_a_command_needs_permission_to_create() {
    let node = start(&[]).await;
    let ask = async |what: &str| node.cluster.refused("jane", what, "").await;
    for (sub, verb) in [("exec", "get"), ("attach", "get"), ("portforward", "get")] {
        let told = ask(&format!("GET {PODS}/p/{sub}")).await;
        let expected = format!(
            "403 pods \"p\" is forbidden: User \"jane\" cannot {verb} resource \"pods/{sub}\" in API \
             group \"\" in the namespace \"default\""
        );
        assert_eq!(told, expected);
        node.allow(&format!("pods/{sub}"), &["get"]).await;
    }
    let forbidden = |(_, text): &(u16, String)| !text.contains("cannot get");
    for sub in ["exec", "attach", "portforward"] {
        let what = format!("GET {PODS}/p/{sub}");
        let (code, text) = node.cluster.until_sent("jane", &what, "", forbidden).await;
        assert_eq!(code, 403, "{text}");
        assert!(text.contains(r#"pods \"p\" is forbidden: "#), "{text}");
    }
    node.allow("pods/proxy", &["create"]).await;
    let told = ask(&format!("GET {PODS}/p/proxy/")).await;
    assert!(told.starts_with("403 "), "{told}");
    assert_eq!(node.kubelet.requests().len(), 0);
    node.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_get_is_enough_where_the_gate_is_off() {
    let node = start(&["--feature-gates=AuthorizePodWebsocketUpgradeCreatePermission=false"]).await;
    node.allow("pods/exec", &["get"]).await;
    let what = format!("GET {PODS}/p/exec");
    let allowed = |(code, _): &(u16, String)| *code == 400;
    let (_, text) = node.cluster.until_sent("jane", &what, "", allowed).await;
    assert!(text.contains("Upgrade request required"), "{text}");
    node.cluster.stop().await;
}

/// Policies see what is connected to, with its options.
#[tokio::test(flavor = "multi_thread")]
async fn policies_see_the_options() {
    let node = start(&[]).await;
    let group = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({
        "metadata": {"name": "no-shells"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"],
                "resources": ["pods/exec", "nodes/proxy"],
            }]},
            "validations": [
                {"expression": "object.kind != 'PodExecOptions' || !('sh' in object.command)",
                 "message": "no shells"},
                {"expression": "object.kind != 'NodeProxyOptions' || object.path != '/run'",
                 "message": "no runs"},
            ],
        },
    });
    node.cluster.admin.create(&format!("{group}/validatingadmissionpolicies"), &policy).await;
    let binding = json!({
        "metadata": {"name": "no-shells"},
        "spec": {"policyName": "no-shells", "validationActions": ["Deny"]},
    });
    let bindings = format!("{group}/validatingadmissionpolicybindings");
    node.cluster.admin.create(&bindings, &binding).await;
    let denied = |(code, text): &(u16, String)| *code == 422 && text.contains("no shells");
    let shell = format!("POST {PODS}/p/exec?command=sh&stdout=1");
    node.cluster.until_sent("admin", &shell, "", denied).await;
    let told = node.cluster.refused("admin", "GET /api/v1/nodes/n/proxy/run", "").await;
    assert!(told.starts_with("422 ") && told.contains("no runs"), "{told}");
    let target = format!("https://127.0.0.1{PODS}/p/exec?command=echo&stdout=1").parse().unwrap();
    let _socket = soon(websocket(node.connect().await, target, V5.name)).await.unwrap();
    // Its client is answered before the kubelet is asked.
    until(async || node.kubelet.requests().len() == 1).await;
    node.cluster.stop().await;
}

/// Webhooks are asked before the kubelet is.
#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_asked_about_connections() {
    let node = start(&[]).await;
    let hooks = HookServer::start().await;
    hooks.on("/connect", |review| {
        let command = &review["request"]["object"]["command"];
        let status = json!({"message": "no shells", "code": 418});
        Answer::Response(json!({"allowed": command[0] != "sh", "status": status}))
    });
    let configuration = json!({
        "metadata": {"name": "connect"},
        "webhooks": [{
            "name": "connect.hook.test", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": hooks.client_config("/connect"),
            "rules": [{"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["pods/exec", "pods/portforward"]}],
        }],
    });
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    node.cluster.admin.create(path, &configuration).await;
    let shell = format!("POST {PODS}/p/exec?command=sh&command=-c&stdout=1&container=c");
    let denied = |(code, _): &(u16, String)| *code == 418;
    let (_, text) = node.cluster.until_sent("admin", &shell, "", denied).await;
    let told = r#"admission webhook \"connect.hook.test\" denied the request: no shells"#;
    assert!(text.contains(told), "{text}");
    let asked = hooks.requests("/connect").pop().unwrap();
    let expected = json!({
        "kind": {"group": "", "version": "v1", "kind": "PodExecOptions"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "subResource": "exec", "name": "p", "namespace": "default", "operation": "CONNECT",
        "oldObject": null, "options": null,
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&asked[field], value, "{field}: {asked}");
    }
    let options = &asked["object"];
    assert_eq!(options["kind"], "PodExecOptions");
    assert_eq!(options["command"], json!(["sh", "-c"]));
    assert_eq!((&options["stdout"], &options["container"]), (&json!(true), &json!("c")));
    assert_eq!(node.kubelet.requests().len(), 0);
    let target = format!("https://127.0.0.1{PODS}/p/exec?command=echo&stdout=1").parse().unwrap();
    let _socket = soon(websocket(node.connect().await, target, V5.name)).await.unwrap();
    until(async || node.kubelet.requests().len() == 1).await;
    node.cluster.stop().await;
}

/// A connection is in the audit log when it begins, and when it ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_audited_from_its_beginning_to_its_end() {
    let files = tempfile::tempdir().unwrap();
    let (policy, log) = (files.path().join("policy.yaml"), files.path().join("audit.log"));
    let rules = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n  resources:\n  \
                 - group: \"\"\n    resources: [\"pods/exec\", \"pods/log\"]\n- level: None\n";
    std::fs::write(&policy, rules).unwrap();
    let policy = format!("--audit-policy-file={}", policy.display());
    let path = format!("--audit-log-path={}", log.display());
    let node = start(&[&policy, &path, "--audit-log-mode=blocking"]).await;
    let stages = || -> Vec<(String, u64)> {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let events = events.filter(|event| event["verb"] == "get");
        events
            .map(|event| {
                let code = event["responseStatus"]["code"].as_u64().unwrap_or_default();
                (event["stage"].as_str().unwrap().to_owned(), code)
            })
            .collect()
    };
    let target = format!("https://127.0.0.1{PODS}/p/exec?command=cat&stdin=1&stdout=1");
    let target = target.parse().unwrap();
    let (_, socket) = soon(websocket(node.connect().await, target, V5.name)).await.unwrap();
    let mut command = WebSocketCommand::new(socket, V5);
    command.say(STDIN, b"x").await.unwrap();
    soon(command.converse(b"", |heard| !heard[1].is_empty())).await.unwrap();
    let begun = vec![("RequestReceived".to_owned(), 0), ("ResponseStarted".to_owned(), 101)];
    assert_eq!(stages(), begun);
    drop(command);
    until(async || stages().last() == Some(&("ResponseComplete".to_owned(), 101))).await;
    assert_eq!(stages().len(), 3);
    node.cluster.stop().await;
}
