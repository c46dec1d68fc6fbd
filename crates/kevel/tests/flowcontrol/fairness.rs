//! Requests that are executed, queued, and rejected.

use kevel_test_support::{Cluster, soon, until};

use super::blocker::Blocker;
use super::{LimitResponse, TOO_MANY, classified, lead, metric, requests, version};

/// So many queues that jane and joe are not in the same.
const QUEUES: LimitResponse = LimitResponse::Queue { queues: 100_000, hand_size: 1, length: 20 };
/// One queue for all, with two places.
const ONE_QUEUE: LimitResponse = LimitResponse::Queue { queues: 1, hand_size: 1, length: 2 };

/// A server with few seats, and a level for jane and joe.
async fn start(shares: u32, response: &LimitResponse) -> (Cluster, usize) {
    let flags = ["--max-requests-inflight=6", "--max-mutating-requests-inflight=2"];
    let cluster = Cluster::start(&flags).await;
    lead(&cluster, "test", shares, response).await;
    let line = "apiserver_flowcontrol_nominal_limit_seats{priority_level=\"test\"}";
    let seats = metric(&cluster, line).await.unwrap();
    assert!(seats >= 1.0);
    (cluster, seats as usize)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_a_lot_waits_for_itself() {
    let (cluster, seats) = start(100, &QUEUES).await;
    let mut flood = Blocker::some(&cluster, "jane", seats + 15).await;
    let executing = async || requests(&cluster, "current_executing_requests", "test").await;
    let waiting = async || requests(&cluster, "current_inqueue_requests", "test").await;
    until(async || executing().await == seats as f64 && waiting().await == 15.0).await;

    // Joe's request is the last to come, and is served as soon as jane has paid for what she was served.
    let joe = cluster.bearer("joe");
    let asked = tokio::spawn(async move { version(&joe).await.status().as_u16() });
    until(async || waiting().await == 16.0).await;
    assert!(!asked.is_finished());
    drop(flood.drain(..seats));
    assert_eq!(soon(asked).await.unwrap(), 200);
    assert!(waiting().await >= (15 - seats) as f64, "jane's others wait");

    // Administrators do not wait for anybody, nor do probes.
    assert_eq!(version(&cluster.admin).await.status(), 200);
    let jane = cluster.bearer("jane");
    assert_eq!(jane.raw("GET", "/livez", &[], "").await.status(), 200);
    drop(flood);
    until(async || executing().await + waiting().await == 0.0).await;
    assert_eq!(version(&jane).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_finds_no_place_is_told_to_come_again() {
    let (cluster, seats) = start(1, &ONE_QUEUE).await;
    let blockers = Blocker::some(&cluster, "jane", seats + 2).await;
    until(async || requests(&cluster, "current_inqueue_requests", "test").await == 2.0).await;
    let refused = version(&cluster.bearer("joe")).await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(refused.headers()["content-type"], "text/plain; charset=utf-8");
    assert_eq!(refused.headers()["x-content-type-options"], "nosniff");
    let (schema, level) = classified(&refused);
    assert!(!schema.is_empty() && !level.is_empty() && schema != level);
    assert_eq!(refused.into_body(), TOO_MANY);
    let rejected = "apiserver_flowcontrol_rejected_requests_total{flow_schema=\"test\",\
                    priority_level=\"test\",reason=\"queue-full\"}";
    assert_eq!(metric(&cluster, rejected).await, Some(1.0));
    drop(blockers);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_level_without_queues_refuses_at_once() {
    let (cluster, seats) = start(1, &LimitResponse::Reject).await;
    let blockers = Blocker::some(&cluster, "jane", seats).await;
    let executing = async || requests(&cluster, "current_executing_requests", "test").await;
    until(async || executing().await == seats as f64).await;
    let refused = version(&cluster.bearer("joe")).await;
    assert_eq!((refused.status().as_u16(), refused.body().as_str()), (429, TOO_MANY));
    let rejected = "apiserver_flowcontrol_rejected_requests_total{flow_schema=\"test\",\
                    priority_level=\"test\",reason=\"concurrency-limit\"}";
    assert_eq!(metric(&cluster, rejected).await, Some(1.0));
    drop(blockers);
    until(async || version(&cluster.bearer("joe")).await.status() == 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_wait_is_limited_to_a_part_of_the_timeout() {
    let (cluster, seats) = start(1, &ONE_QUEUE).await;
    let _blockers = Blocker::some(&cluster, "jane", seats).await;
    let executing = async || requests(&cluster, "current_executing_requests", "test").await;
    until(async || executing().await == seats as f64).await;
    let joe = cluster.bearer("joe");
    let refused = soon(joe.raw("GET", "/version?timeout=400ms", &[], "")).await;
    assert_eq!((refused.status().as_u16(), refused.body().as_str()), (429, TOO_MANY));
    let rejected = |reason: &str| {
        format!(
            "apiserver_flowcontrol_rejected_requests_total{{flow_schema=\"test\",\
             priority_level=\"test\",reason=\"{reason}\"}}"
        )
    };
    assert_eq!(metric(&cluster, &rejected("time-out")).await, Some(1.0));

    // Who goes away leaves the queue.
    let waiting = async || requests(&cluster, "current_inqueue_requests", "test").await;
    let asked = tokio::spawn(async move { version(&joe).await });
    until(async || waiting().await == 1.0).await;
    asked.abort();
    until(async || waiting().await == 0.0).await;
    assert_eq!(metric(&cluster, &rejected("cancelled")).await, Some(1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_is_answered_though_the_server_stops() {
    let (cluster, seats) = start(1, &ONE_QUEUE).await;
    let blockers = Blocker::some(&cluster, "jane", seats).await;
    let executing = async || requests(&cluster, "current_executing_requests", "test").await;
    until(async || executing().await == seats as f64).await;
    let asked = [(); 2].map(|()| {
        let joe = cluster.bearer("joe");
        tokio::spawn(async move { version(&joe).await.status().as_u16() })
    });
    until(async || requests(&cluster, "current_inqueue_requests", "test").await == 2.0).await;
    let stopping = tokio::spawn(cluster.stop());
    drop(blockers);
    for asked in asked {
        assert_eq!(soon(asked).await.unwrap(), 200);
    }
    soon(stopping).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_has_seats_until_it_has_begun() {
    let (cluster, _) = start(1, &LimitResponse::Reject).await;
    let jane = cluster.bearer("jane");
    let binding = r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding",
        "metadata":{"name":"jane"},"subjects":[{"kind":"User","name":"jane"}],
        "roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"}}"#;
    let path = "POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    cluster.ok("admin", path, binding).await;
    let maps = "GET /api/v1/namespaces/default/configmaps";
    cluster.until_sent("jane", maps, "", |answer| answer.0 == 200).await;
    let mut watches = Vec::new();
    for options in [
        "watch=1",
        "watch=1&resourceVersion=0",
        "watch=1&sendInitialEvents=true&\
                     resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    ] {
        let path = format!("/api/v1/namespaces/default/configmaps?{options}");
        let request = http::Request::get(path).body(kube::client::Body::empty()).unwrap();
        let answer = until_begun(&jane, request).await;
        assert!(answer.headers().contains_key("x-kubernetes-pf-flowschema-uid"));
        watches.push(answer);
        // It goes on, and jane can ask for more.
        until(async || requests(&cluster, "current_executing_requests", "test").await == 0.0).await;
        assert_eq!(version(&jane).await.status(), 200);
    }
    let begun = "apiserver_flowcontrol_request_execution_seconds_count{flow_schema=\"test\",\
                 priority_level=\"test\",type=\"watch\"}";
    assert_eq!(metric(&cluster, begun).await, Some(3.0));
}

async fn until_begun(
    client: &kevel_test_support::Client,
    request: http::Request<kube::client::Body>,
) -> http::Response<kube::client::Body> {
    let answer = soon(client.0.send(request)).await.unwrap();
    assert_eq!(answer.status(), 200);
    answer
}
