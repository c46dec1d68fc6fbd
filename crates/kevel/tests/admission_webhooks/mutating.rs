//! Webhooks that change what is written.

use serde_json::{Value, json};

use crate::{CONFIG_MAPS, Hooked, Kind, allow, config_map, patch};

/// A patch that appends a word to what says who was there.
fn visit(word: &'static str) -> impl Fn(&Value) -> crate::Answer + Send + Sync + 'static {
    move |review| {
        let seen = review["request"]["object"]["data"]["seen"].as_str().unwrap_or_default();
        let seen = format!("{seen}{word}");
        patch(json!([{"op": "add", "path": "/data/seen", "value": seen}]))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mutating_webhooks_run_in_order_and_are_reinvoked() {
    let hooked = Hooked::start(&[]).await;
    for (path, word) in [("/a", "a"), ("/b", "b"), ("/c", "c"), ("/d", "d")] {
        hooked.hooks.on(path, visit(word));
    }
    hooked.hooks.on("/quiet", |_| allow());
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    let webhook = |path, fields: &Value| hooked.webhook(path, fields.clone());
    let never = json!({});
    // By the names of the configurations, then in their order.
    hooked.configure(Kind::Mutating, "z", &[webhook("/c", &again), webhook("/d", &never)]).await;
    hooked
        .configure(
            Kind::Mutating,
            "m",
            &[webhook("/a", &again), webhook("/b", &never), webhook("/quiet", &again)],
        )
        .await;
    let made = hooked.cluster.ok("admin", &format!("POST {CONFIG_MAPS}"), &config_map("o")).await;
    // `a` has not seen the changes of `b`, `c` and `d`, `c` not that of `d`: a webhook that changes the object causes
    // one reinvocation of those before it.
    assert_eq!(made["data"]["seen"], "abcdac");
    assert_eq!(hooked.hooks.requests("/quiet").len(), 2);
    hooked.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plug_ins_see_what_webhooks_changed() {
    let hooked = Hooked::start(&[]).await;
    hooked
        .cluster
        .ok(
            "admin",
            "POST /api/v1/namespaces/default/serviceaccounts",
            r#"{"metadata":{"name":"default"}}"#,
        )
        .await;
    hooked
        .cluster
        .ok(
            "admin",
            "POST /apis/scheduling.k8s.io/v1/priorityclasses",
            r#"{"metadata":{"name":"high"},"value":1000}"#,
        )
        .await;
    // A container without its defaults, and a class whose number another plug-in fills in.
    hooked.hooks.on("/sidecar", |_| {
        patch(json!([
            {"op": "add", "path": "/spec/containers/-", "value": {"name": "sidecar", "image": "proxy"}},
            {"op": "remove", "path": "/spec/priority"},
            {"op": "add", "path": "/spec/priorityClassName", "value": "high"},
        ]))
    });
    let rules = json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]);
    hooked
        .configure(
            Kind::Mutating,
            "sidecar",
            &[hooked.webhook("/sidecar", json!({"rules": rules}))],
        )
        .await;
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made =
        hooked.cluster.ok("admin", "POST /api/v1/namespaces/default/pods", &pod.to_string()).await;
    assert_eq!(made["spec"]["priority"], 1000);
    let sidecar = &made["spec"]["containers"][1];
    assert_eq!(sidecar["imagePullPolicy"], "Always");
    assert_eq!(sidecar["terminationMessagePath"], "/dev/termination-log");
    // The account's volume came with the second round.
    assert!(sidecar["volumeMounts"].is_array(), "{sidecar}");
    assert_eq!(hooked.hooks.requests("/sidecar").len(), 1);
    hooked.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn they_may_change_no_more_than_their_client() {
    let hooked = Hooked::start(&[]).await;
    hooked.hooks.on("/greedy", |review| {
        let uid = match review["request"]["operation"].as_str() {
            Some("CREATE") => json!("mine"),
            _ => review["request"]["oldObject"]["metadata"]["uid"].clone(),
        };
        patch(json!([
            {"op": "add", "path": "/metadata/uid", "value": uid},
            {"op": "add", "path": "/metadata/creationTimestamp", "value": "2001-01-01T00:00:00Z"},
            {"op": "add", "path": "/metadata/generation", "value": 7},
            {"op": "add", "path": "/status", "value": {"replicas": 9}},
            {"op": "add", "path": "/metadata/managedFields", "value": [{"operation": "Conquest"}]},
        ]))
    });
    let rules = json!([{"operations": ["CREATE", "UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}]);
    hooked
        .configure(Kind::Mutating, "greedy", &[hooked.webhook("/greedy", json!({"rules": rules}))])
        .await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let (warnings, made) =
        hooked.cluster.warned("admin", &format!("POST {path}"), &deployment.to_string()).await;
    assert_ne!(made["metadata"]["uid"], "mine");
    assert_ne!(made["metadata"]["creationTimestamp"], "2001-01-01T00:00:00Z");
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["status"], json!({}));
    assert_eq!(made["metadata"]["managedFields"][0]["operation"], "Update");
    let warning = "299 - \".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: operation must be `Apply` or `Update`\"";
    assert_eq!(warnings, [warning]);
    let (_, changed) =
        hooked.cluster.warned("admin", &format!("PUT {path}/d"), &deployment.to_string()).await;
    for field in ["creationTimestamp", "generation", "managedFields"] {
        assert_eq!(changed["metadata"][field], made["metadata"][field], "{field}");
    }
    assert_eq!(changed["status"], json!({}));
    hooked.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_gets_the_object_in_its_rule_s_version() {
    let hooked = Hooked::start(&[]).await;
    hooked.hooks.on("/v2", |review| {
        let metrics = &review["request"]["object"]["spec"]["metrics"];
        assert_eq!(metrics[0]["resource"]["target"]["averageUtilization"], 50, "{review}");
        patch(json!([{"op": "add", "path": "/spec/metrics/0/resource/target/averageUtilization", "value": 60}]))
    });
    hooked.hooks.on("/v1", |review| {
        assert_eq!(
            review["request"]["object"]["spec"]["targetCPUUtilizationPercentage"], 60,
            "{review}"
        );
        allow()
    });
    let rules = |version: &str| json!([{"operations": ["CREATE"], "apiGroups": ["autoscaling"], "apiVersions": [version], "resources": ["horizontalpodautoscalers"]}]);
    let webhooks = [
        hooked.webhook("/v2", json!({"rules": rules("v2")})),
        hooked.webhook("/v1", json!({"rules": rules("v1")})),
        hooked.webhook("/exact", json!({"rules": rules("v2"), "matchPolicy": "Exact"})),
    ];
    hooked.configure(Kind::Mutating, "versions", &webhooks).await;
    hooked
        .configure(
            Kind::Validating,
            "versions-too",
            &[hooked.webhook("/validate-v2", json!({"rules": rules("v2")}))],
        )
        .await;
    hooked.hooks.on("/validate-v2", |_| allow());
    let path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let object = json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 2, "targetCPUUtilizationPercentage": 50,
        "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}}});
    let made = hooked.cluster.ok("admin", &format!("POST {path}"), &object.to_string()).await;
    assert_eq!(made["apiVersion"], "autoscaling/v1");
    assert_eq!(made["spec"]["targetCPUUtilizationPercentage"], 60);
    let request = &hooked.hooks.requests("/v2")[0];
    assert_eq!(
        request["kind"],
        json!({"group": "autoscaling", "version": "v2", "kind": "HorizontalPodAutoscaler"})
    );
    assert_eq!(request["resource"]["version"], "v2");
    assert_eq!(request["requestKind"]["version"], "v1");
    assert_eq!(request["requestResource"]["version"], "v1");
    assert_eq!(request["object"]["apiVersion"], "autoscaling/v2");
    let validated = &hooked.hooks.requests("/validate-v2")[0]["object"];
    assert_eq!(validated["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 60);
    hooked.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_cannot_be_changed() {
    let hooked = Hooked::start(&[]).await;
    hooked.cluster.ok("admin", &format!("POST {CONFIG_MAPS}"), &config_map("o")).await;
    hooked.hooks.on("/delete", |_| patch(json!([{"op": "add", "path": "/data/b", "value": "2"}])));
    let rules = json!([{"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]);
    hooked
        .configure(Kind::Mutating, "delete", &[hooked.webhook("/delete", json!({"rules": rules}))])
        .await;
    let refused = hooked.cluster.refused("admin", &format!("DELETE {CONFIG_MAPS}/o"), "").await;
    assert_eq!(
        refused,
        "500 Internal error occurred: admission webhook \"delete.hook.test\" attempted to modify the object, which is not supported for this operation"
    );
    assert!(hooked.stored(&format!("{CONFIG_MAPS}/o")).await);
    hooked.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_objects_are_pruned_and_defaulted_again() {
    let hooked = Hooked::start(&[]).await;
    let properties = json!({"spec": {"type": "object", "properties": {
        "size": {"type": "integer"},
        "color": {"type": "string", "default": "red"},
        "parts": {"type": "array", "items": {"type": "object", "properties": {
            "name": {"type": "string"}, "weight": {"type": "integer", "default": 1}}}}}}});
    let crd = json!({"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com",
        "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}]}});
    hooked
        .cluster
        .ok(
            "admin",
            "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            &crd.to_string(),
        )
        .await;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    hooked.cluster.until(&format!("GET {widgets}"), |answer| answer.0 == 200).await;
    hooked.hooks.on("/widget", |review| {
        assert_eq!(review["request"]["object"]["spec"]["color"], "red");
        patch(json!([
            {"op": "add", "path": "/spec/parts", "value": [{"name": "a", "unknown": 1}]},
            {"op": "remove", "path": "/spec/color"},
        ]))
    });
    let rules = json!([{"operations": ["CREATE"], "apiGroups": ["example.com"], "apiVersions": ["*"], "resources": ["*"]}]);
    hooked
        .configure(Kind::Mutating, "widget", &[hooked.webhook("/widget", json!({"rules": rules}))])
        .await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}});
    let made = hooked.cluster.ok("admin", &format!("POST {widgets}"), &widget.to_string()).await;
    assert_eq!(
        made["spec"],
        json!({"size": 1, "color": "red", "parts": [{"name": "a", "weight": 1}]})
    );
    hooked.stop().await;
}
