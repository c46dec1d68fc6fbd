use serde_json::{Value, json};

use kevel_test_support::Cluster;

const GROUP: &str = "/apis/authorization.k8s.io/v1";

async fn cluster() -> Cluster {
    let cluster = Cluster::start(&[]).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = r#"{"metadata":{"name":"pods"},"rules":[{"verbs":["get","list"],"apiGroups":[""],"resources":["pods"]}]}"#;
    let binding = r#"{"metadata":{"name":"pods"},"subjects":[{"kind":"Group","name":"dev"}],"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"pods"}}"#;
    let namespace = format!("{rbac}/namespaces/default");
    cluster.ok("admin", &format!("POST {namespace}/roles"), role).await;
    cluster.ok("admin", &format!("POST {namespace}/rolebindings"), binding).await;
    // The authorizer has heard of it.
    cluster
        .until_sent("jane", "GET /api/v1/namespaces/default/pods", "", |answer| answer.0 == 200)
        .await;
    cluster
}

fn status(review: &Value) -> Value {
    review["status"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn access_is_reviewed() {
    let cluster = cluster().await;
    let reason = r#"RBAC: allowed by RoleBinding "pods/default" of Role "pods" to Group "dev""#;
    let allowed = json!({"allowed": true, "reason": reason});
    let no = json!({"allowed": false});
    let on_pods = |verb: &str, namespace: &str| json!({"namespace": namespace, "verb": verb, "resource": "pods"});
    let subject = format!("POST {GROUP}/subjectaccessreviews");
    let own = format!("POST {GROUP}/selfsubjectaccessreviews");
    let local = format!("POST {GROUP}/namespaces/default/localsubjectaccessreviews");
    for (who, what, spec, expected) in [
        ("jane", &own, json!({"resourceAttributes": on_pods("get", "default")}), &allowed),
        ("jane", &own, json!({"resourceAttributes": on_pods("get", "other")}), &no),
        ("joe", &own, json!({"resourceAttributes": on_pods("get", "default")}), &no),
        (
            "admin",
            &subject,
            json!({"user": "x", "groups": ["dev"], "resourceAttributes": on_pods("list", "default")}),
            &allowed,
        ),
        (
            "admin",
            &subject,
            json!({"user": "x", "resourceAttributes": on_pods("list", "default")}),
            &no,
        ),
        (
            "admin",
            &subject,
            json!({"user": "x", "groups": ["system:masters"], "nonResourceAttributes": {"path": "/x", "verb": "get"}}),
            &json!({"allowed": true}),
        ),
        (
            "admin",
            &local,
            json!({"groups": ["dev"], "resourceAttributes": on_pods("get", "default")}),
            &allowed,
        ),
        // Requirements that are not understood narrow nothing, and that is told.
        (
            "admin",
            &subject,
            json!({"groups": ["dev"], "resourceAttributes": {"namespace": "default", "verb": "list", "resource": "pods",
                "fieldSelector": {"rawSelector": "x"},
                "labelSelector": {"requirements": [{"key": "a", "operator": "Foo"}, {"key": "b", "operator": "Exists"}]}}}),
            &json!({"allowed": true, "reason": reason, "evaluationError":
                "spec.resourceAttributes.fieldSelector ignored due to parse error; spec.resourceAttributes.labelSelector partially ignored due to parse error"}),
        ),
    ] {
        let review = cluster.ok(who, what, &json!({"spec": spec}).to_string()).await;
        assert_eq!(&status(&review), expected, "{spec}");
        assert_eq!(review["spec"], spec);
    }
    // A user without permission for reviews gets no answer about others.
    let review = json!({"spec": {"user": "x", "resourceAttributes": on_pods("get", "default")}});
    assert_eq!(
        cluster.refused("joe", &subject, &review.to_string()).await,
        r#"403 subjectaccessreviews.authorization.k8s.io is forbidden: User "joe" cannot create resource "subjectaccessreviews" in API group "authorization.k8s.io" at the cluster scope"#
    );
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reviews_that_make_no_sense_are_refused() {
    let cluster = Cluster::start(&[]).await;
    let pods = json!({"namespace": "default", "verb": "get", "resource": "pods"});
    let path = json!({"path": "/x", "verb": "get"});
    let invalid = r#"422 .authorization.k8s.io "" is invalid: "#;
    let selecting = |field: &str, selector: Value| json!({"user": "x", "resourceAttributes": {"verb": "list", field: selector}});
    for (what, review, expected) in [
        (
            "subjectaccessreviews",
            json!({"spec": {"user": "x"}}),
            "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        (
            "subjectaccessreviews",
            json!({"spec": {"user": "x", "resourceAttributes": pods, "nonResourceAttributes": path}}),
            r#"spec.nonResourceAttributes: Invalid value: {"Path":"/x","Verb":"get"}: cannot be specified in combination with resourceAttributes"#,
        ),
        (
            "subjectaccessreviews",
            json!({"spec": {"resourceAttributes": pods}}),
            r#"spec.user: Invalid value: "": at least one of user or group must be specified"#,
        ),
        (
            "namespaces/default/localsubjectaccessreviews",
            json!({"spec": {"user": "x", "resourceAttributes": {"namespace": "other"}}}),
            r#"spec.resourceAttributes.namespace: Invalid value: "other": must match metadata.namespace"#,
        ),
        (
            "namespaces/default/localsubjectaccessreviews",
            json!({"spec": {"user": "x", "nonResourceAttributes": path}}),
            r#"spec.nonResourceAttributes: Invalid value: {"Path":"/x","Verb":"get"}: disallowed on this kind of request"#,
        ),
        (
            "subjectaccessreviews",
            json!({"spec": selecting("fieldSelector", json!({}))}),
            "spec.resourceAttributes.fieldSelector.requirements: Required value: when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required",
        ),
        (
            "subjectaccessreviews",
            json!({"spec": selecting("labelSelector", json!({"rawSelector": "a", "requirements": [{"key": "a", "operator": "Exists"}]}))}),
            r#"spec.resourceAttributes.labelSelector.rawSelector: Invalid value: "a": may not specified at the same time as requirements"#,
        ),
        (
            "subjectaccessreviews",
            json!({"spec": selecting("fieldSelector", json!({"requirements": [{"key": "a", "operator": "In"}]}))}),
            "spec.resourceAttributes.fieldSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
    ] {
        let found =
            cluster.refused("admin", &format!("POST {GROUP}/{what}"), &review.to_string()).await;
        assert_eq!(found, format!("{invalid}{expected}"), "{review}");
    }
    // What the metadata holds is shown, with the time at which it came.
    let named = json!({"metadata": {"name": "a"}, "spec": {"resourceAttributes": pods}});
    let what = format!("POST {GROUP}/selfsubjectaccessreviews");
    let found = cluster.refused("admin", &what, &named.to_string()).await;
    let begin = format!(r#"{invalid}metadata: Invalid value: {{"name":"a""#);
    assert!(found.starts_with(&begin) && found.ends_with("}: must be empty"), "{found}");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_are_reviewed() {
    let cluster = cluster().await;
    let what = format!("POST {GROUP}/selfsubjectrulesreviews");
    let review = cluster.ok("jane", &what, r#"{"spec":{"namespace":"default"}}"#).await;
    let rules = review["status"]["resourceRules"].as_array().unwrap();
    let pods = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]});
    assert!(rules.contains(&pods), "{review}");
    assert_eq!(review["status"]["incomplete"], false);
    let elsewhere = cluster.ok("jane", &what, r#"{"spec":{"namespace":"other"}}"#).await;
    assert!(!elsewhere["status"]["resourceRules"].as_array().unwrap().contains(&pods));
    let refused = cluster.refused("jane", &what, r#"{"spec":{}}"#).await;
    assert_eq!(refused, "400 no namespace on request");
    cluster.stop().await;
}
