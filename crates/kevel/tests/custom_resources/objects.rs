//! The verbs of custom objects.

use futures_util::{StreamExt as _, TryStreamExt as _};
use kevel_test_support::{Cluster, soon};
use kube::ResourceExt as _;
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use serde_json::{Value, json};

use super::{CustomResources as _, failure, object, version, widgets};

fn sized() -> Value {
    let mut version = version(
        "v1",
        json!({
            "size": {"type": "integer", "minimum": 1},
            "color": {"type": "string", "default": "grey"},
        }),
    );
    version["subresources"] = json!({
        "status": {},
        "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.n"},
    });
    version["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
    json!([version])
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_created_changed_and_deleted() {
    let cluster = Cluster::alone().await;
    cluster.define(widgets(sized())).await;
    let widgets = cluster.objects("v1", "Widget");
    let new = object("v1", "Widget", "a", json!({"size": 3, "unknown": true}));
    let made = widgets.create(&PostParams::default(), &new).await.unwrap();
    assert_eq!(made.data["spec"], json!({"size": 3, "color": "grey"}));
    assert_eq!(made.metadata.generation, Some(1));
    let wrong = object("v1", "Widget", "b", json!({"size": 0}));
    let (code, message) = failure(widgets.create(&PostParams::default(), &wrong).await);
    assert_eq!(code, 422, "{message}");
    assert!(message.contains("should be greater than or equal to 1"), "{message}");
    // A change of what is wanted is counted, one of the labels is not.
    for (patch, generation) in
        [(json!({"spec": {"size": 4}}), 2), (json!({"metadata": {"labels": {"a": "b"}}}), 2)]
    {
        let params = PatchParams::default();
        let patched = widgets.patch("a", &params, &Patch::Merge(&patch)).await.unwrap();
        assert_eq!(patched.metadata.generation, Some(generation), "{patch}");
    }
    // The status has a path of its own, which writes nothing else.
    let patch =
        json!({"metadata": {"labels": {"c": "d"}}, "spec": {"size": 9}, "status": {"n": 2}});
    let patched = widgets.patch_status("a", &PatchParams::default(), &Patch::Merge(&patch)).await;
    let patched = patched.unwrap();
    assert_eq!(
        patched.data,
        json!({
            "spec": {"size": 4, "color": "grey"}, "status": {"n": 2},
        })
    );
    assert!(!patched.labels().contains_key("c"));
    let ignored = json!({"status": {"n": 5}});
    let kept = widgets.patch("a", &PatchParams::default(), &Patch::Merge(&ignored)).await.unwrap();
    assert_eq!(kept.data["status"], json!({"n": 2}));
    let scale = widgets.get_scale("a").await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(4));
    let patch = json!({"spec": {"replicas": 6}});
    widgets.patch_scale("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    let scaled = widgets.get("a").await.unwrap();
    assert_eq!(scaled.data["spec"]["size"], 6);
    for (selector, expected) in [("spec.color=grey", 1), ("spec.color=red", 0)] {
        let found = widgets.list(&ListParams::default().fields(selector)).await.unwrap();
        assert_eq!(found.items.len(), expected, "{selector}");
    }
    let refused = widgets.list(&ListParams::default().fields("spec.size=6")).await;
    assert_eq!(failure(refused), (400, "field label not supported: spec.size".to_owned()));
    widgets.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(failure(widgets.get("a").await).0, 404);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn appliers_own_what_they_name() {
    let cluster = Cluster::alone().await;
    let fields = json!({
        "size": {"type": "integer"},
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "port": {"type": "integer"},
            }},
        },
    });
    cluster.define(widgets(json!([version("v1", fields)]))).await;
    let widgets = cluster.objects("v1", "Widget");
    let apply = |manager: &'static str, spec: Value| {
        let (widgets, wanted) = (widgets.clone(), object("v1", "Widget", "a", spec));
        async move { widgets.patch("a", &PatchParams::apply(manager), &Patch::Apply(&wanted)).await }
    };
    apply("one", json!({"size": 1, "ports": [{"name": "a", "port": 1}]})).await.unwrap();
    let both = apply("two", json!({"ports": [{"name": "b", "port": 2}]})).await.unwrap();
    assert_eq!(both.data["spec"]["ports"].as_array().unwrap().len(), 2);
    let (code, message) = failure(apply("two", json!({"size": 2})).await);
    assert_eq!(code, 409);
    assert!(message.contains("conflict with \"one\": .spec.size"), "{message}");
    // A field that no manager applies any more is removed.
    let left = apply("two", json!({})).await.unwrap();
    assert_eq!(left.data["spec"]["ports"], json!([{"name": "a", "port": 1}]));
    let patch = json!({"spec": {"size": 1}});
    let refused = widgets.patch("a", &PatchParams::default(), &Patch::Strategic(&patch)).await;
    let (code, message) = failure(refused);
    assert_eq!(code, 415);
    assert!(message.ends_with("application/merge-patch+json, application/apply-patch+yaml"));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_end_when_their_definition_changes() {
    let cluster = Cluster::alone().await;
    cluster.define(widgets(sized())).await;
    let widgets = cluster.objects("v1", "Widget");
    let mut events =
        widgets.watch(&WatchParams::default().disable_bookmarks(), "0").await.unwrap().boxed();
    let new = object("v1", "Widget", "a", json!({"size": 1}));
    widgets.create(&PostParams::default(), &new).await.unwrap();
    widgets.delete("a", &DeleteParams::default()).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        seen.push(match soon(events.try_next()).await.unwrap().unwrap() {
            WatchEvent::Added(object) => format!("added {}", object.name_any()),
            WatchEvent::Deleted(object) => format!("deleted {}", object.name_any()),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(seen, ["added a", "deleted a"]);
    widgets.create(&PostParams::default(), &new).await.unwrap();
    assert!(matches!(soon(events.try_next()).await.unwrap(), Some(WatchEvent::Added(_))));
    // A new default appears in existing objects; watches have to list again.
    let patch = json!([{
        "op": "add",
        "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/shape",
        "value": {"type": "string", "default": "round"},
    }]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
    let params = PatchParams::default();
    cluster.definitions().patch("widgets.example.com", &params, &patch).await.unwrap();
    assert!(soon(events.try_next()).await.unwrap().is_none());
    let found = widgets.get("a").await.unwrap();
    assert_eq!(found.data["spec"]["shape"], "round");
    cluster.stop().await;
}
