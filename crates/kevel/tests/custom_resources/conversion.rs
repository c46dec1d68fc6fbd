//! Versions of one kind, one of which is stored.

use futures_util::{StreamExt as _, TryStreamExt as _};
use kevel_test_support::Cluster;
use kube::api::{Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};

use super::{CustomResources as _, object, version, widgets};

fn two_versions() -> Value {
    let mut old = version("v1beta1", json!({"size": {"type": "integer"}}));
    old["storage"] = false.into();
    old["deprecated"] = true.into();
    let new = version(
        "v1",
        json!({
            "size": {"type": "integer"}, "color": {"type": "string", "default": "grey"},
        }),
    );
    json!([old, new])
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_are_the_same_object_under_another_name() {
    let cluster = Cluster::alone().await;
    cluster.define(widgets(two_versions())).await;
    let (old, new) = (cluster.objects("v1beta1", "Widget"), cluster.objects("v1", "Widget"));
    let first = object("v1beta1", "Widget", "a", json!({"size": 1}));
    let made = old.create(&PostParams::default(), &first).await.unwrap();
    assert_eq!(made.types.unwrap().api_version, "example.com/v1beta1");
    // What only one version has, the other does not show, and keeps no record of.
    assert_eq!(made.data["spec"], json!({"size": 1}));
    let found = new.get("a").await.unwrap();
    assert_eq!(found.data["spec"], json!({"size": 1, "color": "grey"}));
    let patch = json!({"spec": {"color": "red"}});
    new.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    let listed = old.list(&Default::default()).await.unwrap();
    assert_eq!(listed.items[0].data["spec"], json!({"size": 1}));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_outlive_the_version_they_were_stored_in() {
    let cluster = Cluster::alone().await;
    cluster.define(widgets(two_versions())).await;
    let new = object("v1", "Widget", "a", json!({"size": 1, "color": "red"}));
    cluster.objects("v1", "Widget").create(&PostParams::default(), &new).await.unwrap();
    let mut versions = two_versions();
    versions[0]["storage"] = true.into();
    versions[1]["storage"] = false.into();
    let patch = json!({"spec": {"versions": versions}});
    let definitions = cluster.definitions();
    let params = PatchParams::default();
    let name = "widgets.example.com";
    let changed = definitions.patch(name, &params, &Patch::Merge(&patch)).await.unwrap();
    assert_eq!(changed.status.unwrap().stored_versions.unwrap(), ["v1", "v1beta1"]);
    let path = "/apis/example.com/v1beta1/namespaces/default/widgets/a";
    // The definition is followed, not waited for.
    let sized = |answer: &(u16, String)| answer.1.contains(r#""spec":{"size":1}"#);
    let (_, found) = cluster.until_sent("admin", &format!("GET {path}"), "", sized).await;
    assert!(found.starts_with(r#"{"apiVersion":"example.com/v1beta1","kind":"Widget","#));
    cluster.stop().await;
}

/// The names of these versions have the same value as numbers to the base of 31, which once told the
/// forms of events apart.
#[tokio::test(flavor = "multi_thread")]
async fn watchers_get_the_version_that_they_asked_for() {
    let cluster = Cluster::alone().await;
    let only = |name: &str| version(name, json!({name: {"type": "string", "default": name}}));
    let names = ["vc1", "vao"];
    let mut versions: Vec<Value> = names.into_iter().map(only).collect();
    versions[1..].iter_mut().for_each(|version| version["storage"] = false.into());
    cluster.define(widgets(versions.into())).await;
    let start = cluster.objects("vc1", "Widget").list(&Default::default()).await.unwrap();
    let start = start.metadata.resource_version.unwrap();
    let mut watches = Vec::new();
    for name in names {
        let watch = cluster.objects(name, "Widget");
        watches.push(watch.watch(&WatchParams::default(), &start).await.unwrap().boxed());
    }
    let new = object("vc1", "Widget", "a", json!({}));
    cluster.objects("vc1", "Widget").create(&PostParams::default(), &new).await.unwrap();
    for (name, watch) in names.into_iter().zip(&mut watches) {
        let Some(WatchEvent::Added(seen)) = watch.try_next().await.unwrap() else {
            panic!("{name}: no event")
        };
        assert_eq!(seen.types.unwrap().api_version, format!("example.com/{name}"));
        assert_eq!(seen.data["spec"], json!({name: name}));
    }
    cluster.stop().await;
}
