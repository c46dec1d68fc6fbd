//! Priority and fairness, as clients of a running server see it.

#![allow(clippy::unwrap_used)]

mod blocker;
mod configuration;
mod dumps;
mod fairness;

use http::Response;
use kevel_test_support::{Client, Cluster, until};
use serde_json::{Value, json};

const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const TOO_MANY: &str = "Too many requests, please try again later.\n";

/// Response of a level to a request that it has no seat for.
enum LimitResponse {
    Reject,
    Queue { queues: u32, hand_size: u32, length: u32 },
}

/// A level that neither lends nor borrows, of so many shares.
fn level(name: &str, shares: u32, response: &LimitResponse) -> Value {
    let response = match response {
        LimitResponse::Reject => json!({"type": "Reject"}),
        LimitResponse::Queue { queues, hand_size, length } => json!({
            "type": "Queue",
            "queuing": {"queues": queues, "handSize": hand_size, "queueLengthLimit": length},
        }),
    };
    json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration",
        "metadata": {"name": name},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": shares, "lendablePercent": 0, "borrowingLimitPercent": 0,
            "limitResponse": response,
        }},
    })
}

/// A schema that leads all requests of these users to a level.
fn schema(name: &str, level: &str, users: &[&str]) -> Value {
    let subjects: Vec<Value> =
        users.iter().map(|user| json!({"kind": "User", "user": {"name": user}})).collect();
    json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema",
        "metadata": {"name": name},
        "spec": {
            "priorityLevelConfiguration": {"name": level}, "matchingPrecedence": 50,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{
                "subjects": subjects,
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
                                   "clusterScope": true, "namespaces": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }],
        },
    })
}

/// The UIDs of schema and level that an answer says its request was classified by.
fn classified(answer: &Response<String>) -> (String, String) {
    let header = |name: &str| {
        answer.headers().get(name).map_or(String::new(), |uid| uid.to_str().unwrap().to_owned())
    };
    (header("x-kubernetes-pf-flowschema-uid"), header("x-kubernetes-pf-prioritylevel-uid"))
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

async fn version(client: &Client) -> Response<String> {
    client.raw("GET", "/version", &[], "").await
}

/// Makes a level and a schema of the same name that leads jane and joe there, and waits until it does.
async fn lead(cluster: &Cluster, name: &str, shares: u32, response: &LimitResponse) {
    cluster.admin.create(LEVELS, &level(name, shares, response)).await;
    let schema = cluster.admin.create(SCHEMAS, &schema(name, name, &["jane", "joe"])).await;
    let (jane, uid) = (cluster.bearer("jane"), uid(&schema));
    until(async || classified(&version(&jane).await).0 == uid).await;
}

/// The value of a metric whose line begins so.
async fn metric(cluster: &Cluster, beginning: &str) -> Option<f64> {
    let shown = cluster.metrics().await;
    let line = shown.lines().find(|line| line.starts_with(beginning))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// The same of a level's requests, of all schemas.
async fn requests(cluster: &Cluster, name: &str, level: &str) -> f64 {
    let shown = cluster.metrics().await;
    let family = format!("apiserver_flowcontrol_{name}{{");
    let label = format!("priority_level=\"{level}\"");
    let lines = shown.lines().filter(|line| line.starts_with(&family) && line.contains(&label));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}
