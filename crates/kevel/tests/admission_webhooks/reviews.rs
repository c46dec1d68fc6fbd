//! AdmissionReviews of every kind of write.

use serde_json::{Value, json};

use crate::{CONFIG_MAPS, Hooked, Kind, allow, config_map};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Webhooks of both kinds that are asked about everything, and consent.
async fn everything() -> Hooked {
    let hooked = Hooked::start(&[]).await;
    let rules = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"],
        "resources": ["*/*"]}]);
    for (kind, path) in [(Kind::Mutating, "/mutate"), (Kind::Validating, "/validate")] {
        hooked.hooks.on(path, |_| allow());
        let webhook = hooked.webhook(path, json!({
            "rules": rules,
            // The server's own writes are not the test's.
            "matchConditions": [{"name": "admin", "expression": "request.userInfo.username == 'kubernetes-admin' || request.userInfo.username == 'jane'"}],
        }));
        hooked.configure(kind, path.trim_matches('/'), &[webhook]).await;
    }
    hooked
}

/// Summary of a request in a line: operation, kind, resource, subresource, name, and options.
fn summary(request: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names = |value: &Value, last: &str| {
        let (group, version) = (text(&value["group"]), text(&value["version"]));
        let group = if group.is_empty() { version } else { format!("{group}/{version}") };
        format!("{group} {}", text(&value[last]))
    };
    let kind = |object: &Value| match object {
        Value::Null => "-".to_owned(),
        object => format!("{}:{}", text(&object["apiVersion"]), text(&object["kind"])),
    };
    let sub = text(&request["subResource"]);
    assert_eq!(sub, text(&request["requestSubResource"]));
    assert_eq!(request["kind"], request["requestKind"]);
    assert_eq!(request["resource"], request["requestResource"]);
    format!(
        "{} {} at {}{} {}/{} object {} old {} options {}",
        text(&request["operation"]),
        names(&request["kind"], "kind"),
        names(&request["resource"], "resource"),
        if sub.is_empty() { sub } else { format!("/{sub}") },
        text(&request["namespace"]),
        text(&request["name"]),
        kind(&request["object"]),
        kind(&request["oldObject"]),
        text(&request["options"]["kind"]),
    )
}

impl Hooked {
    /// Does something and says what the mutating and the validating webhook were told, which must be the same.
    async fn told(&self, what: &str, body: &str) -> Vec<String> {
        self.settled(what).await;
        self.hooks.forget();
        let (code, text) = self.cluster.send("admin", what, body).await;
        assert!((200..300).contains(&code), "{what}: {text}");
        let told = |path| self.hooks.requests(path).iter().map(summary).collect::<Vec<_>>();
        let (mutating, validating) = (told("/mutate"), told("/validate"));
        assert_eq!(mutating, validating, "{what}");
        mutating
    }

    /// Waits until the last write of what is changed has reached the cache: a change of something older is tried
    /// again, and told of again.
    async fn settled(&self, what: &str) {
        let Some((verb, path)) = what.split_once(' ') else { return };
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let of_one = ["PATCH", "PUT", "APPLY"].contains(&verb);
        if !of_one && (verb != "DELETE" || query.contains("Selector")) {
            return;
        }
        let path = ["/status", "/scale", "/ephemeralcontainers"]
            .iter()
            .fold(path, |path, sub| path.strip_suffix(sub).unwrap_or(path));
        let (code, stored) = self.cluster.send("admin", &format!("GET {path}"), "").await;
        if code == 200 {
            let cached = format!("GET {path}?resourceVersion=0");
            self.cluster.until(&cached, |answer| answer.1 == stored).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_write_is_told_of() {
    let hooked = everything().await;
    let container = json!([{"name": "c", "image": "i"}]);
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": container}});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 1,
        "selector": {"matchLabels": {"a": "b"}}, "template": template}})
    .to_string();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": container}}).to_string();
    let binding =
        json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}).to_string();
    let scale = json!({"metadata": {"name": "d", "namespace": "default"}, "spec": {"replicas": 3}})
        .to_string();
    let review =
        json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}).to_string();
    let crd = json!({"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com",
        "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}}]}}).to_string();
    hooked
        .cluster
        .ok(
            "admin",
            "POST /api/v1/namespaces/default/serviceaccounts",
            r#"{"metadata":{"name":"default"}}"#,
        )
        .await;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    for (what, body, expected) in [
        (format!("POST {CONFIG_MAPS}"), config_map("o"), vec!["CREATE v1 ConfigMap at v1 configmaps default/o object v1:ConfigMap old - options CreateOptions"]),
        (format!("POST {CONFIG_MAPS}"), r#"{"metadata":{"generateName":"g-"}}"#.into(), vec!["CREATE v1 ConfigMap at v1 configmaps default/ object v1:ConfigMap old - options CreateOptions"]),
        (format!("PUT {CONFIG_MAPS}/o"), config_map("o"), vec!["UPDATE v1 ConfigMap at v1 configmaps default/o object v1:ConfigMap old v1:ConfigMap options UpdateOptions"]),
        (format!("PATCH {CONFIG_MAPS}/o"), r#"{"data":{"b":"2"}}"#.into(), vec!["UPDATE v1 ConfigMap at v1 configmaps default/o object v1:ConfigMap old v1:ConfigMap options UpdateOptions"]),
        (format!("APPLY {CONFIG_MAPS}/o?fieldManager=m"), "{apiVersion: v1, kind: ConfigMap, metadata: {name: o}}".into(), vec!["UPDATE v1 ConfigMap at v1 configmaps default/o object v1:ConfigMap old v1:ConfigMap options UpdateOptions"]),
        (format!("APPLY {CONFIG_MAPS}/new?fieldManager=m"), "{apiVersion: v1, kind: ConfigMap, metadata: {name: new}}".into(), vec!["CREATE v1 ConfigMap at v1 configmaps default/new object v1:ConfigMap old - options CreateOptions"]),
        (format!("DELETE {CONFIG_MAPS}/o"), String::new(), vec!["DELETE v1 ConfigMap at v1 configmaps default/o object - old v1:ConfigMap options DeleteOptions"]),
        (format!("DELETE {CONFIG_MAPS}?fieldSelector=metadata.name%3Dnew"), String::new(), vec!["DELETE v1 ConfigMap at v1 configmaps default/ object - old v1:ConfigMap options DeleteOptions"]),
        ("PUT /api/v1/namespaces/default/endpoints/e".into(), r#"{"metadata":{"name":"e"}}"#.into(), vec!["CREATE v1 Endpoints at v1 endpoints default/e object v1:Endpoints old - options CreateOptions"]),
        ("POST /api/v1/namespaces".into(), r#"{"metadata":{"name":"ns"}}"#.into(), vec!["CREATE v1 Namespace at v1 namespaces ns/ns object v1:Namespace old - options CreateOptions"]),
        ("PATCH /api/v1/namespaces/ns".into(), r#"{"metadata":{"labels":{"x":"y"}}}"#.into(), vec!["UPDATE v1 Namespace at v1 namespaces ns/ns object v1:Namespace old v1:Namespace options UpdateOptions"]),
        ("PATCH /api/v1/namespaces/ns/status".into(), r#"{"status":{"phase":"Active"}}"#.into(), vec!["UPDATE v1 Namespace at v1 namespaces/status ns/ns object v1:Namespace old v1:Namespace options UpdateOptions"]),
        ("DELETE /api/v1/namespaces/ns".into(), String::new(), vec!["DELETE v1 Namespace at v1 namespaces ns/ns object - old v1:Namespace options DeleteOptions"]),
        // It is going already.
        ("DELETE /api/v1/namespaces/ns".into(), String::new(), vec![]),
        ("POST /api/v1/nodes".into(), r#"{"metadata":{"name":"n"}}"#.into(), vec!["CREATE v1 Node at v1 nodes /n object v1:Node old - options CreateOptions"]),
        ("PATCH /api/v1/nodes/n/status".into(), r#"{"status":{"phase":"x"}}"#.into(), vec!["UPDATE v1 Node at v1 nodes/status /n object v1:Node old v1:Node options UpdateOptions"]),
        (format!("POST {DEPLOYMENTS}"), deployment, vec!["CREATE apps/v1 Deployment at apps/v1 deployments default/d object apps/v1:Deployment old - options CreateOptions"]),
        (format!("PUT {DEPLOYMENTS}/d/scale"), scale, vec!["UPDATE autoscaling/v1 Scale at apps/v1 deployments/scale default/d object autoscaling/v1:Scale old autoscaling/v1:Scale options UpdateOptions"]),
        (format!("PATCH {DEPLOYMENTS}/d/scale"), r#"{"spec":{"replicas":2}}"#.into(), vec!["UPDATE autoscaling/v1 Scale at apps/v1 deployments/scale default/d object autoscaling/v1:Scale old autoscaling/v1:Scale options UpdateOptions"]),
        (format!("PATCH {DEPLOYMENTS}/d/status"), r#"{"status":{"replicas":2}}"#.into(), vec!["UPDATE apps/v1 Deployment at apps/v1 deployments/status default/d object apps/v1:Deployment old apps/v1:Deployment options UpdateOptions"]),
        (format!("POST {PODS}"), pod, vec!["CREATE v1 Pod at v1 pods default/p object v1:Pod old - options CreateOptions"]),
        (format!("POST {PODS}/p/binding"), binding, vec!["CREATE v1 Binding at v1 pods/binding default/p object v1:Binding old - options CreateOptions"]),
        (format!("PATCH {PODS}/p/ephemeralcontainers"), r#"{"spec":{"ephemeralContainers":[{"name":"e","image":"i"}]}}"#.into(), vec!["UPDATE v1 Pod at v1 pods/ephemeralcontainers default/p object v1:Pod old v1:Pod options UpdateOptions"]),
        // The deletion that comes of it is not told of.
        (format!("POST {PODS}/p/eviction"), r#"{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}"#.into(), vec!["CREATE policy/v1 Eviction at v1 pods/eviction default/p object policy/v1:Eviction old - options CreateOptions"]),
        ("POST /api/v1/namespaces/default/serviceaccounts/default/token".into(), "{}".into(), vec!["CREATE authentication.k8s.io/v1 TokenRequest at v1 serviceaccounts/token default/default object authentication.k8s.io/v1:TokenRequest old - options CreateOptions"]),
        ("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews".into(), review, vec!["CREATE authorization.k8s.io/v1 SelfSubjectAccessReview at authorization.k8s.io/v1 selfsubjectaccessreviews / object authorization.k8s.io/v1:SelfSubjectAccessReview old - options CreateOptions"]),
        ("POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions".into(), crd, vec!["CREATE apiextensions.k8s.io/v1 CustomResourceDefinition at apiextensions.k8s.io/v1 customresourcedefinitions /widgets.example.com object apiextensions.k8s.io/v1:CustomResourceDefinition old - options CreateOptions"]),
        (format!("POST {widgets}"), r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"replicas":1}}"#.into(), vec!["CREATE example.com/v1 Widget at example.com/v1 widgets default/w object example.com/v1:Widget old - options CreateOptions"]),
        (format!("PATCH {widgets}/w/status"), r#"{"status":{"x":1}}"#.into(), vec!["UPDATE example.com/v1 Widget at example.com/v1 widgets/status default/w object example.com/v1:Widget old example.com/v1:Widget options UpdateOptions"]),
        (format!("PATCH {widgets}/w/scale"), r#"{"spec":{"replicas":2}}"#.into(), vec!["UPDATE autoscaling/v1 Scale at example.com/v1 widgets/scale default/w object autoscaling/v1:Scale old autoscaling/v1:Scale options UpdateOptions"]),
        (format!("DELETE {widgets}/w"), String::new(), vec!["DELETE example.com/v1 Widget at example.com/v1 widgets default/w object - old example.com/v1:Widget options DeleteOptions"]),
        // Webhook configurations are not sent to webhooks.
        ("PATCH /apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/validate".into(), r#"{"metadata":{"labels":{"x":"y"}}}"#.into(), vec![]),
    ] {
        if what == format!("POST {widgets}") {
            hooked.cluster.until(&format!("GET {widgets}"), |answer| answer.0 == 200).await;
        }
        if what.starts_with("DELETE") && what.ends_with("namespaces/ns") {
            // Who watches namespaces may not know of it yet.
            hooked.cluster.until("GET /api/v1/namespaces/ns", |answer| answer.0 == 200).await;
        }
        let told = match (what.as_str(), what.contains("generateName") || body.contains("generateName")) {
            (_, true) => {
                // Its name is made up in between.
                hooked.hooks.forget();
                hooked.cluster.ok("admin", &what, &body).await;
                let validated = &hooked.hooks.requests("/validate")[0];
                assert_eq!(validated["name"], validated["object"]["metadata"]["name"]);
                hooked.hooks.requests("/mutate").iter().map(summary).collect()
            }
            _ => hooked.told(&what, &body).await,
        };
        assert_eq!(told, expected, "{what}");
    }
    hooked.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_review_says_all_that_the_reference_says() {
    let hooked = everything().await;
    let post =
        format!("POST {CONFIG_MAPS}?fieldManager=me&fieldValidation=Strict&dryRun=All&timeout=20s");
    hooked.cluster.ok("admin", &post, &config_map("o")).await;
    let received = &hooked.hooks.received("/mutate")[0];
    assert_eq!(received.query, "timeout=10s");
    assert_eq!(received.headers["user-agent"], "kube-apiserver-admission");
    assert_eq!(received.headers["content-type"], "application/json");
    let mut review = received.review.clone();
    let request = &mut review["request"];
    assert_eq!(request["uid"].as_str().unwrap().len(), 36);
    request["uid"] = Value::Null;
    request["object"]["metadata"]["managedFields"] = Value::Null;
    assert_eq!(
        review,
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
            "uid": null,
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "resource": {"group": "", "version": "v1", "resource": "configmaps"},
            "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
            "name": "o",
            "namespace": "default",
            "operation": "CREATE",
            "userInfo": request_user(&hooked),
            "object": {"kind": "ConfigMap", "apiVersion": "v1",
                "metadata": {"name": "o", "namespace": "default", "managedFields": null},
                "data": {"a": "1"}},
            "oldObject": null,
            "dryRun": true,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"],
                "fieldManager": "me", "fieldValidation": "Strict"},
        }})
    );
    // Who judges sees it with all that is stored.
    let validated = &hooked.hooks.requests("/validate")[0]["object"]["metadata"];
    assert!(validated["uid"].is_string() && validated["creationTimestamp"].is_string());
    // The name of a namespace goes with what is below it, options of deletions as they are meant.
    hooked.cluster.ok("admin", "POST /api/v1/namespaces", r#"{"metadata":{"name":"ns"}}"#).await;
    hooked.hooks.forget();
    hooked
        .cluster
        .ok("admin", "DELETE /api/v1/namespaces/ns?propagationPolicy=Background", "")
        .await;
    let request = &hooked.hooks.requests("/mutate")[0];
    let uid = request["oldObject"]["metadata"]["uid"].clone();
    assert_eq!(
        request["options"],
        json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1",
        "preconditions": {"uid": uid}, "propagationPolicy": "Background"})
    );
    hooked.stop().await;
}

fn request_user(hooked: &Hooked) -> Value {
    hooked.hooks.requests("/mutate")[0]["userInfo"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_old_reviews_are_spoken_too() {
    let hooked = Hooked::start(&[]).await;
    // Neither the uid nor the kind of the answer was ever looked at.
    hooked.hooks.on("/old", |_| {
        let patch = crate::base64(r#"[{"op":"add","path":"/data/b","value":"2"}]"#);
        let response = json!({"response": {"uid": "any", "allowed": true, "patch": patch}});
        crate::Answer::Raw(200, Vec::new(), response.to_string().into_bytes())
    });
    let fields = json!({"admissionReviewVersions": ["v9", "v1beta1", "v1"]});
    hooked.configure(Kind::Mutating, "old", &[hooked.webhook("/old", fields)]).await;
    let made = hooked.cluster.ok("admin", &format!("POST {CONFIG_MAPS}"), &config_map("o")).await;
    assert_eq!(made["data"], json!({"a": "1", "b": "2"}));
    let review = &hooked.hooks.received("/old")[0].review;
    assert_eq!(review["apiVersion"], "admission.k8s.io/v1beta1");
    let fields = json!({"admissionReviewVersions": ["v9"]});
    let webhook = hooked.webhook("/unknown", fields);
    let refused = hooked
        .cluster
        .refused(
            "admin",
            "POST /apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
            &json!({"metadata": {"name": "unknown"}, "webhooks": [webhook]}).to_string(),
        )
        .await;
    assert!(refused.contains("must include at least one of v1, v1beta1"), "{refused}");
    hooked.stop().await;
}
