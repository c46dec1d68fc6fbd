//! Debug endpoints for administrators: dumps, health checks, metrics.

use kevel_test_support::{Cluster, until};

use super::blocker::Blocker;
use super::{LimitResponse, lead, requests};

const ONE_QUEUE: LimitResponse = LimitResponse::Queue { queues: 1, hand_size: 1, length: 5 };
const DUMP: &str = "/debug/api_priority_and_fairness/dump";

/// A dump as rows of cells.
async fn dump(cluster: &Cluster, what: &str) -> Vec<Vec<String>> {
    let (code, text) = cluster.send("admin", &format!("GET {DUMP}_{what}"), "").await;
    assert_eq!(code, 200, "{text}");
    let cells = |line: &str| line.split(',').map(|cell| cell.trim().to_owned()).collect();
    text.lines().map(cells).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn dumps_show_levels_queues_and_requests() {
    let flags = ["--max-requests-inflight=2", "--max-mutating-requests-inflight=1"];
    let cluster = Cluster::start(&flags).await;
    lead(&cluster, "test", 1, &ONE_QUEUE).await;
    let _blockers = Blocker::some(&cluster, "jane", 3).await;
    until(async || requests(&cluster, "current_inqueue_requests", "test").await == 2.0).await;

    let levels = dump(&cluster, "priority_levels").await;
    assert_eq!(levels[0][0], "PriorityLevelName");
    let of = |rows: &[Vec<String>], name: &str| {
        rows.iter().filter(|row| row[0] == name).cloned().collect::<Vec<_>>()
    };
    assert_eq!(of(&levels, "test")[0][1..6], ["1", "false", "false", "2", "1"]);
    assert_eq!(of(&levels, "exempt").len(), 1);
    assert_eq!(of(&dump(&cluster, "queues").await, "test")[0][1..5], ["0", "2", "1", "1"]);

    let asked = of(&dump(&cluster, "requests?includeRequestDetails=1").await, "test");
    assert_eq!(asked.len(), 3);
    let places: Vec<&str> = asked.iter().map(|row| row[3].as_str()).collect();
    assert_eq!(places, ["0", "1", "-1"]);
    for row in &asked {
        assert_eq!(row[1], "test");
        assert_eq!(row[10..12], ["jane", "create"]);
        assert_eq!(row[16], "selfsubjectaccessreviews");
    }
    assert_eq!(of(&dump(&cluster, "requests").await, "test")[0].len(), 10);
    // Only with permission.
    for what in ["priority_levels", "queues", "requests"] {
        let refused = cluster.refused("node-a", &format!("GET {DUMP}_{what}"), "").await;
        assert!(refused.starts_with("403 "), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_part_of_a_servers_health_and_metrics() {
    let cluster = Cluster::start(&[]).await;
    let (_, checks) = cluster.send("admin", "GET /readyz?verbose", "").await;
    for hook in [
        "priority-and-fairness-config-consumer",
        "priority-and-fairness-config-producer",
        "priority-and-fairness-filter",
        "storage-object-count-tracker-hook",
    ] {
        assert!(checks.contains(&format!("[+]poststarthook/{hook} ok")), "{checks}");
    }
    let metrics = cluster.metrics().await;
    for series in [
        "nominal_limit_seats{priority_level=\"workload-low\"} 245",
        "dispatched_requests_total{flow_schema=\"exempt\",priority_level=\"exempt\"} ",
        "request_execution_seconds_bucket{flow_schema=\"exempt\",priority_level=\"exempt\",\
         type=\"regular\",le=\"+Inf\"} ",
        "priority_level_seat_utilization_count{phase=\"executing\",priority_level=\"system\"} ",
        "read_vs_write_current_requests_count{phase=\"executing\",request_kind=\"mutating\"} ",
        "work_estimated_seats_count{flow_schema=\"exempt\",priority_level=\"exempt\"} ",
        "seat_fair_frac ",
    ] {
        let line = format!("\napiserver_flowcontrol_{series}");
        assert!(metrics.contains(&line), "{series}");
    }
    assert!(metrics.contains("\napiserver_current_inqueue_requests{request_kind=\"readOnly\"} 0"));
}
