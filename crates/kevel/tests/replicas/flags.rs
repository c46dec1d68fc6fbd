//! Flags of the storage that clients notice.

use kevel_test_support::{Replica, Replicas};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const EVENTS: &str = "/api/v1/namespaces/default/events";

async fn make(server: &Replica, path: &str, names: &[&str]) {
    for name in names {
        let mut object = json!({"metadata": {"name": name}});
        if path == EVENTS {
            object["involvedObject"] = json!({"namespace": "default"});
        }
        server.admin.create(path, &object).await;
    }
}

/// Number of items of a list, and whether it continues.
async fn list(server: &Replica, path: &str) -> (usize, bool) {
    let (code, list) = server.admin.get(path).await;
    assert_eq!(code, 200, "{list}");
    let more = list["metadata"]["continue"].as_str().is_some_and(|token| !token.is_empty());
    (list["items"].as_array().unwrap().len(), more)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn flags_of_the_storage_change_what_clients_see() {
    let Some(replicas) = Replicas::new().await else { return };
    let usual = replicas.start("usual", &[]).await;
    let other = [
        "--enable-garbage-collector=false",
        "--delete-collection-workers=3",
        "--watch-cache-sizes=configmaps#0,events#1",
        "--etcd-count-metric-poll-period=0",
        "--lease-reuse-duration-seconds=0",
    ];
    let other = replicas.start("other", &other).await;
    make(&usual, MAPS, &["a", "b", "c"]).await;
    make(&usual, EVENTS, &["a", "b", "c"]).await;

    // Any state, in parts: a list out of a cache is whole. There are more config maps than ours.
    let parts = |path: &str| format!("{path}?resourceVersion=0&limit=1");
    assert!(list(&usual, &parts(MAPS)).await.0 >= 3);
    assert_eq!(list(&usual, &parts(EVENTS)).await, (1, true));
    assert_eq!(list(&other, &parts(MAPS)).await, (1, true));
    assert!(list(&other, &parts(EVENTS)).await.0 >= 3);

    // An object without finalizers is removed at once.
    let delete = async |server: &Replica, name: &str| -> Value {
        let path = format!("{MAPS}/{name}?propagationPolicy=Foreground");
        let (code, _) = server.admin.send("DELETE", &path, &[], "").await;
        assert_eq!(code, 200);
        usual.admin.get(&format!("{MAPS}/{name}")).await.1["metadata"]["finalizers"].clone()
    };
    assert_eq!(delete(&usual, "a").await, json!(["foregroundDeletion"]));
    assert_eq!(delete(&other, "b").await, Value::Null);

    // Several at a time.
    let labels = json!({"metadata": {"labels": {"of": "many"}}});
    for number in 0..10 {
        let mut map = labels.clone();
        map["metadata"]["name"] = format!("many-{number}").into();
        usual.admin.create(MAPS, &map).await;
    }
    let many = format!("{MAPS}?labelSelector=of%3Dmany");
    let (code, deleted) = other.admin.send("DELETE", &many, &[], "").await;
    assert_eq!((code, deleted["items"].as_array().unwrap().len()), (200, 10));
    assert_eq!(list(&usual, &many).await, (0, false));

    // Objects are counted, unless that is off.
    let metrics = |server: &Replica| {
        let admin = server.admin.clone();
        async move { admin.raw("GET", "/metrics", &[], "").await.into_body() }
    };
    let counted = "apiserver_resource_objects{group=\"\",resource=\"events\"} 3";
    let shown = metrics(&usual).await;
    assert!(shown.contains(counted), "{shown}");
    assert!(
        shown.contains("apiserver_storage_objects{resource=\"roles.rbac.authorization.k8s.io\"}")
    );
    assert!(!metrics(&other).await.contains("apiserver_resource_objects"));

    // The checks are those of the reference, in its order, and some of our own.
    let ready = usual.admin.raw("GET", "/readyz?verbose", &[], "").await.into_body();
    let names: Vec<&str> = ready.lines().filter_map(|line| line.strip_prefix("[+]")).collect();
    let at = |name: &str| {
        let position = names.iter().position(|line| *line == format!("{name} ok"));
        position.unwrap_or_else(|| panic!("{name}: {ready}"))
    };
    let order = [
        "etcd-readiness",
        "informer-sync",
        "poststarthook/start-apiserver-admission-initializer",
        "poststarthook/generic-apiserver-start-informers",
        "poststarthook/crd-informer-synced",
        "poststarthook/start-system-namespaces-controller",
        "poststarthook/peer-endpoint-reconciler-controller",
        "poststarthook/storage-readiness",
        "poststarthook/rbac/bootstrap-roles",
        "autoregister-completion",
        "shutdown",
    ];
    assert!(order.map(at).is_sorted(), "{ready}");
    let live = usual.admin.raw("GET", "/livez?verbose", &[], "").await.into_body();
    assert!(live.contains("[+]loopback-serving-certificate ok"), "{live}");
    other.stop().await;
    usual.stop().await;
}
