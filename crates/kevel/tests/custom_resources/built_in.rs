//! Definitions that bear the names of built-in kinds: they neither shadow nor delete anything of those.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use kevel_api::builtin;
use kevel_test_support::{Cluster, until};
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

/// Documents that clients see of the built-in kinds: their discovery, OpenAPI and objects, by path. What they say of
/// version v9, which is nowhere built in, is left out.
async fn seen(cluster: &Cluster) -> BTreeMap<String, String> {
    let mut seen = BTreeMap::new();
    let groups = cluster.ok("admin", "GET /apis", "").await["groups"].clone();
    let aggregated = aggregated(cluster).await["items"].clone();
    for (path, groups) in [("/apis", groups), ("aggregated discovery", aggregated)] {
        let group = |group: &Value| {
            let name = group.get("name").unwrap_or(&group["metadata"]["name"]);
            let mut versions = group["versions"].as_array().unwrap().clone();
            versions.retain(|version| version["version"] != "v9");
            json!({"name": name, "versions": versions})
        };
        let groups: Vec<Value> = groups.as_array().unwrap().iter().map(group).collect();
        seen.insert(path.to_owned(), json!(groups).to_string());
    }
    let mut openapi = cluster.ok("admin", "GET /openapi/v2", "").await;
    openapi["paths"].as_object_mut().unwrap().retain(|path, _| !path.contains("/v9"));
    openapi["definitions"].as_object_mut().unwrap().retain(|name, _| !name.contains(".v9."));
    seen.insert("/openapi/v2".to_owned(), openapi.to_string());
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
            let names = names.map(|item| item["metadata"]["name"].to_string());
            let names: Vec<String> = names.filter(|name| !name.starts_with("\"v9.")).collect();
            seen.insert(path, format!("{} {}", list["kind"], names.join(" ")));
        }
    }
    seen
}

async fn aggregated(cluster: &Cluster) -> Value {
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let answer = cluster.admin.raw("GET", "/apis", &[("accept", accept)], "").await;
    serde_json::from_str(&answer.into_body()).unwrap()
}

/// Plurals of a version in the aggregated document, if the version is there.
fn plurals(document: &Value, group: &str, version: &str) -> Option<Vec<String>> {
    let mut groups = document["items"].as_array()?.iter();
    let group = groups.find(|item| item["metadata"]["name"] == group)?;
    let mut versions = group["versions"].as_array()?.iter();
    let version = versions.find(|item| item["version"] == version)?;
    let resources = version["resources"].as_array().into_iter().flatten();
    Some(resources.map(|resource| resource["resource"].as_str().unwrap().to_owned()).collect())
}

/// As on the reference: listed, preferred, and not answered.
#[tokio::test(flavor = "multi_thread")]
async fn another_version_of_a_built_in_group_is_listed_alone() {
    const GROUP: &str = "apiextensions.k8s.io";
    let cluster = Cluster::alone().await;
    let version = |name: &str| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({"name": name, "served": true, "storage": name == "v1",
            "schema": {"openAPIV3Schema": schema}})
    };
    let definition = json!({
        "metadata": {
            "name": format!("bars.{GROUP}"),
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": {"plural": "bars", "kind": "Bar"},
            "versions": [version("v1"), version("v2"), version("vfake")],
        },
    });
    cluster.ok("admin", &format!("POST {DEFINITIONS}"), &definition.to_string()).await;
    until(async || {
        let document = aggregated(&cluster).await;
        plurals(&document, GROUP, "vfake") == Some(vec!["bars".to_owned()])
    })
    .await;
    let document = aggregated(&cluster).await;
    assert_eq!(plurals(&document, GROUP, "v1").unwrap(), ["customresourcedefinitions"]);
    let listed = |(_, groups): &(u16, String)| groups.contains("apiextensions.k8s.io/vfake");
    cluster.until("GET /apis", listed).await;
    for path in ["/apis/apiextensions.k8s.io/vfake", "/apis/apiextensions.k8s.io/vfake/bars"] {
        assert_eq!(cluster.get(path).await.0, 404, "{path}");
    }
    assert_eq!(cluster.get("/apis/apiextensions.k8s.io/v1/namespaces/default/bars").await.0, 404);
    let version = cluster.get("/apis/apiextensions.k8s.io/v1").await.1;
    assert!(!version.contains("\"bars\""), "{version}");
    let path = format!("{DEFINITIONS}/bars.{GROUP}");
    cluster.ok("admin", &format!("DELETE {path}"), "").await;
    cluster.until(&format!("GET {path}"), |(code, _)| *code == 404).await;
    cluster.until("GET /apis", |answer| !listed(answer)).await;
    until(async || plurals(&aggregated(&cluster).await, GROUP, "vfake").is_none()).await;
    assert_eq!(cluster.get(DEFINITIONS).await.0, 200);
    cluster.stop().await;
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
