//! Policies that are there to cost time and memory.

use std::time::Duration;

use kevel_test_support::Cluster;
use serde_json::{Value, json};

use super::{MAPS, apply, in_force, map, mutating, only, patch, try_out, validating};

/// No request takes this long in a debug build, whatever is asked of it.
const LIMIT: Duration = Duration::from_secs(30);

/// Response to the dry run of a creation, which must not take forever.
async fn answer(cluster: &Cluster, object: &Value) -> (u16, String) {
    let began = kevel_clock::monotonic_now();
    let (code, answer) = try_out(cluster, object).await;
    assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
    (code, answer["message"].as_str().unwrap_or_default().to_owned())
}

/// Parts that are shared in an expression would fill any memory in an object.
#[tokio::test(flavor = "multi_thread")]
async fn what_grows_without_end_is_refused() {
    let cluster = Cluster::alone().await;
    let doubled = |of: &str| {
        let mut variables = vec![json!({"name": "v0", "expression": of})];
        for i in 1..40 {
            let before = i - 1;
            let expression = format!("[variables.v{before}, variables.v{before}]");
            variables.push(json!({"name": format!("v{i}"), "expression": expression}));
        }
        variables
    };
    let policy = |case: &str, mutation: Value| {
        json!({"matchConstraints": only(case), "reinvocationPolicy": "Never", "mutations": [mutation],
            "variables": doubled("'a'")})
    };
    let grown = "[JSONPatch{op: 'add', path: '/data/x', value: variables.v39}]";
    mutating(&cluster, "patch", policy("patch", patch(grown))).await;
    mutating(&cluster, "apply", policy("apply", apply("Object{data: variables.v39}"))).await;
    let long = "object.data.long + object.data.long";
    let mut text =
        policy("text", patch("[JSONPatch{op: 'add', path: '/data/x', value: [variables.v9]}]"));
    text["variables"] = json!(doubled(long));
    mutating(&cluster, "text", text).await;
    in_force(&cluster).await;
    for (case, expected) in [
        ("patch", "the patch has too many values"),
        ("apply", "the patch has too many values"),
        ("text", "the patch has too much text"),
    ] {
        let (code, message) =
            answer(&cluster, &map(case, json!({"long": "l".repeat(10_000)}))).await;
        assert_eq!(code, 403, "{case}");
        assert!(message.contains(expected), "{case}: {message}");
    }
    assert_eq!(answer(&cluster, &map("other", json!({}))).await.0, 201);
}

/// A chain of variables is followed without running out of stack, and not further than that is so.
#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_nested_variables_are_bounded_in_cost() {
    let cluster = Cluster::alone().await;
    for (name, count) in [("short", 800), ("long", 3_000)] {
        let mut variables = vec![json!({"name": "v0", "expression": "[0]"})];
        for i in 1..count {
            let expression = format!("[variables.v{}]", i - 1);
            variables.push(json!({"name": format!("v{i}"), "expression": expression}));
        }
        let last = format!("size(variables.v{}) == 1", count - 1);
        let spec = json!({"matchConstraints": only(name), "variables": variables,
            "validations": [{"expression": last}]});
        validating(&cluster, name, spec).await;
    }
    in_force(&cluster).await;
    let (code, message) = answer(&cluster, &map("short", json!({}))).await;
    assert_eq!(code, 201, "{message}");
    let (code, message) = answer(&cluster, &map("long", json!({}))).await;
    assert_eq!(code, 422);
    assert!(message.ends_with("expression recursion limit exceeded: 2500"), "{message}");
}

/// Many dear policies at once: each costs no more than it may, others are served meanwhile, and a request that takes
/// too long ends at its deadline.
#[tokio::test(flavor = "multi_thread")]
async fn dear_policies_do_not_hold_up_others() {
    let cluster = Cluster::start(&["--request-timeout=3s"]).await;
    let dear = "object.data.t.split('').all(a, object.data.t.split('').all(b, a == b))";
    for i in 0..20 {
        let validations: Vec<Value> = (0..50).map(|_| json!({"expression": dear})).collect();
        let spec = json!({"matchConstraints": only("dear"), "failurePolicy": "Ignore", "validations": validations});
        validating(&cluster, &format!("dear-{i}"), spec).await;
    }
    in_force(&cluster).await;
    let object = map("dear", json!({"t": "a".repeat(300)})).to_string();
    let post = format!("POST {MAPS}?dryRun=All");
    let slow = cluster.send("admin", &post, &object);
    let others = async {
        for _ in 0..20 {
            let began = kevel_clock::monotonic_now();
            assert_eq!(cluster.admin.get("/livez").await.0, 200);
            assert!(began.elapsed() < LIMIT / 3);
        }
    };
    let began = kevel_clock::monotonic_now();
    let ((code, text), ()) = futures_util::future::join(slow, others).await;
    assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
    // All of them within the time, or none of them: what is not judged is not stored.
    assert!(code == 201 || code == 504, "{code} {text}");
}
