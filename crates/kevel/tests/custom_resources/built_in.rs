//! Definitions that bear the names of built-in kinds: they neither shadow nor delete anything of those.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use kevel_api::builtin;
use kevel_test_support::Cluster;
use serde_json::{Value, json};

use super::CustomResources as _;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// Built-in kinds whose group a definition may have: one that is a domain.
fn kinds() -> impl Iterator<Item = &'static builtin::Resource> {
    let all = builtin::resources().iter();
    all.filter(|kind| kind.on && kind.group.contains('.') && !kind.path.contains('/'))
}

/// A definition with a built-in kind's names, in all of its versions and one that is nowhere built in.
fn definition(kind: &builtin::Resource) -> Value {
    let same = |other: &&builtin::Resource| (other.group, other.path) == (kind.group, kind.path);
    let versions: BTreeSet<&str> = kinds().filter(same).map(|kind| kind.version).collect();
    let versions = versions.into_iter().chain(["v9"]).map(|name| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({"name": name, "served": true, "storage": name == "v9",
            "schema": {"openAPIV3Schema": schema}})
    });
    json!({
        "metadata": {
            "name": format!("{}.{}", kind.path, kind.group),
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {
            "group": kind.group,
            "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
            "names": {"plural": kind.path, "kind": kind.kind},
            "versions": versions.collect::<Vec<_>>(),
        },
    })
}

/// Documents that clients see of the built-in kinds: their discovery, OpenAPI and objects, by path.
async fn seen(cluster: &Cluster) -> BTreeMap<String, String> {
    let mut seen = BTreeMap::new();
    for path in ["/apis", "/openapi/v2"] {
        seen.insert(path.to_owned(), cluster.get(path).await.1);
    }
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let aggregated = cluster.admin.raw("GET", "/apis", &[("accept", aggregated)], "").await;
    seen.insert("aggregated discovery".to_owned(), aggregated.into_body());
    for kind in kinds() {
        let version = format!("apis/{}/{}", kind.group, kind.version);
        for path in [format!("/{version}"), format!("/openapi/v3/{version}")] {
            if let Entry::Vacant(unseen) = seen.entry(path) {
                let document = cluster.get(unseen.key()).await;
                assert_eq!(document.0, 200, "{}", unseen.key());
                unseen.insert(document.1);
            }
        }
        if kind.verbs.contains(&"list") && kind.path != "customresourcedefinitions" {
            let path = format!("/{version}/{}", kind.path);
            let list = cluster.ok("admin", &format!("GET {path}"), "").await;
            let names = list["items"].as_array().unwrap().iter();
            let names: Vec<_> = names.map(|item| item["metadata"]["name"].to_string()).collect();
            seen.insert(path, format!("{} {}", list["kind"], names.join(" ")));
        }
    }
    seen
}

fn assert_same(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>, when: &str) {
    for (path, text) in before {
        assert_eq!(Some(text), after.get(path), "{path} {when}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_named_like_built_in_kinds_change_nothing_of_them() {
    let cluster = Cluster::alone().await;
    let own = json!({
        "metadata": {"name": "v1.remote.example.com"},
        "spec": {"group": "remote.example.com", "version": "v1", "groupPriorityMinimum": 100,
            "versionPriority": 10, "service": {"name": "remote", "namespace": "default"}},
    });
    cluster.ok("admin", &format!("POST {API_SERVICES}"), &own.to_string()).await;
    cluster.until("GET /apis", |(_, groups)| groups.contains("remote.example.com")).await;
    let before = seen(&cluster).await;
    assert!(before.len() > 60, "{}", before.len());
    let mut names = BTreeSet::new();
    for kind in kinds() {
        let definition = definition(kind);
        if names.insert(definition["metadata"]["name"].as_str().unwrap().to_owned()) {
            cluster.ok("admin", &format!("POST {DEFINITIONS}"), &definition.to_string()).await;
        }
    }
    assert!(names.contains("apiservices.apiregistration.k8s.io"), "{names:?}");
    assert!(names.contains("customresourcedefinitions.apiextensions.k8s.io"), "{names:?}");
    for name in &names {
        let is_established = |definition: &Value| condition(definition, "Established") == "True";
        cluster.until_ok(&format!("GET {DEFINITIONS}/{name}"), "", is_established).await;
    }
    assert_same(&before, &seen(&cluster).await, "with the definitions");
    for name in &names {
        cluster.ok("admin", &format!("DELETE {DEFINITIONS}/{name}"), "").await;
    }
    for name in &names {
        cluster.until(&format!("GET {DEFINITIONS}/{name}"), |(code, _)| *code == 404).await;
    }
    assert_same(&before, &seen(&cluster).await, "without them");
    // What is written afterwards is served as ever.
    let path = format!("{API_SERVICES}/v1.remote.example.com");
    cluster.ok("admin", &format!("DELETE {path}"), "").await;
    cluster.until(&format!("GET {path}"), |(code, _)| *code == 404).await;
    cluster.define(super::widgets(json!([super::version("v1", json!({}))]))).await;
    cluster.stop().await;
}

fn condition(definition: &Value, ty: &str) -> String {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.into_iter().find(|condition| condition["type"] == ty);
    found.map_or(String::new(), |found| found["status"].as_str().unwrap_or_default().to_owned())
}
