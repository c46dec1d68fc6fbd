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
        let expected = if name == "vc1" { json!({name: name}) } else { json!({}) };
        assert_eq!(seen.data["spec"], expected, "the stored version has its defaults");
    }
    cluster.stop().await;
}

const OLD: &str = "/apis/example.com/v1beta1/namespaces/default/widgets";

/// Two versions, of which `v1` is stored, each with fields and defaults of its own in `spec` and `status`.
fn defaulted(old: &Value, new: &Value) -> Value {
    let version = |name: &str, defaults: &Value| {
        let fields = ["a", "c", "v1", "v1beta1"].map(|field| {
            let mut schema = json!({"type": "string"});
            if defaults.as_array().unwrap().iter().any(|defaulted| defaulted == field) {
                schema["default"] = name.into();
            }
            (field.to_owned(), schema)
        });
        let part = json!({"type": "object", "properties": serde_json::Map::from_iter(fields)});
        json!({"name": name, "served": true, "storage": name == "v1", "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": part, "status": part}}}})
    };
    json!([version("v1beta1", old), version("v1", new)])
}

/// Gives the definition other defaults, and waits until they are the ones that objects get.
async fn redefine(cluster: &Cluster, old: Value, new: Value) {
    let patch = json!({"spec": {"versions": defaulted(&old, &new)}});
    let params = PatchParams::default();
    let definitions = cluster.definitions();
    definitions.patch("widgets.example.com", &params, &Patch::Merge(&patch)).await.unwrap();
    let probe = json!({"apiVersion": "example.com/v1beta1", "kind": "Widget", "metadata": {"name": "probe"},
        "spec": {}}).to_string();
    let expected = |defaults: &Value, made: &Value, version: &str| {
        ["a", "c", "v1", "v1beta1"].iter().all(|field| {
            let wanted = defaults.as_array().unwrap().iter().any(|defaulted| defaulted == field);
            wanted == (made["spec"][field] == version)
        })
    };
    let admit = format!("POST {OLD}?dryRun=All");
    cluster.until_ok(&admit, &probe, |made| expected(&old, made, "v1beta1")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn defaults_are_those_of_requests_and_of_the_stored_version() {
    let cluster = Cluster::alone().await;
    cluster.define(widgets(defaulted(&json!(["a", "v1beta1"]), &json!(["a", "v1"])))).await;
    let widget = json!({"apiVersion": "example.com/v1beta1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {}});
    let created = json!({"a": "v1beta1", "v1": "v1", "v1beta1": "v1beta1"});
    for (query, what) in [("?dryRun=All", "a dry run"), ("", "a create")] {
        let made = cluster.ok("admin", &format!("POST {OLD}{query}"), &widget.to_string()).await;
        assert_eq!(made["spec"], created, "{what}");
    }
    // A default that only requests of the version get is not one of what is there.
    redefine(&cluster, json!(["a", "c", "v1beta1"]), json!(["a", "v1"])).await;
    let path = format!("{OLD}/a");
    let found = cluster.ok("admin", &format!("GET {path}"), "").await;
    assert_eq!(found["spec"], created, "get");
    let list = cluster.ok("admin", &format!("GET {OLD}"), "").await;
    assert_eq!(list["items"][0]["spec"], created, "list");
    let watch = cluster.objects("v1beta1", "Widget");
    let mut events = watch.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let Some(WatchEvent::Added(seen)) = events.try_next().await.unwrap() else {
        panic!("no event")
    };
    assert_eq!(seen.data["spec"], created, "watch");
    // The status is what the request says, with the defaults of its version; the rest is what was there.
    let mut changed = found.clone();
    changed["status"] = json!({});
    let written = cluster.ok("admin", &format!("PUT {path}/status"), &changed.to_string()).await;
    assert_eq!(written["spec"], created, "status");
    let status = json!({"a": "v1beta1", "c": "v1beta1", "v1": "v1", "v1beta1": "v1beta1"});
    assert_eq!(written["status"], status);
    // A default of the stored version is one of what is there, in whichever version it is read.
    redefine(&cluster, json!(["a", "v1beta1"]), json!(["a", "c", "v1"])).await;
    let mut expected = created.clone();
    expected["c"] = "v1".into();
    let found =
        cluster.until_ok(&format!("GET {path}"), "", |found| found["spec"]["c"] == "v1").await;
    assert_eq!((&found["spec"], &found["status"]), (&expected, &status));
    let patch = json!({"spec": {"v1beta1": "patched"}}).to_string();
    let patched = cluster.ok("admin", &format!("PATCH {path}"), &patch).await;
    expected["v1beta1"] = "patched".into();
    assert_eq!(patched["spec"], expected);
    cluster.stop().await;
}

/// An object that is stored in a version keeps what only that version has, whichever version is stored now.
#[tokio::test(flavor = "multi_thread")]
async fn fields_of_the_version_an_object_is_stored_in_stay() {
    let cluster = Cluster::alone().await;
    cluster.define(widgets(two_versions())).await;
    let new = object("v1", "Widget", "a", json!({"size": 1, "color": "red"}));
    cluster.objects("v1", "Widget").create(&PostParams::default(), &new).await.unwrap();
    let mut versions = two_versions();
    versions[0]["storage"] = true.into();
    versions[1]["storage"] = false.into();
    let patch = json!({"spec": {"versions": versions}});
    let params = PatchParams::default();
    let definitions = cluster.definitions();
    definitions.patch("widgets.example.com", &params, &Patch::Merge(&patch)).await.unwrap();
    // Served by the new definition when what it stores is.
    let probe = object("v1", "Widget", "b", json!({"color": "blue"}));
    let probe = serde_json::to_string(&probe).unwrap();
    let new = "/apis/example.com/v1/namespaces/default/widgets";
    let stored = |made: &Value| made["spec"].get("color").is_none();
    cluster.until_ok(&format!("POST {new}?dryRun=All"), &probe, stored).await;
    let found = cluster.ok("admin", &format!("GET {new}/a"), "").await;
    assert_eq!(found["spec"], json!({"size": 1, "color": "red"}));
    assert_eq!(cluster.ok("admin", &format!("GET {OLD}/a"), "").await["spec"], json!({"size": 1}));
    // A write that changes nothing stores it in the version of now.
    let written = cluster.ok("admin", &format!("PUT {new}/a"), &found.to_string()).await;
    assert_ne!(written["metadata"]["resourceVersion"], found["metadata"]["resourceVersion"]);
    assert_eq!(written["spec"], json!({"size": 1}));
    cluster.stop().await;
}
