//! Events and snapshots of one resource, taken in out of step.

use kevel_registry::admission::Admission;
use kevel_registry::storage::Format;
use kevel_server::endpoints::{Endpoints, MIN_REQUEST_TIMEOUT};
use kevel_store::cache::{At, Selection};
use kevel_test_support::InMemory;

use super::super::follow::Sources;
use super::*;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A server without roles and bindings, and their storages.
async fn server() -> (InMemory, Sources) {
    let mut sources = None;
    let server = InMemory::empty(Format::Json, |storages| {
        sources = Some(Sources::of(storages).unwrap());
        Endpoints {
            admission: Admission::new(Vec::new()),
            authorizer: None,
            min_request_timeout: MIN_REQUEST_TIMEOUT,
            connecters: Default::default(),
            features: Default::default(),
            shard_selectors: None,
        }
    });
    let server = server.await;
    (server, sources.unwrap())
}

async fn take_snapshots(rbac: &Rbac, sources: &Sources) {
    for kind in Kind::ALL {
        let storage = sources.get(kind);
        let snapshot = storage.cache.snapshot(At::Consistent).await.unwrap();
        rbac.take_all(kind, storage, &snapshot).await;
    }
}

async fn create_role(server: &InMemory, name: &str) {
    let rule = r#"{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}"#;
    let role = format!(r#"{{"metadata":{{"name":"{name}"}},"rules":[{rule}]}}"#);
    server.ok(&format!("POST {RBAC}/clusterroles"), &role, 201).await;
}

/// The watch tells of the first binding, and is lost; the cache is loaded again after the deletion. Both snapshots
/// are empty, and so is the tree of each.
#[tokio::test]
async fn binding_deleted_while_the_watch_was_lost_grants_nothing() {
    let (server, sources) = server().await;
    create_role(&server, "view").await;
    let rbac = Rbac::new(sources.clone());
    let storage = &sources.cluster_role_bindings;
    let watch = storage.cache.list_watch(Selection::default(), At::Consistent);
    let (_, mut watcher) = watch.await.unwrap();
    take_snapshots(&rbac, &sources).await;
    let jane = user("jane", &[]);
    let decision = || rbac.decide(&asked(&jane, "get - pods")).decision;
    assert_eq!((rbac.has_synced(), decision()), (true, Decision::NoOpinion));
    let binding = r#"{"metadata":{"name":"b"},"subjects":[{"kind":"User","name":"jane"}],"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"}}"#;
    server.ok(&format!("POST {RBAC}/clusterrolebindings"), binding, 201).await;
    let mut seen = Vec::new();
    watcher.next(&mut seen).await.unwrap();
    rbac.take(Kind::ClusterRoleBinding, storage, seen.drain(..)).await;
    assert_eq!(decision(), Decision::Allow);
    let latest = storage.cache.snapshot(At::Consistent).await.unwrap().revision();
    // A cache that has never had a binding, at a later revision.
    let (reloaded, sources) = self::server().await;
    let storage = &sources.cluster_role_bindings;
    let mut number = 0;
    let empty = loop {
        let snapshot = storage.cache.snapshot(At::Consistent).await.unwrap();
        if snapshot.revision() > latest {
            break snapshot;
        }
        number += 1;
        assert!(number < 100, "revisions do not grow");
        create_role(&reloaded, &format!("r{number}")).await;
    };
    rbac.take_all(Kind::ClusterRoleBinding, storage, &empty).await;
    assert_eq!(decision(), Decision::NoOpinion);
}
