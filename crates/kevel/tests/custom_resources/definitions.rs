//! The life of definitions.

use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kevel::Server;
use kevel_test_support::{Cluster, soon};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher;
use serde_json::{Value, json};

use super::{CustomResources as _, definition, failure, object, objects, version, widgets};
#[tokio::test(flavor = "multi_thread")]
async fn names_are_given_once() {
    let cluster = Cluster::alone().await;
    let first = cluster.define(widgets(json!([version("v1", json!({}))]))).await;
    let status = cluster.definitions().get(&first.name_any()).await.unwrap().status.unwrap();
    let names = serde_json::to_value(status.accepted_names).unwrap();
    assert_eq!(
        names,
        json!({
            "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList",
        })
    );
    assert_eq!(status.stored_versions.unwrap(), ["v1"]);
    // Another one wants the same kinds: it waits until they are free.
    let second = definition("gadgets", "Widget", json!([version("v1", json!({}))]));
    let second = serde_json::from_value(second).unwrap();
    let definitions = cluster.definitions();
    definitions.create(&PostParams::default(), &second).await.unwrap();
    let refused = |found: Option<&_>| condition(found, "NamesAccepted") == "False ListKindConflict";
    await_condition(definitions.clone(), "gadgets.example.com", refused).await.unwrap();
    assert_eq!(cluster.get("/apis/example.com/v1/gadgets").await.0, 404);
    definitions.delete("widgets.example.com", &DeleteParams::default()).await.unwrap();
    cluster.established("gadgets.example.com").await;
    assert_eq!(cluster.get("/apis/example.com/v1/gadgets").await.0, 200);
    cluster.stop().await;
}

fn condition(found: Option<&CustomResourceDefinition>, ty: &str) -> String {
    let status = found.and_then(|found| found.status.as_ref());
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let found = conditions.into_iter().flatten().find(|condition| condition.type_ == ty);
    found.map_or(String::new(), |found| {
        format!("{} {}", found.status, found.reason.clone().unwrap_or_default())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_go_with_their_definition() {
    let cluster = Cluster::alone().await;
    cluster.define(widgets(json!([version("v1", json!({"size": {"type": "integer"}}))]))).await;
    let widgets = cluster.objects("v1", "Widget");
    let mut held = object("v1", "Widget", "held", json!({"size": 1}));
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    widgets.create(&PostParams::default(), &held).await.unwrap();
    let free = object("v1", "Widget", "free", json!({"size": 1}));
    widgets.create(&PostParams::default(), &free).await.unwrap();
    let definitions = cluster.definitions();
    let name = "widgets.example.com";
    let going = definitions.delete(name, &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(going.finalizers(), ["customresourcecleanup.apiextensions.k8s.io"]);
    // One object has another client's finalizer, and so keeps the definition.
    let mut seen = watcher(widgets.clone(), watcher::Config::default()).boxed();
    loop {
        let _ = soon(seen.try_next()).await;
        let left = widgets.list(&ListParams::default()).await.unwrap();
        let going = |object: &DynamicObject| object.metadata.deletion_timestamp.is_some();
        if left.items.iter().all(|object| object.name_any() == "held" && going(object)) {
            break;
        }
    }
    let (code, message) = failure(widgets.create(&PostParams::default(), &free).await);
    assert_eq!(code, 403);
    let why = "create not allowed while custom resource definition is terminating";
    assert!(message.ends_with(why), "{message}");
    let patch = json!({"metadata": {"finalizers": null}});
    widgets.patch("held", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    let uid = going.uid().unwrap();
    let gone = conditions::is_deleted(&uid);
    await_condition(definitions.clone(), name, gone).await.unwrap();
    let (code, text) = cluster.get("/apis/example.com/v1/namespaces/default/widgets").await;
    assert_eq!((code, text.as_str()), (404, "404 page not found\n"));
    // Its group goes with its APIService, which is looked after by another.
    cluster.until("GET /apis/example.com", |answer| answer.0 == 404).await;
    // A definition of the same name finds nothing of what was.
    cluster.define(super::widgets(json!([version("v1", json!({}))]))).await;
    assert!(widgets.list(&ListParams::default()).await.unwrap().items.is_empty());
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_are_served_before_readiness_after_restart() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::with(Server::builder().data_dir(folder.path())).await;
    cluster.define(widgets(json!([version("v1", json!({"size": {"type": "integer"}}))]))).await;
    let new = object("v1", "Widget", "a", json!({"size": 1}));
    cluster.objects("v1", "Widget").create(&PostParams::default(), &new).await.unwrap();
    cluster.stop().await;
    let server = Server::builder().data_dir(folder.path()).start().await.unwrap();
    let client = kube::Client::try_from(server.client_config().await.unwrap()).unwrap();
    let found = objects(client, "v1", "Widget").get("a").await.unwrap();
    assert_eq!(found.data["spec"], json!({"size": 1}));
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_are_judged() {
    let cluster = Cluster::alone().await;
    let create = |definition: Value| {
        let definitions = cluster.definitions();
        async move {
            let definition = serde_json::from_value(definition).unwrap();
            definitions.create(&PostParams::default(), &definition).await
        }
    };
    let mut misnamed = widgets(json!([version("v1", json!({}))]));
    misnamed["metadata"]["name"] = "other.example.com".into();
    let (code, message) = failure(create(misnamed).await);
    assert_eq!(code, 422);
    assert!(message.contains("must be spec.names.plural+\".\"+spec.group"), "{message}");
    let mut protected = widgets(json!([version("v1", json!({}))]));
    protected["metadata"]["name"] = "widgets.x.k8s.io".into();
    protected["spec"]["group"] = "x.k8s.io".into();
    let (code, message) = failure(create(protected.clone()).await);
    assert_eq!(code, 422);
    assert!(message.contains("protected groups must have approval annotation"), "{message}");
    protected["metadata"]["annotations"] =
        json!({"api-approved.kubernetes.io": "unapproved, test"});
    create(protected).await.unwrap();
    let judged = |found: Option<&_>| {
        condition(found, "KubernetesAPIApprovalPolicyConformant") == "False UnapprovedAnnotation"
    };
    await_condition(cluster.definitions(), "widgets.x.k8s.io", judged).await.unwrap();
    cluster.stop().await;
}

/// Instances are deleted where they are stored: neither what is served of them nor a webhook that refuses keeps them.
#[tokio::test(flavor = "multi_thread")]
async fn instances_of_deleted_definition_go_served_or_not() {
    let cluster = Cluster::alone().await;
    let hook = json!({
        "metadata": {"name": "unreachable"},
        "webhooks": [{
            "name": "unreachable.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:1/"}, "failurePolicy": "Fail",
            "rules": [{"apiGroups": ["example.com"], "apiVersions": ["*"], "resources": ["*"],
                "operations": ["DELETE"]}],
        }],
    });
    let hooks = "POST /apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    cluster.ok("admin", hooks, &hook.to_string()).await;
    let widgets = cluster.objects("v1", "Widget");
    for served in [true, false] {
        let mut definition = widgets_of_one_version();
        cluster.define(definition.clone()).await;
        for name in ["a", "b"] {
            let new = object("v1", "Widget", name, json!({}));
            widgets.create(&PostParams::default(), &new).await.unwrap();
        }
        let refused = async || {
            let deleted = widgets.delete("a", &DeleteParams::default().dry_run()).await;
            deleted.is_err_and(|error| error.to_string().contains("failed calling webhook"))
        };
        kevel_test_support::until(refused).await;
        let definitions = cluster.definitions();
        let name = "widgets.example.com";
        if !served {
            definition["spec"]["versions"][0]["served"] = false.into();
            let patch = json!({"spec": {"versions": definition["spec"]["versions"]}});
            let patch = Patch::Merge(&patch);
            definitions.patch(name, &PatchParams::default(), &patch).await.unwrap();
            cluster.until("GET /apis/example.com/v1/widgets", |(code, _)| *code == 404).await;
        }
        definitions.delete(name, &DeleteParams::default()).await.unwrap();
        let path = format!("GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        cluster.until(&path, |(code, _)| *code == 404).await;
        cluster.define(widgets_of_one_version()).await;
        let left = widgets.list(&ListParams::default()).await.unwrap();
        assert!(left.items.is_empty(), "served: {served}");
        definitions.delete(name, &DeleteParams::default()).await.unwrap();
        cluster.until(&path, |(code, _)| *code == 404).await;
    }
    cluster.stop().await;
}

fn widgets_of_one_version() -> Value {
    widgets(json!([version("v1", json!({}))]))
}
