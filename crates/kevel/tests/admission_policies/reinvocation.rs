//! Mutating policies that see what others made of an object after them.

use kevel_test_support::Cluster;
use serde_json::{Value, json};

use super::{apply, in_force, map, mutating, only, try_out};

/// Letter that a policy appends to an object's word with each invocation.
fn append(case: &str, letter: &str, reinvocation: &str) -> Value {
    let mutation = apply(&format!("Object{{data: {{'word': object.data.word + '{letter}'}}}}"));
    json!({"matchConstraints": only(case), "reinvocationPolicy": reinvocation, "mutations": [mutation]})
}

/// Policies run by name, twice at most; who does not want to know does not see the object again.
#[tokio::test(flavor = "multi_thread")]
async fn who_wants_to_know_sees_the_object_once_more() {
    let cluster = Cluster::alone().await;
    for (case, policies) in [
        ("never", [("a", "Never"), ("b", "Never")]),
        ("first", [("a", "IfNeeded"), ("b", "Never")]),
        ("last", [("a", "Never"), ("b", "IfNeeded")]),
        ("both", [("a", "IfNeeded"), ("b", "IfNeeded")]),
    ] {
        for (letter, reinvocation) in policies {
            mutating(&cluster, &format!("{case}-{letter}"), append(case, letter, reinvocation))
                .await;
        }
    }
    // One that is not meant the first time is not asked again: nothing tells it that it should be.
    let mut late = append("late", "a", "IfNeeded");
    late["matchConditions"] =
        json!([{"name": "late", "expression": "object.data.word.endsWith('b')"}]);
    mutating(&cluster, "late-a", late).await;
    mutating(&cluster, "late-b", append("late", "b", "Never")).await;
    in_force(&cluster).await;
    for (case, expected) in
        [("never", "_ab"), ("first", "_aba"), ("last", "_abb"), ("both", "_abab"), ("late", "_b")]
    {
        let (_, answer) = try_out(&cluster, &map(case, json!({"word": "_"}))).await;
        assert_eq!(answer["data"]["word"], expected, "{case}: {answer}");
    }
}

/// In-tree plug-ins see what policies made: of a container that a policy adds, the limits are filled in.
#[tokio::test(flavor = "multi_thread")]
async fn plug_ins_before_policies_see_what_those_made() {
    let cluster = Cluster::alone().await;
    cluster.admin.create("/api/v1/namespaces/default/limitranges", &json!({"metadata": {"name": "limits"},
        "spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}}]}})).await;
    let constraints = json!({"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["pods"]}]});
    mutating(&cluster, "side", json!({"matchConstraints": constraints, "reinvocationPolicy": "Never", "mutations": [
        apply("Object{spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 'side:1'}]}}"),
    ]})).await;
    in_force(&cluster).await;
    let pods = "POST /api/v1/namespaces/default/pods?dryRun=All";
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
            .to_string();
    // The account of pods is made by the server, which takes its time.
    let (_, text) = cluster.until_sent("admin", pods, &pod, |answer| answer.0 == 201).await;
    let made: Value = serde_json::from_str(&text).unwrap();
    let containers = made["spec"]["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 2, "{text}");
    for container in containers {
        assert_eq!(
            container["resources"],
            json!({"limits": {"cpu": "1"}, "requests": {"cpu": "100m"}}),
            "{text}"
        );
    }
}
