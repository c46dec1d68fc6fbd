//! Changes of objects by mutating policies.

use kevel_test_support::{Cluster, until};
use serde_json::{Value, json};

use super::{MAPS, apply, create, in_force, map, mutating, only, patch, try_out, validating};

fn spec(case: &str, mutations: Value) -> Value {
    json!({"matchConstraints": only(case), "reinvocationPolicy": "Never", "mutations": mutations})
}

/// Policies see the object one after the other, by name; mutations of a policy in order.
#[tokio::test(flavor = "multi_thread")]
async fn each_mutation_sees_what_those_before_it_made() {
    let cluster = Cluster::alone().await;
    let add =
        |letter: &str| apply(&format!("Object{{data: {{'word': object.data.word + '{letter}'}}}}"));
    let replace = "[JSONPatch{op: 'replace', path: '/data/word', value: object.data.word + 'd'}]";
    mutating(&cluster, "b", spec("word", json!([add("c"), patch(replace)]))).await;
    mutating(&cluster, "a", spec("word", json!([add("a"), add("b")]))).await;
    in_force(&cluster).await;
    let (_, answer) = try_out(&cluster, &map("word", json!({"word": "_"}))).await;
    assert_eq!(answer["data"]["word"], "_abcd");
}

/// Fields that a policy sets have no owner, and are set on updates, too.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_stored_is_what_policies_made() {
    let cluster = Cluster::alone().await;
    mutating(
        &cluster,
        "mark",
        spec(
            "mark",
            json!([apply(
                "Object{metadata: Object.metadata{labels: {'marked': request.operation}}}"
            )]),
        ),
    )
    .await;
    in_force(&cluster).await;
    create(&cluster, MAPS, &map("mark", json!({"a": "1"}))).await;
    let path = format!("{MAPS}/mark");
    let stored = cluster.admin.get(&path).await.1;
    assert_eq!(stored["metadata"]["labels"]["marked"], "CREATE");
    assert!(!stored["metadata"]["managedFields"].to_string().contains("marked"));
    for (what, body) in [
        (format!("PATCH {path}"), r#"{"data":{"a":"2"}}"#.to_owned()),
        (format!("PUT {path}"), map("mark", json!({"a": "3"})).to_string()),
    ] {
        let answer = cluster.ok("admin", &what, &body).await;
        assert_eq!(answer["metadata"]["labels"]["marked"], "UPDATE", "{what}");
    }
    let mut applied = map("mark", json!({"a": "4"}));
    applied["apiVersion"] = "v1".into();
    applied["kind"] = "ConfigMap".into();
    let apply = format!("APPLY {path}?fieldManager=me&force=true");
    let answer = cluster.ok("admin", &apply, &applied.to_string()).await;
    assert_eq!(answer["metadata"]["labels"]["marked"], "UPDATE");
    assert!(!answer["metadata"]["managedFields"].to_string().contains("marked"));
}

/// Defaults are filled in after a mutation, rules look at what it made, and validating policies, too.
#[tokio::test(flavor = "multi_thread")]
async fn what_policies_made_is_defaulted_and_judged() {
    let cluster = Cluster::alone().await;
    let rules = |case: &str| {
        json!({
            "resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["deployments"]}],
            "objectSelector": {"matchLabels": {"case": case}},
        })
    };
    let container = |fields: &str| {
        apply(&format!(
            "Object{{spec: Object.spec{{template: Object.spec.template{{spec: Object.spec.template.spec{{\
             containers: [Object.spec.template.spec.containers{{{fields}}}]}}}}}}}}"
        ))
    };
    for (name, mutation) in [
        ("sidecar", container("name: 'side', image: 'side:1'")),
        ("invalid", container("name: 'side', image: 'side:1', imagePullPolicy: 'Sometimes'")),
        ("listening", container("name: 'web', stdin: true")),
    ] {
        let policy = json!({"matchConstraints": rules(name), "reinvocationPolicy": "Never", "mutations": [mutation]});
        mutating(&cluster, name, policy).await;
    }
    let judge = json!({"matchConstraints": rules("listening"), "validations": [{
        "expression": "object.spec.template.spec.containers.all(c, !c.?stdin.orValue(false))",
        "message": "not heard",
    }]});
    validating(&cluster, "judge", judge).await;
    in_force(&cluster).await;
    let deployment = |case: &str| {
        json!({"metadata": {"name": case, "labels": {"case": case}}, "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}},
        }})
    };
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let (_, made) = cluster.admin.post(path, &deployment("sidecar")).await;
    let containers = &made["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers[0]["name"], "web");
    assert_eq!(containers[1]["terminationMessagePath"], "/dev/termination-log");
    let (code, refused) = cluster.admin.post(path, &deployment("invalid")).await;
    assert_eq!(code, 422);
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains(
            "spec.template.spec.containers[1].imagePullPolicy: Unsupported value: \"Sometimes\""
        ),
        "{message}"
    );
    let (code, refused) = cluster.admin.post(path, &deployment("listening")).await;
    assert_eq!((code, refused["message"].as_str().unwrap().ends_with("not heard")), (422, true));
}

/// Custom objects of a kind that has just been defined, in all its versions.
#[tokio::test(flavor = "multi_thread")]
async fn custom_objects_are_changed_in_every_version() {
    let cluster = Cluster::alone().await;
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer", "default": 1, "maximum": 9},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    }}}}});
    let version = |name: &str| json!({"name": name, "served": true, "storage": name == "v1", "schema": schema});
    create(&cluster, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1"), version("v2")]},
    })).await;
    let constraints = json!({"resourceRules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["widgets"]}]});
    let policy = json!({"matchConstraints": constraints, "reinvocationPolicy": "Never", "mutations": [
        apply("Object{spec: Object.spec{tags: ['made-in-' + object.apiVersion.split('/')[1]]}}"),
        patch("has(object.spec.size) && object.spec.size == 5 ? [JSONPatch{op: 'replace', path: '/spec/size', value: 50}] : [JSONPatch{op: 'remove', path: '/spec/size'}]"),
    ]});
    mutating(&cluster, "widgets", policy).await;
    in_force(&cluster).await;
    let widget = |version: &str, size: u32| {
        json!({"apiVersion": format!("example.com/{version}"), "kind": "Widget", "metadata": {"name": "w"},
            "spec": {"size": size, "tags": ["own"]}})
    };
    for version in ["v1", "v2"] {
        let path = format!("/apis/example.com/{version}/namespaces/default/widgets?dryRun=All");
        until(async || cluster.admin.post(&path, &widget(version, 4)).await.0 == 201).await;
        let (_, made) = cluster.admin.post(&path, &widget(version, 4)).await;
        assert_eq!(made["apiVersion"], format!("example.com/{version}"));
        // What a patch removes has its default again.
        assert_eq!(made["spec"], json!({"size": 1, "tags": ["own", "made-in-v1"]}), "{version}");
        let (code, refused) = cluster.admin.post(&path, &widget(version, 5)).await;
        assert_eq!(code, 422, "{refused}");
        assert!(
            refused["message"].as_str().unwrap().contains("spec.size: Invalid value: 50"),
            "{refused}"
        );
    }
}

/// A policy that is about another version of a built-in kind has its say in that version.
#[tokio::test(flavor = "multi_thread")]
async fn policy_mutates_the_version_that_it_matches() {
    let cluster = Cluster::alone().await;
    let constraints = json!({"resourceRules": [{"apiGroups": ["autoscaling"], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["horizontalpodautoscalers"]}]});
    let policy = json!({"matchConstraints": constraints, "reinvocationPolicy": "Never",
        "mutations": [apply("Object{spec: Object.spec{targetCPUUtilizationPercentage: 33}}")]});
    mutating(&cluster, "cpu", policy).await;
    in_force(&cluster).await;
    let autoscaler = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 3,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}});
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let (_, made) = cluster.admin.post(path, &autoscaler).await;
    assert_eq!(
        made["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 33,
        "{made}"
    );
}

/// Mutations are counted, those that fail, too.
#[tokio::test(flavor = "multi_thread")]
async fn mutations_are_counted() {
    let cluster = Cluster::alone().await;
    let mutations = json!([apply("Object{}"), apply("Object{data: {'a': object.data.none}}")]);
    mutating(&cluster, "both", spec("both", mutations)).await;
    in_force(&cluster).await;
    assert_eq!(try_out(&cluster, &map("both", json!({}))).await.0, 403);
    let metrics = cluster.metrics().await;
    for error in ["no_error", "invalid_error"] {
        let labels =
            format!("{{error_type=\"{error}\",policy=\"both\",policy_binding=\"both\"}} 1");
        let line = format!("apiserver_mutating_admission_policy_check_total{labels}");
        assert!(metrics.contains(&line), "{line} in\n{metrics}");
    }
}
