//! Nodes that give no sign of life: conditions, taints, pods, Events and metrics.

use std::time::Duration;

use kevel::ManualClock;
use kevel_api::time::{MicroTime, Time};
use kevel_test_support::{Cluster, until};
use serde_json::{Value, json};

use super::{cluster_of, create_pod};

const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const CONTROLLER: &str = "node-lifecycle-controller";

async fn create_node(cluster: &Cluster, name: &str, labels: Value) {
    cluster.admin.create(NODES, &json!({"metadata": {"name": name, "labels": labels}})).await;
}

/// Posts conditions as a kubelet does, with a heartbeat.
async fn post(cluster: &Cluster, clock: &ManualClock, name: &str, conditions: &[(&str, &str)]) {
    let now = Time::now(&clock.clock()).to_string();
    let condition = |(of, status): &(&str, &str)| {
        json!({"type": of, "status": status, "reason": "Kubelet", "message": "posted",
            "lastHeartbeatTime": now, "lastTransitionTime": now})
    };
    let conditions: Vec<Value> = conditions.iter().map(condition).collect();
    let status = json!({"status": {"conditions": conditions}}).to_string();
    cluster.ok("admin", &format!("PATCH {NODES}/{name}/status"), &status).await;
}

async fn create_ready_node(cluster: &Cluster, clock: &ManualClock, name: &str) {
    create_node(cluster, name, json!({})).await;
    post(cluster, clock, name, &[("Ready", "True")]).await;
}

async fn node(cluster: &Cluster, name: &str) -> Value {
    cluster.admin.get(&format!("{NODES}/{name}")).await.1
}

/// Status and reason of a condition.
fn condition(object: &Value, of: &str) -> String {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == of);
    found.map_or(String::new(), |found| {
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        format!("{} {}", text("status"), text("reason"))
    })
}

/// Taints without their common prefix: `unreachable:NoExecute`.
fn taints(node: &Value) -> Vec<String> {
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let show = |taint: &Value| {
        let key = taint["key"].as_str().unwrap().trim_start_matches("node.kubernetes.io/");
        format!("{key}:{}", taint["effect"].as_str().unwrap())
    };
    let mut shown: Vec<String> = taints.iter().map(show).collect();
    shown.sort_unstable();
    shown
}

async fn until_tainted(cluster: &Cluster, name: &str, expected: &[&str]) {
    until(async || taints(&node(cluster, name).await) == expected).await;
}

/// Renews the Lease of a node.
async fn renew(cluster: &Cluster, clock: &ManualClock, name: &str) {
    let now = MicroTime::now(&clock.clock()).to_string();
    let body = json!({"spec": {"holderIdentity": name, "renewTime": now}});
    let (code, _) =
        cluster.send("admin", &format!("PATCH {LEASES}/{name}"), &body.to_string()).await;
    if code == 404 {
        let lease = json!({"metadata": {"name": name}, "spec": body["spec"]});
        until(async || cluster.admin.post(LEASES, &lease).await.0 == 201).await;
    }
}

/// Lets time pass until a condition holds, while kubelets renew the Leases of these nodes.
async fn pass(
    cluster: &Cluster,
    clock: &ManualClock,
    alive: &[&str],
    holds: impl AsyncFn() -> bool,
) {
    until(async || {
        for name in alive {
            renew(cluster, clock, name).await;
        }
        clock.advance(Duration::from_secs(1));
        holds().await
    })
    .await;
}

async fn has_event(cluster: &Cluster, name: &str, kind: &str, reason: &str, message: &str) -> bool {
    let path =
        format!("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={name}");
    let (_, events) = cluster.admin.get(&path).await;
    events["items"].as_array().unwrap().iter().any(|event| {
        event["reason"] == reason
            && event["message"] == message
            && event["involvedObject"]["kind"] == kind
            && event["source"]["component"] == "node-controller"
    })
}

pub async fn create_labelled_node(cluster: &Cluster) {
    create_node(cluster, "labelled", json!({"kubernetes.io/os": "linux"})).await;
}

pub async fn node_is_labelled(cluster: &Cluster) -> bool {
    node(cluster, "labelled").await["metadata"]["labels"]["beta.kubernetes.io/os"] == "linux"
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_node_becomes_unknown_and_its_pods_are_not_ready() {
    let clock = ManualClock::at_present();
    let cluster = cluster_of(CONTROLLER, &clock).await;
    create_ready_node(&cluster, &clock, "silent").await;
    create_ready_node(&cluster, &clock, "alive").await;
    let ready =
        json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}).to_string();
    for node in ["silent", "alive"] {
        let path =
            create_pod(&cluster, "default", &format!("on-{node}"), &json!({"nodeName": node}))
                .await;
        cluster.ok("admin", &format!("PATCH {path}/on-{node}/status"), &ready).await;
    }
    let is_unknown =
        async || condition(&node(&cluster, "silent").await, "Ready").starts_with("Unknown");
    pass(&cluster, &clock, &["alive"], is_unknown).await;
    let silent = node(&cluster, "silent").await;
    assert_eq!(condition(&silent, "Ready"), "Unknown NodeStatusUnknown");
    assert_eq!(condition(&silent, "DiskPressure"), "Unknown NodeStatusNeverUpdated");
    assert_eq!(condition(&silent, "NetworkUnavailable"), "");
    let pod = async |name: &str| {
        cluster.admin.get(&format!("/api/v1/namespaces/default/pods/{name}")).await.1
    };
    until(async || condition(&pod("on-silent").await, "Ready") == "False ").await;
    let event = async |name, kind, reason, message| {
        until(async || has_event(&cluster, name, kind, reason, message).await).await;
    };
    event(
        "silent",
        "Node",
        "RegisteredNode",
        "Node silent event: Registered Node silent in Controller",
    )
    .await;
    event("silent", "Node", "NodeNotReady", "Node silent status is now: NodeNotReady").await;
    event("on-silent", "Pod", "NodeNotReady", "Node is not ready").await;
    assert_eq!(condition(&node(&cluster, "alive").await, "Ready"), "True Kubelet");
    assert_eq!(condition(&pod("on-alive").await, "Ready"), "True ");

    // A pod that is assigned to the node later is not ready either.
    let path = create_pod(&cluster, "default", "late", &json!({})).await;
    cluster.ok("admin", &format!("PATCH {path}/late/status"), &ready).await;
    let binding =
        json!({"metadata": {"name": "late"}, "target": {"kind": "Node", "name": "silent"}});
    cluster.admin.create(&format!("{path}/late/binding"), &binding).await;
    until(async || condition(&pod("late").await, "Ready") == "False ").await;

    cluster.admin.delete(&format!("{NODES}/silent")).await;
    event(
        "silent",
        "Node",
        "RemovingNode",
        "Node silent event: Removing Node silent from Controller",
    )
    .await;
    let metrics = cluster.metrics().await;
    for line in [
        r#"node_collector_zone_size{zone=""} 1"#,
        r#"node_collector_zone_health{zone=""} 100"#,
        r#"node_collector_unhealthy_nodes_in_zone{zone=""} 0"#,
        r#"node_collector_evictions_total{zone=""} 1"#,
    ] {
        assert!(metrics.contains(line), "{line}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_without_status_becomes_unknown() {
    let clock = ManualClock::at_present();
    let cluster = cluster_of(CONTROLLER, &clock).await;
    create_node(&cluster, "never", json!({})).await;
    // Without a condition, no taint stands for one.
    until_tainted(&cluster, "never", &[]).await;
    assert_eq!(condition(&node(&cluster, "never").await, "Ready"), "");
    clock.advance(Duration::from_secs(61));
    let is_unknown = async || !condition(&node(&cluster, "never").await, "Ready").is_empty();
    until(is_unknown).await;
    let never = node(&cluster, "never").await;
    for of in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
        assert_eq!(condition(&never, of), "Unknown NodeStatusNeverUpdated");
    }
    let first = &never["status"]["conditions"][0];
    assert_eq!(first["message"], "Kubelet never posted node status.");
    assert_eq!(first["lastHeartbeatTime"], never["metadata"]["creationTimestamp"]);
    // It is the only node: nothing is evicted.
    until_tainted(&cluster, "never", &["unreachable:NoSchedule"]).await;
    assert!(
        !has_event(
            &cluster,
            "never",
            "Node",
            "NodeNotReady",
            "Node never status is now: NodeNotReady"
        )
        .await
    );
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn taints_follow_conditions() {
    let clock = ManualClock::at_present();
    let cluster = cluster_of(CONTROLLER, &clock).await;
    let labels = json!({"kubernetes.io/arch": "arm64", "beta.kubernetes.io/arch": "amd64"});
    create_node(&cluster, "a", labels).await;
    let own = json!({"spec": {"taints": [{"key": "own", "effect": "NoSchedule"}]}}).to_string();
    cluster.ok("admin", &format!("PATCH {NODES}/a"), &own).await;
    let conditions = [
        ("Ready", "False"),
        ("MemoryPressure", "True"),
        ("DiskPressure", "False"),
        ("NetworkUnavailable", "True"),
    ];
    post(&cluster, &clock, "a", &conditions).await;
    let expected = [
        "memory-pressure:NoSchedule",
        "network-unavailable:NoSchedule",
        "not-ready:NoSchedule",
        "own:NoSchedule",
    ];
    until_tainted(&cluster, "a", &expected).await;
    let (mut timed, cordon) = (0, json!({"spec": {"unschedulable": true}}).to_string());
    for taint in node(&cluster, "a").await["spec"]["taints"].as_array().unwrap() {
        timed += usize::from(taint["timeAdded"].is_string());
    }
    assert_eq!(timed, 3);
    cluster.ok("admin", &format!("PATCH {NODES}/a"), &cordon).await;
    post(&cluster, &clock, "a", &[("Ready", "True"), ("PIDPressure", "True")]).await;
    let expected = ["own:NoSchedule", "pid-pressure:NoSchedule", "unschedulable:NoSchedule"];
    until_tainted(&cluster, "a", &expected).await;
    until(async || {
        node(&cluster, "a").await["metadata"]["labels"]["beta.kubernetes.io/arch"] == "arm64"
    })
    .await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn evicting_taints_stop_in_a_full_disruption() {
    let clock = ManualClock::at_present();
    let cluster = cluster_of(CONTROLLER, &clock).await;
    for name in ["alive", "alive-too", "first", "second"] {
        create_ready_node(&cluster, &clock, name).await;
        until_tainted(&cluster, name, &[]).await;
    }
    let alive = ["alive", "alive-too"];
    let evicted = async |name: &str| {
        taints(&node(&cluster, name).await).iter().any(|taint| taint.ends_with(":NoExecute"))
    };
    pass(&cluster, &clock, &[&alive[..], &["second"]].concat(), async || evicted("first").await)
        .await;
    let both = ["unreachable:NoExecute", "unreachable:NoSchedule"];
    until_tainted(&cluster, "first", &both).await;
    // A kubelet that says that its node is not ready changes the taint at once.
    post(&cluster, &clock, "first", &[("Ready", "False")]).await;
    until_tainted(&cluster, "first", &["not-ready:NoExecute", "not-ready:NoSchedule"]).await;
    pass(&cluster, &clock, &alive, async || evicted("second").await).await;
    assert!(cluster.metrics().await.contains(r#"node_collector_evictions_total{zone=""} 2"#));
    // A ready node loses it.
    post(&cluster, &clock, "second", &[("Ready", "True")]).await;
    until_tainted(&cluster, "second", &[]).await;

    // Without a ready node, nothing is evicted.
    let is_lost =
        async |name: &str| condition(&node(&cluster, name).await, "Ready").starts_with("Unknown");
    pass(&cluster, &clock, &[], async || {
        is_lost("alive").await && is_lost("alive-too").await && is_lost("second").await
    })
    .await;
    for name in ["alive", "alive-too", "second", "first"] {
        until_tainted(&cluster, name, &["unreachable:NoSchedule"]).await;
    }
    for _ in 0..100 {
        clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert!(!evicted("alive").await && !evicted("first").await);
    // With one, too few are ready for evictions; with two, the others are tainted again.
    post(&cluster, &clock, "alive", &[("Ready", "True")]).await;
    until_tainted(&cluster, "alive", &[]).await;
    for _ in 0..20 {
        renew(&cluster, &clock, "alive").await;
        clock.advance(Duration::from_secs(1));
    }
    assert!(!evicted("first").await && !evicted("second").await);
    post(&cluster, &clock, "alive-too", &[("Ready", "True")]).await;
    pass(&cluster, &clock, &alive, async || evicted("first").await || evicted("second").await)
        .await;
    cluster.stop().await;
}
