//! Status of PodDisruptionBudgets.

use std::time::Duration;

use kevel::ManualClock;
use kevel_test_support::Cluster;
use serde_json::{Value, json};

use super::{cluster, cluster_of, create_pod};

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

async fn create_budget(cluster: &Cluster, name: &str, spec: Value) {
    cluster.admin.create(BUDGETS, &json!({"metadata": {"name": name}, "spec": spec})).await;
}

pub async fn create_empty_budget(cluster: &Cluster) {
    let selector = json!({"matchLabels": {"app": "none"}});
    create_budget(cluster, "empty", json!({"minAvailable": 1, "selector": selector})).await;
}

pub async fn budget_is_observed(cluster: &Cluster) -> bool {
    let (_, budget) = cluster.admin.get(&format!("{BUDGETS}/empty")).await;
    budget["status"]["observedGeneration"] == 1
}

/// Creates a ready pod with the label `app: web`.
async fn create_ready(cluster: &Cluster, name: &str, owner: Option<&Value>) {
    let pods = create_pod(cluster, "default", name, &json!({"nodeName": "node"})).await;
    let mut metadata = json!({"labels": {"app": "web"}});
    if let Some(set) = owner {
        let (name, uid) = (&set["metadata"]["name"], &set["metadata"]["uid"]);
        let (version, kind) = ("apps/v1", "ReplicaSet");
        metadata["ownerReferences"] = json!([
            {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": true},
        ]);
    }
    let body = json!({ "metadata": metadata }).to_string();
    cluster.ok("admin", &format!("PATCH {pods}/{name}"), &body).await;
    let ready = json!({"status": {
        "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
    }});
    cluster.ok("admin", &format!("PATCH {pods}/{name}/status"), &ready.to_string()).await;
}

fn numbers(budget: &Value) -> [i64; 4] {
    ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"]
        .map(|field| budget["status"][field].as_i64().unwrap_or(-1))
}

fn condition(budget: &Value) -> [&str; 3] {
    let condition = &budget["status"]["conditions"][0];
    ["type", "status", "reason"].map(|field| condition[field].as_str().unwrap_or(""))
}

#[tokio::test(flavor = "multi_thread")]
async fn percentage_counts_replicas_of_the_owners() {
    let cluster = cluster().await;
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "a", "image": "b"}]},
    });
    let selector = json!({"matchLabels": {"app": "web"}});
    let spec = json!({"replicas": 4, "selector": selector, "template": template});
    let set = json!({"metadata": {"name": "web"}, "spec": spec});
    let set = cluster.admin.create(SETS, &set).await;
    for name in ["one", "two", "three"] {
        create_ready(&cluster, name, Some(&set)).await;
    }
    create_budget(&cluster, "web", json!({"maxUnavailable": "30%", "selector": selector})).await;
    let read = format!("GET {BUDGETS}/web");
    let budget = cluster.until_ok(&read, "", |budget| numbers(budget) == [4, 2, 3, 1]).await;
    assert_eq!(condition(&budget), ["DisruptionAllowed", "True", "SufficientPods"]);
    assert_eq!(budget["status"]["observedGeneration"], budget["metadata"]["generation"]);

    let pod = "/api/v1/namespaces/default/pods/three/status";
    let unready = r#"{"status":{"conditions":[{"type":"Ready","status":"False"}]}}"#;
    cluster.ok("admin", &format!("PATCH {pod}"), unready).await;
    let budget = cluster.until_ok(&read, "", |budget| numbers(budget) == [4, 2, 2, 0]).await;
    assert_eq!(condition(&budget), ["DisruptionAllowed", "False", "InsufficientPods"]);

    // An owner that is not found: no disruption is allowed.
    let lost = json!({"metadata": {"name": "lost", "uid": "no"}});
    create_ready(&cluster, "four", Some(&lost)).await;
    let budget = cluster.until_ok(&read, "", |b| condition(b)[2] == "SyncFailed").await;
    let message = &budget["status"]["conditions"][0]["message"];
    assert_eq!(message, r#"found no controllers for pod "four""#);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn granted_eviction_counts_for_two_minutes() {
    let manual = ManualClock::at_present();
    let cluster = cluster_of("disruption", &manual).await;
    create_ready(&cluster, "one", None).await;
    create_ready(&cluster, "two", None).await;
    let selector = json!({"matchLabels": {"app": "web"}});
    create_budget(&cluster, "web", json!({"minAvailable": 1, "selector": selector})).await;
    let read = format!("GET {BUDGETS}/web");
    cluster.until_ok(&read, "", |budget| numbers(budget) == [2, 1, 2, 1]).await;
    let granted = kevel_api::time::Time::now(&manual.clock()).to_string();
    let status = json!({"status": {"disruptionsAllowed": 0, "disruptedPods": {"one": granted}}});
    let write = format!("PATCH {BUDGETS}/web/status");
    cluster.ok("admin", &write, &status.to_string()).await;
    let budget = cluster.until_ok(&read, "", |budget| numbers(budget) == [2, 1, 1, 0]).await;
    assert_eq!(budget["status"]["disruptedPods"], json!({ "one": granted }));
    manual.advance(Duration::from_secs(122));
    let budget = cluster.until_ok(&read, "", |budget| numbers(budget) == [2, 1, 2, 1]).await;
    assert_eq!(budget["status"]["disruptedPods"], Value::Null);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_disruption_target_of_a_pod_is_reset() {
    let manual = ManualClock::at_present();
    let cluster = cluster_of("disruption", &manual).await;
    let pods = create_pod(&cluster, "default", "spared", &json!({"nodeName": "node"})).await;
    let now = kevel_api::time::Time::now(&manual.clock()).to_string();
    let status = json!({"status": {"phase": "Running", "conditions": [
        {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
         "lastTransitionTime": now},
    ]}});
    let write = format!("PATCH {pods}/spared/status");
    cluster.ok("admin", &write, &status.to_string()).await;
    create_empty_budget(&cluster).await;
    kevel_test_support::until(async || budget_is_observed(&cluster).await).await;
    let state = |pod: &Value| pod["status"]["conditions"][0]["status"].clone();
    let (_, pod) = cluster.admin.get(&format!("{pods}/spared")).await;
    assert_eq!(state(&pod), "True");
    manual.advance(Duration::from_secs(121));
    cluster.until_ok(&format!("GET {pods}/spared"), "", |pod| state(pod) == "False").await;
    cluster.stop().await;
}
