//! Admission and conversion webhooks.

use kevel_test_support::{Cluster, until};
use serde_json::{Value, json};

use super::dripping::{BODY, Dripping, HEAD, Protocol};
use super::{base64, on_time};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";
const WIDGETS: &str = "/apis/example.com";

fn client_config(server: &Dripping, path: &str) -> Value {
    json!({"url": server.url(path), "caBundle": base64(&server.ca)})
}

/// A configuration of one webhook about new config maps of a label.
fn configuration(name: &str, client_config: &Value, policy: &str) -> String {
    let rules = json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
        "resources": ["configmaps"]}]);
    let webhook = json!({
        "name": format!("{name}.hook.test"), "clientConfig": client_config, "rules": rules,
        "timeoutSeconds": 1, "failurePolicy": policy, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "objectSelector": {"matchLabels": {"slow": name}},
    });
    json!({"metadata": {"name": name}, "webhooks": [webhook]}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn dripping_admission_webhooks_end_at_their_timeout() {
    admission_ends_at_timeout(Protocol::Http1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dripping_http2_admission_webhooks_end_at_their_timeout() {
    admission_ends_at_timeout(Protocol::Http2).await;
}

/// The webhook's time is for the whole answer, and the words are those of the reference's client.
async fn admission_ends_at_timeout(protocol: Protocol) {
    let server = Dripping::speaking("localhost", protocol).await;
    let cluster = Cluster::alone().await;
    let post = format!("POST {CONFIG_MAPS}");
    for kind in ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"] {
        for (name, path) in [("head", HEAD), ("body", BODY)] {
            let config = client_config(&server, path);
            let configurations = format!("{CONFIGURATIONS}/{kind}");
            let object = json!({"metadata": {"name": name, "labels": {"slow": name}}}).to_string();
            let late = match name {
                "head" => {
                    format!("Post \"{}?timeout=1s\": context deadline exceeded", server.url(path))
                }
                _ => "unexpected error when reading response body. Please retry. Original error: \
                      context deadline exceeded"
                    .to_owned(),
            };
            let made = configuration(name, &config, "Fail");
            cluster.ok("admin", &format!("POST {configurations}"), &made).await;
            let (asked, dry) = (server.requests(), format!("{post}?dryRun=All"));
            let is_late = |answer: &(u16, String)| answer.0 == 500 && server.requests() > asked;
            cluster.until_sent("admin", &dry, &object, is_late).await;
            let refused = on_time(cluster.refused("admin", &post, &object)).await;
            assert_eq!(
                refused,
                format!(
                    "500 Internal error occurred: failed calling webhook \"{name}.hook.test\": \
                     failed to call webhook: {late}"
                ),
                "{kind}"
            );
            until(async || server.open() == 0).await;
            cluster.ok("admin", &format!("DELETE {configurations}/{name}"), "").await;
            cluster.until_sent("admin", &dry, &object, |answer| answer.0 == 201).await;
        }
    }
    cluster.stop().await;
}

/// A definition of widgets that are stored as v2 and read as v1.
fn definition(server: &Dripping, path: &str) -> Value {
    let version = |name: &str, storage: bool| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
    };
    let conversion = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": client_config(server, path),
    }});
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [version("v1", false), version("v2", true)],
            "conversion": conversion,
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn dripping_conversion_webhooks_end_with_the_request() {
    conversion_ends_with_request(Protocol::Http1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dripping_http2_conversion_webhooks_end_with_the_request() {
    conversion_ends_with_request(Protocol::Http2).await;
}

/// The reference's conversions do not know the request's deadline, but its answer comes then all the same.
async fn conversion_ends_with_request(protocol: Protocol) {
    for path in [HEAD, BODY] {
        let server = Dripping::speaking("localhost", protocol).await;
        let cluster = Cluster::alone().await;
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        cluster.admin.create(definitions, &definition(&server, path)).await;
        let widget =
            json!({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "a"}});
        let post = format!("POST {WIDGETS}/v2/widgets");
        cluster.until_sent("admin", &post, &widget.to_string(), |answer| answer.0 == 201).await;
        for read in ["widgets/a?timeout=1s", "widgets?timeout=1s"] {
            let read = format!("GET {WIDGETS}/v1/{read}");
            let refused = on_time(cluster.refused("admin", &read, "")).await;
            assert_eq!(
                refused,
                "504 Timeout: request did not complete within the allotted timeout"
            );
        }
        assert!(server.requests() >= 2);
        until(async || server.open() == 0).await;
        cluster.stop().await;
    }
}
