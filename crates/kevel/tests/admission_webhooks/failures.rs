//! Webhooks that cannot be asked, or answer nonsense: `failurePolicy` decides, and nothing else.

use serde_json::{Value, json};

use crate::{Answer, CONFIG_MAPS, Hooked, Kind, base64, config_map};

/// Failures of a webhook, each with the server's message. `URL` is that of the call.
const FAILURES: &[(&str, &str)] = &[
    (
        "refused",
        "failed to call webhook: Post \"URL\": dial tcp 127.0.0.1:1: connect: connection refused",
    ),
    ("hang", "failed to call webhook: Post \"URL\": context deadline exceeded"),
    (
        "headers",
        "failed to call webhook: unexpected error when reading response body. Please retry. Original error: context deadline exceeded",
    ),
    (
        "wrong-certificate",
        "failed to call webhook: Post \"URL\": tls: failed to verify certificate: x509: certificate signed by unknown authority",
    ),
    (
        "wrong-name",
        "failed to call webhook: Post \"URL\": tls: failed to verify certificate: x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
    ),
    ("half", "failed to call webhook: "),
    ("large", "failed to call webhook: Post \"URL\": the answer is larger than 8388608 bytes"),
    ("panic", "failed to call webhook: Post \"URL\": "),
    (
        "redirect",
        "failed to call webhook: the server responded with the status code 307 but did not return more information",
    ),
    (
        "not-json",
        "failed to call webhook: couldn't get version/kind; json parse error: json: cannot unmarshal bool into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }",
    ),
    (
        "empty",
        "failed to call webhook: 0-length response with status code: 200 and content type: application/json",
    ),
    (
        "other-kind",
        "failed to call webhook: no kind \"Pod\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"",
    ),
    (
        "no-kind",
        "received invalid webhook response: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
    ),
    ("no-response", "received invalid webhook response: webhook response was absent"),
    (
        "wrong-uid",
        "received invalid webhook response: expected response.uid=\"UID\", got \"other\"",
    ),
    (
        "text-500",
        "failed to call webhook: an error on the server (\"broken\") has prevented the request from succeeding",
    ),
    ("json-404", "failed to call webhook: the server could not find the requested resource"),
    ("status-403", "failed to call webhook: go away"),
];

/// The same, of those that may change objects.
const MUTATING_FAILURES: &[(&str, &str)] = &[
    (
        "patch-alone",
        "received invalid webhook response: webhook returned response.patch but not response.patchType",
    ),
    (
        "type-alone",
        "received invalid webhook response: webhook returned response.patchType but not response.patch",
    ),
    (
        "no-patch",
        "received undecodable patch in webhook response: json: cannot unmarshal object into Go value of type jsonpatch.Patch",
    ),
    ("other-type", "unsupported patch type \"MergePatch\""),
];

/// The same, of those that may not.
const VALIDATING_FAILURES: &[(&str, &str)] = &[
    (
        "patched",
        "received invalid webhook response: validating webhook may not return response.patch",
    ),
    (
        "type-alone",
        "received invalid webhook response: validating webhook may not return response.patchType",
    ),
];

fn answer(name: &str, review: &Value) -> Answer {
    let raw = |code, content_type: &str, body: &str| {
        Answer::Raw(code, vec![("content-type", content_type.to_owned())], body.into())
    };
    let consent = json!({"allowed": true, "uid": review["request"]["uid"]});
    let add = base64(r#"[{"op":"add","path":"/data/b","value":"2"}]"#);
    match name {
        "hang" => Answer::Hang,
        "headers" => Answer::HeadersOnly,
        "half" => Answer::Half,
        "large" => Answer::Large(50 << 20),
        "panic" => Answer::Panic,
        "redirect" => {
            let elsewhere = "https://elsewhere.example.com/allow".to_owned();
            Answer::Raw(307, vec![("location", elsewhere)], Vec::new())
        }
        "not-json" => raw(200, "application/json", "no"),
        "empty" => raw(200, "application/json", ""),
        "other-kind" => raw(200, "application/json", r#"{"apiVersion":"v1","kind":"Pod"}"#),
        "no-kind" => raw(200, "application/json", &json!({"response": consent}).to_string()),
        "no-response" => raw(
            200,
            "application/json",
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#,
        ),
        "wrong-uid" => Answer::Response(json!({"allowed": true, "uid": "other"})),
        "text-500" => raw(500, "text/plain", "broken\n"),
        "json-404" => raw(404, "application/json", "{}"),
        "status-403" => raw(
            403,
            "application/json",
            r#"{"apiVersion":"v1","kind":"Status","status":"Failure","message":"go away","code":403}"#,
        ),
        "patch-alone" => Answer::Response(json!({"allowed": true, "patch": add})),
        "type-alone" => Answer::Response(json!({"allowed": true, "patchType": "JSONPatch"})),
        "patched" => {
            Answer::Response(json!({"allowed": true, "patchType": "JSONPatch", "patch": add}))
        }
        "no-patch" => Answer::Response(
            json!({"allowed": true, "patchType": "JSONPatch", "patch": base64("{}")}),
        ),
        "other-type" => {
            Answer::Response(json!({"allowed": true, "patchType": "MergePatch", "patch": add}))
        }
        other => panic!("{other}"),
    }
}

fn failures(kind: Kind) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    let own = match kind {
        Kind::Mutating => MUTATING_FAILURES,
        Kind::Validating => VALIDATING_FAILURES,
    };
    FAILURES.iter().chain(own)
}

async fn check(hooked: &Hooked, kind: Kind, name: &'static str, reason: &str) {
    let path = format!("/{name}");
    hooked.hooks.on(&path, move |review| answer(name, review));
    let mut config = hooked.hooks.client_config(&path);
    match name {
        "refused" => config["url"] = "https://127.0.0.1:1/refused".into(),
        "wrong-certificate" => {
            config["caBundle"] = base64(&kevel_test_support::Ca::new("x").pem).into()
        }
        "wrong-name" => {
            config["url"] =
                format!("https://127.0.0.1:{}{path}", hooked.hooks.address.port()).into();
        }
        _ => {}
    }
    let url = format!("{}?timeout=1s", config["url"].as_str().unwrap());
    let fields = |policy: &str| json!({"clientConfig": config, "timeoutSeconds": 1, "failurePolicy": policy});
    let object = format!("{CONFIG_MAPS}/{name}");
    let post = format!("POST {CONFIG_MAPS}");

    hooked.configure(kind, "failing", &[hooked.webhook(&path, fields("Fail"))]).await;
    let refused = hooked.cluster.refused("admin", &post, &config_map(name)).await;
    let uid = hooked.hooks.requests(&path).last().map_or(Value::Null, |last| last["uid"].clone());
    let reason = reason.replace("URL", &url).replace("UID", uid.as_str().unwrap_or_default());
    let expected = format!(
        "500 Internal error occurred: failed calling webhook \"{name}.hook.test\": {reason}"
    );
    assert!(refused.starts_with(&expected), "{kind:?} {name}:\n{refused}\n{expected}");
    assert!(!hooked.stored(&object).await, "{kind:?} {name}: what was refused is stored");
    hooked.unconfigure(kind, "failing").await;

    hooked.configure(kind, "failing", &[hooked.webhook(&path, fields("Ignore"))]).await;
    let made = hooked.cluster.ok("admin", &post, &config_map(name)).await;
    assert_eq!(made["data"], json!({"a": "1"}), "{kind:?} {name}");
    hooked.cluster.ok("admin", &format!("DELETE {object}"), "").await;
    hooked.unconfigure(kind, "failing").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_policy_applies_to_unreachable_mutating_webhooks() {
    let hooked = Hooked::start(&[]).await;
    for (name, reason) in failures(Kind::Mutating) {
        check(&hooked, Kind::Mutating, name, reason).await;
    }
    let metrics = hooked.cluster.metrics().await;
    for expected in [
        r#"apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",name="hang.hook.test",operation="CREATE",rejection_code="503",type="admit"} 1"#,
        r#"apiserver_admission_webhook_fail_open_count{name="hang.hook.test",type="admit"} 1"#,
        r#"apiserver_admission_webhook_request_total{code="403",name="status-403.hook.test",operation="CREATE",rejected="true",type="admit"} 1"#,
        r#"apiserver_admission_webhook_admission_duration_seconds_count{name="hang.hook.test",operation="CREATE",rejected="false",type="admit"} 1"#,
    ] {
        assert!(metrics.contains(expected), "{expected}");
    }
    hooked.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_policy_applies_to_unreachable_validating_webhooks() {
    let hooked = Hooked::start(&[]).await;
    for (name, reason) in failures(Kind::Validating) {
        check(&hooked, Kind::Validating, name, reason).await;
    }
    hooked.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_patch_breaks_is_refused_whatever_the_failure_policy() {
    let hooked = Hooked::start(&[]).await;
    for (name, patch, expected) in [
        (
            "missing",
            json!([{"op": "remove", "path": "/data/none"}]),
            "500 Internal error occurred: error in remove for path: '/data/none': Unable to remove nonexistent key: none: missing value",
        ),
        (
            "test",
            json!([{"op": "test", "path": "/data/a", "value": "2"}]),
            "500 Internal error occurred: testing value /data/a failed: test failed",
        ),
        (
            "wrong-type",
            json!([{"op": "replace", "path": "/data", "value": 5}]),
            "500 Internal error occurred: json: cannot unmarshal number into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            "invalid",
            json!([{"op": "add", "path": "/data/not a key!", "value": "x"}]),
            "422 ConfigMap \"o\" is invalid: data[not a key!]: Invalid value: \"not a key!\": a valid config key must consist of alphanumeric characters",
        ),
        (
            "renamed",
            json!([{"op": "replace", "path": "/metadata/namespace", "value": "kube-system"}]),
            "400 the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            "other-kind",
            json!([{"op": "replace", "path": "/kind", "value": "Secret"}]),
            "500 Internal error occurred: ",
        ),
    ] {
        let path = format!("/{name}");
        hooked.hooks.on(&path, move |_| crate::patch(patch.clone()));
        for policy in ["Fail", "Ignore"] {
            let webhook = hooked.webhook(&path, json!({"failurePolicy": policy}));
            hooked.configure(Kind::Mutating, "breaking", &[webhook]).await;
            let post = format!("POST {CONFIG_MAPS}");
            let refused = hooked.cluster.refused("admin", &post, &config_map("o")).await;
            assert!(refused.starts_with(expected), "{name}: {refused}");
            assert!(!hooked.stored(&format!("{CONFIG_MAPS}/o")).await, "{name}");
            hooked.unconfigure(Kind::Mutating, "breaking").await;
        }
    }
    hooked.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overloaded_webhook_is_asked_again_when_it_says_so() {
    let hooked = Hooked::start(&[]).await;
    let calls = std::sync::atomic::AtomicUsize::new(0);
    hooked.hooks.on("/busy", move |_| {
        match calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 | 1 => Answer::Raw(429, vec![("retry-after", "0".to_owned())], Vec::new()),
            _ => crate::allow(),
        }
    });
    hooked.configure(Kind::Validating, "busy", &[hooked.webhook("/busy", json!({}))]).await;
    hooked.cluster.ok("admin", &format!("POST {CONFIG_MAPS}"), &config_map("o")).await;
    assert_eq!(hooked.hooks.requests("/busy").len(), 3);
    hooked.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_requests_time_counts_too() {
    let hooked = Hooked::start(&[]).await;
    hooked.hooks.on("/hang", |_| Answer::Hang);
    for kind in Kind::ALL {
        for policy in ["Fail", "Ignore"] {
            let fields = json!({"failurePolicy": policy, "timeoutSeconds": 30});
            hooked.configure(kind, "hanging", &[hooked.webhook("/hang", fields)]).await;
            let post = format!("POST {CONFIG_MAPS}?timeout=1s");
            let refused = hooked.cluster.refused("admin", &post, &config_map("o")).await;
            assert!(refused.starts_with("504 "), "{kind:?} {policy}: {refused}");
            assert_eq!(hooked.hooks.received("/hang")[0].query, "timeout=1s");
            assert!(!hooked.stored(&format!("{CONFIG_MAPS}/o")).await);
            hooked.unconfigure(kind, "hanging").await;
        }
    }
    hooked.stop().await;
}
