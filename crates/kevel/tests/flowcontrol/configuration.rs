//! Objects come into effect, and what the server says and does about them.

use kevel_test_support::{Cluster, until};
use serde_json::{Value, json};

use super::{LEVELS, LimitResponse, SCHEMAS, classified, level, schema, uid, version};

const QUEUES: LimitResponse = LimitResponse::Queue { queues: 16, hand_size: 2, length: 10 };
const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

async fn named(cluster: &Cluster, path: &str, name: &str) -> Value {
    cluster.ok("admin", &format!("GET {path}/{name}"), "").await
}

/// Status, reason and message of a schema's condition.
fn dangling(schema: &Value) -> Option<[String; 3]> {
    let conditions = schema["status"]["conditions"].as_array()?;
    let dangling = conditions.iter().find(|condition| condition["type"] == "Dangling")?;
    Some(["status", "reason", "message"].map(|f| dangling[f].as_str().unwrap().to_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_say_by_uids_how_requests_were_classified() {
    let cluster = Cluster::start(&[]).await;
    for (who, schema, level) in [
        ("admin", "exempt", "exempt"),
        ("jane", "global-default", "global-default"),
        ("node-a", "system-nodes", "system"),
    ] {
        let client = if who == "admin" { cluster.admin.clone() } else { cluster.bearer(who) };
        let expected = (
            uid(&named(&cluster, SCHEMAS, schema).await),
            uid(&named(&cluster, LEVELS, level).await),
        );
        until(async || classified(&version(&client).await) == expected).await;
        // What is not there and what is forbidden was classified, too.
        let answer = client.raw("GET", "/api/v1/namespaces/x/secrets/x", &[], "").await;
        assert_eq!(classified(&answer), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_without_its_level_dangles_and_matches_nothing() {
    let cluster = Cluster::start(&[]).await;
    let jane = cluster.bearer("jane");
    let made = cluster.admin.create(SCHEMAS, &schema("mine", "mine", &["jane"])).await;
    let wanted = |status: &str, reason: &str, said: &str| {
        let message = format!(
            "This FlowSchema references the PriorityLevelConfiguration object named \"mine\" {said}"
        );
        Some([status.to_owned(), reason.to_owned(), message])
    };
    let missing = wanted("True", "NotFound", "but there is no such object");
    let what = format!("GET {SCHEMAS}/mine");
    let said = cluster.until_ok(&what, "", |schema| dangling(schema) == missing).await;
    let managers = said["metadata"]["managedFields"].as_array().unwrap();
    let consumer = "api-priority-and-fairness-config-consumer-v1";
    assert!(managers.iter().any(|m| m["manager"] == consumer && m["subresource"] == "status"));
    assert_ne!(classified(&version(&jane).await).0, uid(&made));

    let level = cluster.admin.create(LEVELS, &level("mine", 1, &QUEUES)).await;
    until(async || classified(&version(&jane).await) == (uid(&made), uid(&level))).await;
    let found = wanted("False", "Found", "and it exists");
    cluster.until_ok(&what, "", |schema| dangling(schema) == found).await;
    // Others are not concerned.
    assert_ne!(classified(&version(&cluster.bearer("joe")).await).0, uid(&made));

    cluster.admin.delete(&format!("{LEVELS}/mine")).await;
    until(async || classified(&version(&jane).await).0 != uid(&made)).await;
    cluster.until_ok(&what, "", |schema| dangling(schema) == missing).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_exempt_level_cannot_be_taken_from_administrators() {
    let cluster = Cluster::start(&[]).await;
    let exempt = uid(&named(&cluster, SCHEMAS, "exempt").await);
    // Precedence 1 is the exempt schema's alone.
    let mut greedy = schema("greedy", "catch-all", &["*"]);
    greedy["spec"]["matchingPrecedence"] = json!(1);
    let refused = cluster.refused("admin", &format!("POST {SCHEMAS}"), &greedy.to_string()).await;
    assert!(refused.contains("only the schema named 'exempt' may have matchingPrecedence 1"));
    // A name before the exempt schema's at the next precedence does not come before it.
    greedy["spec"]["matchingPrecedence"] = json!(2);
    let greedy = cluster.admin.create(SCHEMAS, &greedy).await;
    let jane = cluster.bearer("jane");
    until(async || classified(&version(&jane).await).0 == uid(&greedy)).await;
    assert_eq!(classified(&version(&cluster.admin).await).0, exempt);
    // Without its object it is imagined.
    cluster.admin.delete(&format!("{SCHEMAS}/exempt")).await;
    cluster.admin.delete(&format!("{LEVELS}/exempt")).await;
    until(async || classified(&version(&cluster.admin).await).0 != exempt).await;
    assert_ne!(classified(&version(&cluster.admin).await).0, uid(&greedy));
}

#[tokio::test(flavor = "multi_thread")]
async fn suggested_objects_are_maintained_until_users_take_them_over() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::on(folder, vec!["--storage=embedded".to_owned()]).await;
    let patch = async |cluster: &Cluster, name: &str, patch: Value| {
        cluster.ok("admin", &format!("PATCH {LEVELS}/{name}"), &patch.to_string()).await
    };
    let shares = |level: &Value| level["spec"]["limited"]["nominalConcurrencyShares"].clone();
    let annotation = |level: &Value| level["metadata"]["annotations"][AUTO_UPDATE].clone();
    let changed = json!({"spec": {"limited": {"nominalConcurrencyShares": 77}}});
    // Changed with auto-update on: restored. Changed with it off: the user's. Missing: created again.
    patch(&cluster, "workload-low", changed.clone()).await;
    let mut taken = changed;
    taken["metadata"] = json!({"annotations": {AUTO_UPDATE: "false"}});
    patch(&cluster, "workload-high", taken).await;
    cluster.admin.delete(&format!("{SCHEMAS}/catch-all")).await;

    let cluster = cluster.restart().await;
    until(async || cluster.admin.get(&format!("{SCHEMAS}/catch-all")).await.0 == 200).await;
    let low = named(&cluster, LEVELS, "workload-low").await;
    assert_eq!((shares(&low), annotation(&low)), (json!(100), json!("true")));
    let high = named(&cluster, LEVELS, "workload-high").await;
    assert_eq!((shares(&high), annotation(&high)), (json!(77), json!("false")));
    let made = named(&cluster, SCHEMAS, "catch-all").await;
    assert_eq!(annotation(&made), json!("true"));
    let managers = made["metadata"]["managedFields"].as_array().unwrap();
    let producer = "api-priority-and-fairness-config-producer-v1";
    assert!(managers.iter().any(|m| m["manager"] == producer && m["operation"] == "Update"));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_fairness_requests_are_limited_in_number() {
    let cluster = Cluster::start(&["--enable-priority-and-fairness=false"]).await;
    assert_eq!(classified(&version(&cluster.admin).await), (String::new(), String::new()));
    let path = "GET /debug/api_priority_and_fairness/dump_priority_levels";
    assert_eq!(cluster.send("admin", path, "").await.0, 404);
    let (_, checks) = cluster.send("admin", "GET /livez?verbose", "").await;
    assert!(checks.contains("[+]poststarthook/max-in-flight-filter ok"), "{checks}");
    assert!(!checks.contains("priority-and-fairness-filter"), "{checks}");
    // The objects are there all the same, for servers that heed them.
    assert_eq!(cluster.admin.get(&format!("{LEVELS}/catch-all")).await.0, 200);
}
