//! Coordinated leader election: one of the servers chooses who holds a lease.

use std::time::Duration;

use kevel_api::time::MicroTime;
use kevel_clock::Clock;
use kevel_test_support::{Client, Replica, Replicas, until};
use serde_json::{Value, json};

const FLAGS: &[&str] = &[
    "--feature-gates=CoordinatedLeaderElection=true",
    "--runtime-config=coordination.k8s.io/v1beta1=true",
    "--coordinated-leadership-lease-duration=3s",
    "--coordinated-leadership-renew-deadline=2s",
    "--coordinated-leadership-retry-period=200ms",
];
const CANDIDATES: &str = "/apis/coordination.k8s.io/v1beta1/namespaces/default/leasecandidates";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/scheduler";
const SYSTEM_LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const CONTROLLER: &str = "leader-election-controller";

fn now() -> String {
    MicroTime::now(&Clock::system()).to_string()
}

/// Creates a LeaseCandidate.
async fn stand(admin: &Client, name: &str, emulation_version: &str) {
    let spec = json!({
        "leaseName": "scheduler", "strategy": "OldestEmulationVersion", "renewTime": now(),
        "emulationVersion": emulation_version, "binaryVersion": "1.36.0",
    });
    admin.create(CANDIDATES, &json!({"metadata": {"name": name}, "spec": spec})).await;
}

/// Answers for a candidate whenever it is asked whether it is there.
async fn answer(admin: Client, name: &'static str) {
    let path = format!("{CANDIDATES}/{name}");
    loop {
        let mut candidate = admin.get(&path).await.1;
        let spec = &candidate["spec"];
        if spec["pingTime"].as_str() > spec["renewTime"].as_str() {
            candidate["spec"]["renewTime"] = now().into();
            admin.send("PUT", &path, &[], &candidate.to_string()).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until a field of a lease's spec has a value.
async fn comes_to(admin: &Client, lease: &str, field: &str, value: &str) -> Value {
    until(async || admin.get(lease).await.1["spec"][field] == value).await;
    admin.get(lease).await.1["spec"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_best_candidate_gets_the_lease_whichever_server_chooses() {
    let Some(replicas) = Replicas::new().await else { return };
    // The lease of the election controller is that of a server that was killed.
    let first = replicas.start("first", &[]).await;
    let left = json!({
        "holderIdentity": "lost_1", "leaseDurationSeconds": 2, "leaseTransitions": 0,
        "acquireTime": now(), "renewTime": now(),
    });
    first
        .admin
        .create(SYSTEM_LEASES, &json!({"metadata": {"name": CONTROLLER}, "spec": left}))
        .await;
    first.stop().await;
    let mut servers: Vec<Replica> = Vec::new();
    for name in ["one", "two"] {
        servers.push(replicas.start(name, FLAGS).await);
    }
    let admin = servers[0].admin.clone();
    let controller = format!("{SYSTEM_LEASES}/{CONTROLLER}");
    let holder = async |admin: &Client| {
        let spec = admin.get(&controller).await.1["spec"].clone();
        spec["holderIdentity"].as_str().unwrap_or_default().to_owned()
    };
    until(async || ["one_", "two_"].contains(&holder(&admin).await.get(..4).unwrap_or(""))).await;
    let taken = admin.get(&controller).await.1["spec"].clone();
    assert_eq!(
        (&taken["leaseTransitions"], &taken["leaseDurationSeconds"]),
        (&json!(1), &json!(3))
    );

    stand(&admin, "new", "1.36.0").await;
    let spec = comes_to(&admin, LEASE, "holderIdentity", "new").await;
    assert_eq!(spec["strategy"], "OldestEmulationVersion");
    assert_eq!(spec["leaseDurationSeconds"], 5);
    // The holder sees the new preferred holder, and stops renewing.
    stand(&admin, "old", "1.35.0").await;
    let spec = comes_to(&admin, LEASE, "preferredHolder", "old").await;
    assert_eq!(spec["holderIdentity"], "new");

    // The server that chooses stops, and lets the other one do it at once.
    let chooses = holder(&admin).await;
    let position = usize::from(chooses.starts_with("two_"));
    drop(admin);
    servers.remove(position).stop().await;
    let admin = servers[0].admin.clone();
    until(async || ![String::new(), chooses.clone()].contains(&holder(&admin).await)).await;
    let taken = admin.get(&controller).await.1["spec"].clone();
    assert_eq!(taken["leaseTransitions"], 2);
    // The lease has run out: candidates are asked whether they are there, and the best gets it.
    let answers = ["new", "old"].map(|name| tokio::spawn(answer(admin.clone(), name)));
    let spec = comes_to(&admin, LEASE, "holderIdentity", "old").await;
    assert_eq!(spec.get("preferredHolder"), None, "{spec}");
    answers.iter().for_each(|answers| answers.abort());
    drop(admin);
    servers.remove(0).stop().await;
}
