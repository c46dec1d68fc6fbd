//! Controllers of several servers: those of one of them run, as long as it holds their lease.

use std::time::Duration;

use kevel_clock::Stopwatch;
use kevel_test_support::{Client, Relay, Replica, Replicas, until};
use serde_json::{Value, json};

const FLAG: &str = "--controllers=serviceaccount";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
/// Time for which the lease is respected, less that since the last renewal of a holder that renews.
const LEAST_WAIT: Duration = Duration::from_secs(12);

async fn lease(admin: &Client) -> Value {
    admin.get(&format!("{LEASES}/kevel-controllers")).await.1["spec"].clone()
}

/// Whether the server with this hostname, which runs, holds the lease.
async fn holds(admin: &Client, hostname: &str) -> bool {
    let own = format!("{LEASES}?labelSelector=kubernetes.io/hostname={hostname}");
    let own = admin.get(&own).await.1;
    let id = own["items"][0]["metadata"]["name"].as_str().map(|id| format!("{id}_"));
    let lease = lease(admin).await;
    id.zip(lease["holderIdentity"].as_str()).is_some_and(|(id, holder)| holder.starts_with(&id))
}

/// Makes a namespace, and waits until a controller has made its service account.
async fn work_is_done(admin: &Client, namespace: &str) {
    admin.create("/api/v1/namespaces", &json!({"metadata": {"name": namespace}})).await;
    let account = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
    until(async || admin.get(&account).await.0 == 200).await;
}

/// Whether controllers have run in the server: something was added to a work queue.
async fn has_run(server: &Replica) -> bool {
    const ADDED: &str = r#"workqueue_adds_total{name="serviceaccount"} "#;
    let metrics = server.admin.raw("GET", "/metrics", &[], "").await.into_body();
    metrics.lines().any(|line| line.strip_prefix(ADDED).is_some_and(|added| added != "0"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn controllers_run_elsewhere_when_their_server_stops() {
    let Some(replicas) = Replicas::new().await else { return };
    let first = replicas.start("first", &[FLAG]).await;
    until(async || holds(&first.admin, "first").await).await;
    let second = replicas.start("second", &[FLAG]).await;
    work_is_done(&second.admin, "one").await;
    assert!(holds(&second.admin, "first").await);
    assert!(has_run(&first).await && !has_run(&second).await);
    let held = lease(&second.admin).await;
    assert_eq!((&held["leaseDurationSeconds"], &held["leaseTransitions"]), (&json!(15), &json!(0)));

    first.stop().await;
    let released = lease(&second.admin).await;
    assert_ne!(released["holderIdentity"], held["holderIdentity"], "{released}");
    let stopped = Stopwatch::start();
    until(async || holds(&second.admin, "second").await).await;
    assert!(stopped.elapsed() < LEAST_WAIT, "{:?}", stopped.elapsed());
    work_is_done(&second.admin, "two").await;
    assert_eq!(lease(&second.admin).await["leaseTransitions"], 1);
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn controllers_run_elsewhere_when_the_lease_ends() {
    let Some(mut replicas) = Replicas::new().await else { return };
    let relay = Relay::start().await;
    let etcd = replicas.etcd.endpoint.clone();
    relay.lead_to(vec![etcd.rsplit('/').next().unwrap().parse().unwrap()]);
    replicas.etcd.endpoint = format!("http://127.0.0.1:{}", relay.port);
    let first = replicas.start("first", &[FLAG]).await;
    replicas.etcd.endpoint = etcd;
    until(async || holds(&first.admin, "first").await).await;
    let second = replicas.start("second", &[FLAG]).await;
    work_is_done(&second.admin, "one").await;

    // To the others it is as if it was killed.
    drop(relay);
    let lost = Stopwatch::start();
    until(async || holds(&second.admin, "second").await).await;
    assert!(lost.elapsed() > LEAST_WAIT, "{:?}", lost.elapsed());
    work_is_done(&second.admin, "two").await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn servers_without_controllers_take_no_part() {
    let Some(replicas) = Replicas::new().await else { return };
    let first = replicas.start("first", &[]).await;
    let second = replicas.start("second", &[FLAG]).await;
    until(async || holds(&first.admin, "second").await).await;
    work_is_done(&first.admin, "one").await;
    assert!(!has_run(&first).await);
    second.stop().await;
    assert_eq!(lease(&first.admin).await["holderIdentity"], "");
    first.stop().await;
}
