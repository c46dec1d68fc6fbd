use super::{PODS, cluster, pod};

const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

#[tokio::test(flavor = "multi_thread")]
async fn pods_have_the_priority_of_their_class() {
    let cluster = cluster(&[]).await;
    let dry = format!("POST {PODS}?dryRun=All");
    cluster.until(&format!("GET {CLASSES}/system-node-critical"), |answer| answer.0 == 200).await;
    let high = r#"{"metadata":{"name":"high"},"value":1000,"preemptionPolicy":"Never"}"#;
    cluster.ok("admin", &format!("POST {CLASSES}"), high).await;
    for (spec, priority, policy) in [
        ("", 0, "PreemptLowerPriority"),
        (r#""priorityClassName":"high""#, 1000, "Never"),
        (r#""priorityClassName":"system-node-critical""#, 2_000_001_000, "PreemptLowerPriority"),
    ] {
        let made = cluster.ok("admin", &dry, &pod(spec)).await;
        assert_eq!(made["spec"]["priority"], priority, "{spec}");
        assert_eq!(made["spec"]["preemptionPolicy"], policy, "{spec}");
    }
    for (spec, error) in [
        (
            r#""priorityClassName":"none""#,
            r#"403 pods "p" is forbidden: no PriorityClass with name none was found"#,
        ),
        (
            r#""priority":7"#,
            r#"403 pods "p" is forbidden: the integer value of priority (7) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name"#,
        ),
    ] {
        assert_eq!(cluster.refused("admin", &dry, &pod(spec)).await, error);
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_class_is_the_default() {
    let cluster = cluster(&[]).await;
    let dry = format!("POST {PODS}?dryRun=All");
    let class = |name: &str, value: i64| {
        format!(r#"{{"metadata":{{"name":"{name}"}},"value":{value},"globalDefault":true}}"#)
    };
    cluster.ok("admin", &format!("POST {CLASSES}"), &class("usual", 5)).await;
    let made = cluster.until_ok(&dry, &pod(""), |made| made["spec"]["priority"] == 5).await;
    assert_eq!(made["spec"]["priorityClassName"], "usual");
    assert_eq!(
        cluster.refused("admin", &format!("POST {CLASSES}"), &class("other", 6)).await,
        r#"403 priorityclasses.scheduling.k8s.io "other" is forbidden: PriorityClass usual is already marked as default. Only one default can exist"#
    );
    let labelled = r#"{"metadata":{"labels":{"a":"b"}}}"#;
    cluster.ok("admin", &format!("PATCH {CLASSES}/usual"), labelled).await;
    cluster.stop().await;
}
