//! kube-rs as a client: typed, dynamic, watchers.

#![allow(clippy::unwrap_used)]

use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kevel::Server;
use kevel_test_support::{Cluster, soon};
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent,
    WatchParams,
};
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::json;

async fn start() -> (Cluster, Client) {
    let cluster = Cluster::alone().await;
    let client = cluster.admin.0.clone();
    (cluster, client)
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": "test"}},
        "data": {"key": value},
    }))
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_created_changed_and_deleted() {
    let (cluster, client) = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let made = maps.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    assert!(made.uid().is_some() && made.resource_version().is_some());
    let mut changed = made.clone();
    changed.data.as_mut().unwrap().insert("key".into(), "2".into());
    let replaced = maps.replace("a", &PostParams::default(), &changed).await.unwrap();
    assert_ne!(replaced.resource_version(), made.resource_version());
    let conflict = maps.replace("a", &PostParams::default(), &changed).await.unwrap_err();
    assert!(matches!(conflict, kube::Error::Api(status) if status.code == 409));
    let patch = json!({"data": {"other": "3"}});
    let patched = maps.patch("a", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    assert_eq!(patched.data.unwrap().len(), 2);
    let selected = maps.list(&ListParams::default().labels("app=test")).await.unwrap();
    assert_eq!(selected.items.len(), 1);
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let missing = maps.get("a").await.unwrap_err();
    assert!(matches!(missing, kube::Error::Api(status) if status.reason == "NotFound"));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn managers_apply_what_they_own() {
    let (cluster, client) = start().await;
    let deployments: Api<Deployment> = Api::default_namespaced(client);
    let wanted = |replicas: i32| {
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "web", "image": "nginx"}]},
                },
            },
        })
    };
    let one = PatchParams::apply("one");
    let made = deployments.patch("web", &one, &Patch::Apply(wanted(1))).await.unwrap();
    assert_eq!(made.metadata.generation, Some(1));
    let two = PatchParams::apply("two");
    let refused = deployments.patch("web", &two, &Patch::Apply(wanted(2))).await.unwrap_err();
    let message = refused.to_string();
    assert!(message.contains("conflict with \"one\": .spec.replicas"), "{message}");
    let forced = deployments.patch("web", &two.force(), &Patch::Apply(wanted(2))).await.unwrap();
    assert_eq!(forced.spec.unwrap().replicas, Some(2));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_and_reflectors_follow() {
    let (cluster, client) = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let (reader, writer) = reflector::store();
    let config = watcher::Config::default().labels("app=test").streaming_lists();
    let mut followed = watcher(maps.clone(), config).default_backoff().reflect(writer).boxed();
    let ours = WatchParams::default().labels("app=test");
    let mut events = maps.watch(&ours, "0").await.unwrap().boxed();
    for i in 0..3 {
        let made = maps.create(&PostParams::default(), &config_map(&format!("m{i}"), "x")).await;
        made.unwrap();
    }
    let mut added = Vec::new();
    while added.len() < 3 {
        if let WatchEvent::Added(map) = soon(events.try_next()).await.unwrap().unwrap() {
            added.push(map.name_any());
        }
    }
    assert_eq!(added, ["m0", "m1", "m2"]);
    while reader.len() < 3 {
        soon(followed.try_next()).await.unwrap().unwrap();
    }
    maps.delete("m1", &DeleteParams::default()).await.unwrap();
    while reader.len() > 2 {
        soon(followed.try_next()).await.unwrap().unwrap();
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_are_discovered() {
    let (cluster, client) = start().await;
    let found = kube::discovery::Discovery::new(client.clone()).run_aggregated().await.unwrap();
    let group = found.get("apps").unwrap();
    let (resource, capabilities) = group.recommended_kind("Deployment").unwrap();
    assert!(capabilities.subresources.iter().any(|(sub, _)| sub.plural == "scale"));
    let objects: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
    assert_eq!(objects.list(&ListParams::default()).await.unwrap().items.len(), 0);
    assert_eq!(Deployment::plural(&()), resource.plural);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_there_after_a_restart() {
    let directory = std::env::temp_dir().join(format!("kevel-restart-{}", std::process::id()));
    for round in 0..2 {
        let cluster = Cluster::with(Server::builder().data_dir(&directory)).await;
        let client = cluster.admin.0.clone();
        let namespaces: Api<Namespace> = Api::all(client);
        let name = format!("round-{round}");
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        for earlier in 0..=round {
            namespaces.get(&format!("round-{earlier}")).await.unwrap();
        }
        cluster.stop().await;
    }
    std::fs::remove_dir_all(&directory).unwrap();
}
