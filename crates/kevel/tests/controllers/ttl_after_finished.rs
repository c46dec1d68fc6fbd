//! Time to live of finished Jobs.

use std::time::Duration;

use kevel::ManualClock;
use kevel_api::time::Time;
use kevel_test_support::Cluster;
use kevel_test_support::until;
use serde_json::{Value, json};

use super::exists;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

async fn finish(cluster: &Cluster, name: &str, seconds: i64, time: &str) {
    let containers = json!([{"name": "a", "image": "b"}]);
    let template = json!({"spec": {"restartPolicy": "Never", "containers": containers}});
    let spec = json!({"ttlSecondsAfterFinished": seconds, "template": template});
    cluster.admin.create(JOBS, &json!({"metadata": {"name": name}, "spec": spec})).await;
    let condition = |of: &str| json!({"type": of, "status": "True", "lastTransitionTime": time});
    let status = json!({
        "startTime": time,
        "completionTime": time,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    });
    let body = json!({ "status": status }).to_string();
    cluster.ok("admin", &format!("PATCH {JOBS}/{name}/status"), &body).await;
}

pub async fn finish_job(cluster: &Cluster) {
    finish(cluster, "done", 0, "2026-01-01T00:00:00Z").await;
}

/// Whether the Job is being deleted: its dependents are the garbage collector's.
pub async fn job_is_deleted(cluster: &Cluster) -> bool {
    let (code, job) = cluster.admin.get(&format!("{JOBS}/done")).await;
    code == 404 || job["metadata"]["deletionTimestamp"] != Value::Null
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_job_is_deleted_when_its_time_is_over() {
    let manual = ManualClock::at_present();
    let cluster = Cluster::with(kevel::Server::builder().clock(&manual)).await;
    let now = Time::now(&manual.clock()).to_string();
    finish(&cluster, "later", 3600, &now).await;
    finish_job(&cluster).await;
    until(async || job_is_deleted(&cluster).await).await;
    assert!(exists(&cluster, &format!("{JOBS}/later")).await);
    manual.advance(Duration::from_secs(3601));
    until(async || !exists(&cluster, &format!("{JOBS}/later")).await).await;
    cluster.stop().await;
}
