//! Parameters of policies: they come, change and go, and so do their kinds.

use kevel_test_support::{Cluster, until};
use serde_json::{Value, json};

use super::{GROUP, MAPS, apply, bound, create, in_force, map, only, try_out};

/// Message for a config map of a case with this number.
async fn said(cluster: &Cluster, case: &str, n: u32) -> String {
    let (code, answer) = try_out(cluster, &map(case, json!({"n": n.to_string()}))).await;
    match code {
        201 => "allowed".to_owned(),
        _ => {
            answer["message"].as_str().unwrap().split("denied request: ").last().unwrap().to_owned()
        }
    }
}

async fn until_said(cluster: &Cluster, case: &str, n: u32, expected: &str) {
    until(async || said(cluster, case, n).await == expected).await;
}

fn at_most(case: &str, kind: Value) -> Value {
    json!({
        "paramKind": kind,
        "matchConstraints": only(case),
        "validations": [{
            "expression": "int(object.data.n) <= int(params.spec.max)",
            "messageExpression": "'at most ' + string(params.spec.max)",
        }],
    })
}

fn bind(reference: Value) -> Value {
    json!({"validationActions": ["Deny"], "paramRef": reference})
}

fn definition(scope: &str, kind: &str) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com",
            "scope": scope,
            "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": {"type": "object", "properties": {"max": {"type": "integer"}}}},
            }}}],
        },
    })
}

async fn define(cluster: &Cluster, scope: &str, kind: &str, objects: &str) {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    create(cluster, definitions, &definition(scope, kind)).await;
    until(async || cluster.admin.get(objects).await.0 == 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_custom_parameter_counts_when_it_comes_changes_and_goes() {
    let cluster = Cluster::alone().await;
    let kind = json!({"apiVersion": "example.com/v1", "kind": "Limit"});
    let reference = json!({"name": "l", "parameterNotFoundAction": "Deny"});
    bound(&cluster, "validating", "limit", at_most("limit", kind.clone()), bind(reference)).await;
    let reference = json!({"name": "l", "parameterNotFoundAction": "Allow"});
    bound(&cluster, "validating", "lenient", at_most("lenient", kind), bind(reference)).await;
    in_force(&cluster).await;

    // There is no such kind yet.
    let unserved = "failed to configure policy: failed to find resource referenced by paramKind: \
                    'example.com/v1, Kind=Limit'";
    assert_eq!(said(&cluster, "limit", 1).await, unserved);
    let limits = "/apis/example.com/v1/namespaces/default/limits";
    define(&cluster, "Namespaced", "Limit", limits).await;

    let missing = "failed to configure binding: no params found for policy binding with `Deny` \
                   parameterNotFoundAction";
    until_said(&cluster, "limit", 1, missing).await;
    assert_eq!(said(&cluster, "lenient", 1).await, "allowed");

    create(
        &cluster,
        limits,
        &json!({"apiVersion": "example.com/v1", "kind": "Limit",
        "metadata": {"name": "l"}, "spec": {"max": 3}}),
    )
    .await;
    until_said(&cluster, "limit", 5, "at most 3").await;
    assert_eq!(said(&cluster, "limit", 2).await, "allowed");
    assert_eq!(said(&cluster, "lenient", 5).await, "at most 3");

    cluster.ok("admin", &format!("PATCH {limits}/l"), r#"{"spec":{"max":7}}"#).await;
    until_said(&cluster, "limit", 5, "allowed").await;
    assert_eq!(said(&cluster, "limit", 8).await, "at most 7");

    cluster.admin.delete(&format!("{limits}/l")).await;
    until_said(&cluster, "limit", 1, missing).await;

    // And so the kind goes.
    cluster
        .admin
        .delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/limits.example.com")
        .await;
    until_said(&cluster, "limit", 1, unserved).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_those_of_the_namespace_or_of_the_cluster() {
    let cluster = Cluster::alone().await;
    define(&cluster, "Cluster", "Wide", "/apis/example.com/v1/wides").await;
    define(&cluster, "Namespaced", "Near", "/apis/example.com/v1/nears").await;
    create(&cluster, "/api/v1/namespaces", &json!({"metadata": {"name": "far"}})).await;
    let object = |kind: &str, max: u32| {
        json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "p", "labels": {"set": "s"}},
            "spec": {"max": max}})
    };
    create(&cluster, "/apis/example.com/v1/wides", &object("Wide", 2)).await;
    create(&cluster, "/apis/example.com/v1/namespaces/default/nears", &object("Near", 3)).await;
    create(&cluster, "/apis/example.com/v1/namespaces/far/nears", &object("Near", 4)).await;
    let deny = |fields: Value| {
        let mut reference = json!({"parameterNotFoundAction": "Deny"});
        let fields = fields.as_object().unwrap().clone();
        reference.as_object_mut().unwrap().extend(fields);
        reference
    };
    let kind = |kind: &str| json!({"apiVersion": "example.com/v1", "kind": kind});
    for (case, of, reference) in [
        ("wide", "Wide", json!({"name": "p"})),
        ("wide-selected", "Wide", json!({"selector": {"matchLabels": {"set": "s"}}})),
        ("here", "Near", json!({"name": "p"})),
        ("there", "Near", json!({"name": "p", "namespace": "far"})),
        (
            "there-selected",
            "Near",
            json!({"namespace": "far", "selector": {"matchLabels": {"set": "s"}}}),
        ),
        ("all-here", "Near", json!({"selector": {}})),
        ("none-here", "Near", json!({"selector": {"matchLabels": {"set": "t"}}})),
        ("wide-in", "Wide", json!({"name": "p", "namespace": "far"})),
    ] {
        let binding = bind(deny(reference));
        bound(&cluster, "validating", case, at_most(case, kind(of)), binding).await;
    }
    in_force(&cluster).await;
    for (case, expected) in [
        ("wide", "at most 2"),
        ("wide-selected", "at most 2"),
        ("here", "at most 3"),
        ("there", "at most 4"),
        ("there-selected", "at most 4"),
        ("all-here", "at most 3"),
        (
            "none-here",
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
        ),
        (
            "wide-in",
            "failed to configure binding: paramRef.namespace must not be provided for a cluster-scoped `paramKind`",
        ),
    ] {
        assert_eq!(said(&cluster, case, 9).await, expected, "{case}");
    }
    // The same policy in another namespace has that one's parameters.
    let far = "/api/v1/namespaces/far/configmaps?dryRun=All";
    let (_, answer) = cluster.admin.post(far, &map("here", json!({"n": "9"}))).await;
    assert!(answer["message"].as_str().unwrap().ends_with("at most 4"), "{answer}");
}

/// Every parameter of a binding is asked, and every binding of a policy.
#[tokio::test(flavor = "multi_thread")]
async fn all_parameters_and_all_bindings_count() {
    let cluster = Cluster::alone().await;
    for (name, word) in [("w1", "fire"), ("w2", "water"), ("w3", "air")] {
        let param =
            json!({"metadata": {"name": name, "labels": {"words": "yes"}}, "data": {"word": word}});
        create(&cluster, MAPS, &param).await;
    }
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": only("words"),
        "validations": [{"expression": "object.data.text != params.data.word",
            "messageExpression": "'not ' + params.data.word"}],
    });
    let selected =
        json!({"selector": {"matchLabels": {"words": "yes"}}, "parameterNotFoundAction": "Deny"});
    bound(&cluster, "validating", "words", spec, bind(selected)).await;
    let one = json!({"metadata": {"name": "extra"}, "spec": {"policyName": "words", "validationActions": ["Warn"],
        "paramRef": {"name": "w3", "parameterNotFoundAction": "Deny"}}});
    create(&cluster, &format!("{GROUP}/validatingadmissionpolicybindings"), &one).await;
    in_force(&cluster).await;
    for (text, expected) in [
        (
            "fire",
            Err("ValidatingAdmissionPolicy 'words' with binding 'words' denied request: not fire"),
        ),
        (
            "water",
            Err("ValidatingAdmissionPolicy 'words' with binding 'words' denied request: not water"),
        ),
        (
            "air",
            Err("ValidatingAdmissionPolicy 'words' with binding 'words' denied request: not air"),
        ),
        ("earth", Ok(())),
    ] {
        let (code, answer) = try_out(&cluster, &map("words", json!({"text": text}))).await;
        match expected {
            Ok(()) => assert_eq!(code, 201, "{answer}"),
            Err(message) => {
                assert!(answer["message"].as_str().unwrap().ends_with(message), "{answer}")
            }
        }
    }
}

/// The parameters of mutating policies, each of which changes the object.
#[tokio::test(flavor = "multi_thread")]
async fn a_mutation_is_made_for_every_parameter() {
    let cluster = Cluster::alone().await;
    for name in ["p1", "p2"] {
        let param =
            json!({"metadata": {"name": name, "labels": {"params": "yes"}}, "data": {"v": name}});
        create(&cluster, MAPS, &param).await;
    }
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": only("each"),
        "reinvocationPolicy": "Never",
        "mutations": [apply("Object{data: {params.metadata.name: string(size(object.data)) + params.data.v}}")],
    });
    let selected =
        json!({"selector": {"matchLabels": {"params": "yes"}}, "parameterNotFoundAction": "Deny"});
    bound(&cluster, "mutating", "each", spec, json!({"paramRef": selected})).await;
    in_force(&cluster).await;
    let (_, answer) = try_out(&cluster, &map("each", json!({"a": "b"}))).await;
    assert_eq!(answer["data"], json!({"a": "b", "p1": "1p1", "p2": "2p2"}));
}
