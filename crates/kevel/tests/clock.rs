//! A server whose clock the test moves. Nothing here waits for real time to pass.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use kevel::{ManualClock, Server};
use kevel_api::time::{MicroTime, Time};
use kevel_test_support::{Client, Cluster, until};
use serde_json::{Value, json};

const HOUR: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);
/// Time between two renewals of a server's identity Lease.
const RENEW_INTERVAL: Duration = Duration::from_secs(10);

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

async fn start() -> (Cluster, ManualClock) {
    let clock = ManualClock::at_present();
    (Cluster::with(Server::builder().clock(&clock)).await, clock)
}

fn time(clock: &ManualClock) -> String {
    Time::now(&clock.clock()).to_string()
}

/// A client with a token of a new ServiceAccount.
async fn account(cluster: &Cluster, name: &str, seconds: i64) -> Client {
    cluster.admin.create(ACCOUNTS, &json!({"metadata": {"name": name}})).await;
    let asked = json!({"spec": {"expirationSeconds": seconds}});
    let made = cluster.admin.create(&format!("{ACCOUNTS}/{name}/token"), &asked).await;
    cluster.bearer(made["status"]["token"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn object_timestamps_are_of_the_servers_clock() {
    let (cluster, clock) = start().await;
    for name in ["before", "after"] {
        let object = json!({"metadata": {"name": name, "finalizers": ["test.kevel/hold"]}});
        let made = cluster.admin.create(CONFIG_MAPS, &object).await;
        let made = &made["metadata"];
        assert_eq!(made["creationTimestamp"], time(&clock));
        assert_eq!(made["managedFields"][0]["time"], time(&clock));
        clock.advance(HOUR);
    }
    cluster.admin.delete(&format!("{CONFIG_MAPS}/before")).await;
    let (_, held) = cluster.admin.get(&format!("{CONFIG_MAPS}/before")).await;
    assert_eq!(held["metadata"]["deletionTimestamp"], time(&clock));
}

#[tokio::test(flavor = "multi_thread")]
async fn service_account_token_expires_by_the_servers_clock() {
    let (cluster, clock) = start().await;
    let client = account(&cluster, "short", 600).await;
    assert_eq!(client.username().await.as_deref(), Some("system:serviceaccount:default:short"));
    clock.advance(HOUR);
    assert_eq!(client.username().await, None);
}

/// The account is gone, but the clock stands still: only the cache can know the user.
#[tokio::test(flavor = "multi_thread")]
async fn cached_token_decision_expires_by_the_servers_clock() {
    let (cluster, clock) = start().await;
    let client = account(&cluster, "gone", 24 * 3600).await;
    assert!(client.username().await.is_some());
    cluster.admin.delete(&format!("{ACCOUNTS}/gone")).await;
    assert!(client.username().await.is_some(), "the decision is remembered for ten seconds");
    clock.advance(10 * SECOND);
    assert_eq!(client.username().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn event_time_to_live_ends_by_the_servers_clock() {
    let (cluster, clock) = start().await;
    let events = "/api/v1/namespaces/default/events";
    let about = json!({"kind": "Pod", "namespace": "default", "name": "p"});
    let event = json!({"metadata": {"name": "e"}, "involvedObject": about});
    cluster.admin.create(events, &event).await;
    clock.advance(HOUR - SECOND);
    // Written after the clock has moved: what had to expire before it has.
    cluster.admin.create(CONFIG_MAPS, &json!({"metadata": {"name": "later"}})).await;
    assert_eq!(cluster.admin.get(&format!("{events}/e")).await.0, 200);
    clock.advance(SECOND);
    until(async || cluster.admin.get(&format!("{events}/e")).await.0 == 404).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn identity_leases_expire_and_are_renewed_by_the_servers_clock() {
    let (cluster, clock) = start().await;
    let label = "apiserver.kubernetes.io/identity";
    let lease = json!({
        "metadata": {"name": "apiserver-gone", "labels": {label: "kube-apiserver"}},
        "spec": {
            "holderIdentity": "apiserver-gone_1",
            "leaseDurationSeconds": 3600,
            "renewTime": MicroTime::now(&clock.clock()).to_string(),
        },
    });
    cluster.admin.create(LEASES, &lease).await;
    let path = format!("{LEASES}/apiserver-gone");
    assert_eq!(cluster.admin.get(&path).await.0, 200);
    // The clock moves before every look: a task that was at work while it moved goes to sleep only afterwards.
    let expired = async || {
        clock.advance(HOUR + SECOND);
        cluster.admin.get(&path).await.0 == 404
    };
    until(expired).await;
    // The server's own Lease is there: renewed at a time that the clock has come to.
    let moved = MicroTime::now(&clock.clock());
    let renewed = |lease: &Value| {
        let time = lease["spec"]["renewTime"].as_str().and_then(|time| time.parse().ok());
        time.is_some_and(|time: MicroTime| time >= moved)
    };
    let own = async || {
        clock.advance(RENEW_INTERVAL);
        let (_, leases) = cluster.admin.get(&format!("{LEASES}?labelSelector={label}")).await;
        leases["items"].as_array().is_some_and(|items| items.iter().any(renewed))
    };
    until(own).await;
}
