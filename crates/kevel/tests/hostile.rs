//! Objects that are made to be expensive: their responses are bounded, and other requests do not wait for them.
//!
//! The cost of each is measured by `bench hostile-writes`; this test shows that none is unbounded.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kevel_test_support::{Client, Cluster, until};

/// The largest answer to a request of 3 MiB.
const MOST_ANSWER: usize = 8 << 20;
/// Generous, for debug builds on busy machines: what is computed on a worker takes longer than this,
/// and `/livez` waits for it.
const MOST_WAIT: Duration = Duration::from_secs(10);

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const GADGETS: &str = "/apis/example.com/v1/namespaces/default/gadgets";

async fn send(client: &Client, method: &str, path: &str, body: String) -> (u16, usize, String) {
    let answer = client.raw(method, path, &[("content-type", "application/json")], &body).await;
    let (code, text) = (answer.status().as_u16(), answer.into_body());
    (code, text.len(), text.chars().take(4096).collect())
}

fn repeat(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect::<Vec<_>>().join(",")
}

fn config_map(metadata: &str) -> String {
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a",{metadata}}}}}"#)
}

fn pod(container: &str, spec: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a"}},"spec":{{"containers":[{{"name":"a","image":"b"{container}}}]{spec}}}}}"#
    )
}

/// Requests, and what they are answered with.
fn cases() -> Vec<(&'static str, &'static str, &'static str, String, u16)> {
    let owners = repeat(3_000, |i| {
        format!(r#"{{"apiVersion":"v1","kind":"Pod","name":"a","uid":"{i}","controller":true}}"#)
    });
    let managers = repeat(15_000, |i| {
        format!(
            r#"{{"manager":"m{i}","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{{"f:a{i}":{{}}}}}}"#
        )
    });
    let ports = repeat(40_000, |i| format!(r#"{{"containerPort":1,"hostPort":{}}}"#, i + 1));
    let tolerations = repeat(90_000, |_| "{}".to_owned());
    let too_many = repeat(300_000, |_| "{}".to_owned());
    let words = repeat(500_000, |_| r#""""#.to_owned());
    let gadget = |pattern: &str| {
        format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{{"name":"a"}},"spec":{{"pattern":"{pattern}"}}}}"#
        )
    };
    vec![
        ("owners", "POST", MAPS, config_map(&format!(r#""ownerReferences":[{owners}]"#)), 422),
        ("tolerations", "POST", PODS, pod("", &format!(r#","tolerations":[{tolerations}]"#)), 422),
        ("too many", "POST", PODS, pod("", &format!(r#","tolerations":[{too_many}]"#)), 413),
        ("words", "POST", PODS, pod(&format!(r#","command":[{words}]"#), ""), 413),
        ("ports", "POST", PODS, pod(&format!(r#","ports":[{ports}]"#), ""), 201),
        ("map", "POST", MAPS, config_map(r#""labels":{}"#), 201),
        (
            "managers",
            "PUT",
            "/api/v1/namespaces/default/configmaps/a",
            config_map(&format!(r#""managedFields":[{managers}]"#)),
            200,
        ),
        ("expression", "POST", GADGETS, gadget(&"{".repeat(200_000)), 422),
        ("shorter expression", "POST", GADGETS, gadget(&"{".repeat(5_000)), 201),
    ]
}

async fn define_gadgets(client: &Client) {
    let definition = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
        "metadata":{"name":"gadgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
        "names":{"plural":"gadgets","kind":"Gadget"},"versions":[{"name":"v1","served":true,
        "storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{
        "type":"object","properties":{"pattern":{"type":"string"}},"x-kubernetes-validations":[
        {"rule":"!('x'.matches(self.pattern))"}]}}}}}]}}"#;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, _, said) = send(client, "POST", path, definition.to_owned()).await;
    assert_eq!(code, 201, "{said}");
    until(async || send(client, "GET", GADGETS, String::new()).await.0 == 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_bounded_and_others_do_not_wait() {
    let cluster = Cluster::alone().await;
    let client = cluster.admin.clone();
    let account = r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}"#;
    send(&client, "POST", "/api/v1/namespaces/default/serviceaccounts", account.to_owned()).await;
    define_gadgets(&client).await;
    let done = Arc::new(AtomicBool::new(false));
    let (ended, health) = (done.clone(), cluster.admin.clone());
    let longest = tokio::spawn(async move {
        let mut longest = Duration::ZERO;
        while !ended.load(Ordering::Relaxed) {
            let begun = kevel_clock::monotonic_now();
            let (code, ..) = send(&health, "GET", "/livez", String::new()).await;
            assert_eq!(code, 200);
            longest = longest.max(begun.elapsed());
        }
        longest
    });
    for (name, method, path, body, expected) in cases() {
        let (code, size, said) = send(&client, method, path, body).await;
        assert_eq!(code, expected, "{name}: {said}");
        assert!(size < MOST_ANSWER, "{name}: an answer of {size} bytes");
    }
    done.store(true, Ordering::Relaxed);
    let longest = longest.await.unwrap();
    assert!(longest < MOST_WAIT, "/livez took {longest:?}");
    drop(client);
    cluster.stop().await;
}
